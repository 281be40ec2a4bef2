//! What is asked of a shard beside taking rows in: a sync, room for symbols, a fence before frames
//! that must wait, durable acknowledgements.

use std::sync::atomic::Ordering;

use super::Gate;
use crate::fsn::Fsn;

impl Gate {
    /// Somebody begins (1) or ends (-1) waiting for stable.
    pub(crate) fn stable_waiters(&self, change: i32) {
        self.stable_waiters.fetch_add(change, Ordering::AcqRel);
    }

    /// Whether somebody waits for stable.
    #[inline]
    pub(crate) fn wants_stable(&self) -> bool {
        self.stable_waiters.load(Ordering::Relaxed) > 0
    }

    /// A symbol found no room in the dictionary: the shard makes some when it can.
    #[cold]
    pub(crate) fn lack_symbols(&self) {
        self.lacks_symbols.store(true, Ordering::Release);
        self.knock();
    }

    /// Whether a symbol found no room since [`saw_lack`](Self::saw_lack).
    #[inline]
    pub(crate) fn is_lacking_symbols(&self) -> bool {
        self.lacks_symbols.load(Ordering::Acquire)
    }

    /// The shard has taken note.
    pub(crate) fn saw_lack(&self) {
        self.lacks_symbols.store(false, Ordering::Release);
    }

    /// Most symbols of the slot, for whoever looks at the gauge.
    pub(crate) fn set_symbols_max(&self, count: u32) {
        self.symbols_max.store(count, Ordering::Relaxed);
    }

    /// See [`set_symbols_max`](Self::set_symbols_max); 0 before.
    pub(crate) fn symbols_max(&self) -> u64 {
        self.symbols_max.load(Ordering::Relaxed).into()
    }

    /// Frames from `fsn` on wait until the fence is set further back.
    pub(crate) fn set_fence(&self, fsn: Fsn) {
        self.fence.store(fsn.0, Ordering::Release);
        self.door.ring();
    }

    /// The same, if frames up to there were fenced.
    pub(crate) fn raise_fence(&self, fsn: Fsn) {
        self.fence.fetch_max(fsn.0, Ordering::AcqRel);
        self.door.ring();
    }

    /// First frame that is not sent yet.
    #[inline]
    pub(crate) fn fence(&self) -> Fsn {
        Fsn(self.fence.load(Ordering::Acquire))
    }

    /// Durable acknowledgements are asked for: [`Stage::Durable`](super::lane::Stage) can be
    /// reached.
    pub(crate) fn expect_durable(&self) {
        self.durable.store(true, Ordering::Release);
    }

    /// See [`expect_durable`](Self::expect_durable).
    pub(crate) fn expects_durable(&self) -> bool {
        self.durable.load(Ordering::Acquire)
    }

    /// The terminal error that follows is that no server grants durable acknowledgements.
    pub(crate) fn lacks_durable(&self) {
        self.lacks_durable.store(true, Ordering::Release);
    }

    /// See [`lacks_durable`](Self::lacks_durable).
    pub(crate) fn is_lacking_durable(&self) -> bool {
        self.lacks_durable.load(Ordering::Acquire)
    }
}
