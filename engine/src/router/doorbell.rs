//! The doorbell of a shard: producers ring it, but only while the shard sleeps.
//!
//! The shard announces that it is about to sleep ([`Doorbell::park`]), looks at its inputs once
//! more, and sleeps on the bell. A producer publishes, then looks whether the shard is parked
//! ([`Doorbell::knock`]). Both have half a barrier between their store and their load, so at least
//! one of them sees the other's; and of all producers only the one that turns PARKED into AWAKE makes
//! a system call.
//!
//! A shard parks seldom, after it has spun, and a producer knocks with every batch: the shard's half
//! does the work of both where the kernel helps (`io/sys/barrier.rs`). `forebay-loom` tries the
//! interleavings with two fences, loom having no such kernel; `tests/tests/doorbell.rs` has threads
//! at it, with the kernel's help and without.

use super::sync::{AtomicU32, Ordering, heavy, light};

const AWAKE: u32 = 0;
const PARKED: u32 = 1;

/// What wakes a sleeping shard.
pub(crate) trait Bell {
    /// Wakes whoever waits, or will wait next.
    fn ring(&self);
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Doorbell<B> {
    state: AtomicU32,
    bell: B,
}

impl<B: Bell> Doorbell<B> {
    /// A doorbell whose shard is awake.
    pub(crate) fn new(bell: B) -> Self {
        Self {
            state: AtomicU32::new(AWAKE),
            bell,
        }
    }

    /// What the shard sleeps on.
    pub(crate) fn bell(&self) -> &B {
        &self.bell
    }

    /// Tells the shard that there is work; a system call only if it is parked.
    #[inline]
    pub(crate) fn knock(&self) {
        light();
        if self.state.load(Ordering::Relaxed) == PARKED {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.state.swap(AWAKE, Ordering::SeqCst) == PARKED {
            self.bell.ring();
        }
    }

    /// Rings whether or not the shard is parked.
    pub(crate) fn ring(&self) {
        self.state.swap(AWAKE, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Announces that the shard is about to sleep; it must look at all its inputs once more
    /// afterwards.
    pub(crate) fn park(&self) {
        // An exchange, as all changes of the state: each is ordered after the one it replaces,
        // which loom cannot tell of plain stores of two threads. It costs what a store would.
        self.state.swap(PARKED, Ordering::SeqCst);
        heavy();
    }

    /// The shard is running again.
    pub(crate) fn unpark(&self) {
        self.state.swap(AWAKE, Ordering::SeqCst);
    }

    /// Whether the shard sleeps.
    pub(crate) fn is_parked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == PARKED
    }
}
