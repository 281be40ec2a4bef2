//! Virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where every run starts, in nanoseconds.
const START: u64 = 1_000_000_000;
/// Wall clock at virtual time 0, in microseconds since the Unix epoch.
const EPOCH_MICROS: u64 = 1_700_000_000_000_000;
/// How often a wall clock that is set is set, in virtual nanoseconds.
const SET_EVERY: u64 = 7_000_000;
const HOUR_MICROS: u64 = 3_600_000_000;

/// The clock of a world. Clones show the same time.
#[derive(Debug, Clone)]
pub(crate) struct SimClock {
    nanos: Arc<AtomicU64>,
    /// Somebody sets the wall clock, an hour back or ahead.
    is_set: Arc<AtomicBool>,
}

impl SimClock {
    /// A clock at the start.
    pub(crate) fn new() -> Self {
        Self {
            nanos: Arc::new(AtomicU64::new(START)),
            is_set: Arc::default(),
        }
    }

    /// Monotonic time in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }

    /// Lets time pass up to `time`; it never goes back.
    pub(crate) fn advance_to(&self, time: u64) {
        self.nanos.fetch_max(time, Ordering::Relaxed);
    }

    /// Lets `nanos` pass.
    pub(crate) fn advance(&self, nanos: u64) {
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// From now on the wall clock is set every few milliseconds: right, an hour back, an hour
    /// ahead.
    pub(crate) fn set_wall(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }

    /// Wall clock in microseconds since the Unix epoch.
    pub(crate) fn wall_micros(&self) -> u64 {
        let right = EPOCH_MICROS + self.now() / 1000;
        match self.now() / SET_EVERY % 3 {
            _ if !self.is_set.load(Ordering::Relaxed) => right,
            1 => right - HOUR_MICROS,
            2 => right + HOUR_MICROS,
            _ => right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_is_set_goes_back_and_ahead_while_time_goes_on() {
        let clock = SimClock::new();
        let look = || {
            clock.advance(SET_EVERY);
            clock.wall_micros().cast_signed()
        };
        let step = look() - look();
        assert_eq!(step, -(SET_EVERY / 1000).cast_signed(), "one that is not");
        clock.set_wall();
        let look = || {
            clock.advance(SET_EVERY);
            clock.wall_micros().cast_signed()
        };
        let seen = [look(), look(), look(), look()];
        let steps = seen
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) / 3_000_000_000);
        let mut steps: Vec<_> = steps.collect();
        steps.sort_unstable();
        assert_eq!(steps, [-1, -1, 2]);
    }
}
