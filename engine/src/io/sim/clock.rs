//! Virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where every run starts, in nanoseconds.
const START: u64 = 1_000_000_000;
/// Wall clock at virtual time 0, in microseconds since the Unix epoch.
const EPOCH_MICROS: u64 = 1_700_000_000_000_000;

/// The clock of a world. Clones show the same time.
#[derive(Debug, Clone)]
pub(crate) struct SimClock(Arc<AtomicU64>);

impl SimClock {
    /// A clock at the start.
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START)))
    }

    /// Monotonic time in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets time pass up to `time`; it never goes back.
    pub(crate) fn advance_to(&self, time: u64) {
        self.0.fetch_max(time, Ordering::Relaxed);
    }

    /// Lets `nanos` pass.
    pub(crate) fn advance(&self, nanos: u64) {
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Wall clock in microseconds since the Unix epoch.
    pub(crate) fn wall_micros(&self) -> u64 {
        EPOCH_MICROS + self.now() / 1000
    }
}
