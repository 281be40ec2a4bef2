//! The slot's lock as the engine handle holds it.

use crate::io::File;
use crate::io::sys::RealFs;
use crate::steward::Incarnation;

/// Gives the lock back when it goes, if nobody did before.
///
/// Closing the descriptors would release it too, but not at once: the ring has the lock registered
/// and the kernel takes rings down behind our back. A start that fails half-way, and a shard that
/// panicked, must not leave the slot locked for whoever opens it next. Nothing is in flight here:
/// the ring waits for its operations when it is dropped, and it went before.
#[derive(Debug)]
pub(super) struct HeldLock(Option<Incarnation>);

impl HeldLock {
    /// Looks after a slot that is held; `None` in memory mode.
    pub(super) fn new(slot: Option<Incarnation>) -> Self {
        Self(slot)
    }

    /// The descriptor.
    pub(super) fn file(&self) -> Option<&File> {
        self.0.as_ref().map(Incarnation::lock_file)
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if let Some(slot) = &self.0 {
            // Releasing twice is fine; and there is nobody to tell.
            let _ = slot.release(&RealFs);
        }
    }
}
