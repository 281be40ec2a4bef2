//! When a batch is due: by the data's own clock, or by a fixed rate.
//!
//! Both are open loop. A due time depends on the start and the batch alone, never on how long
//! earlier batches took, so a stall makes the next batches late instead of fewer, and latencies
//! taken from the due time contain the wait that a stall caused.

use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::signals::StopFlag;

/// The longest sleep between two looks at the stop flag.
const SLEEP_MAX: Duration = Duration::from_millis(5);
/// The kernel wakes a sleeper up to this late; the rest of a wait is spun.
const WAKE_SLACK: Duration = Duration::from_micros(100);

/// How fast a file is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// As fast as the engine takes it.
    Max,
    /// So many seconds of the data in one second.
    Times(f64),
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let factor = text
            .strip_suffix('x')
            .and_then(|digits| digits.parse::<f64>().ok());
        match factor {
            Some(factor) if factor.is_finite() && factor > 0.0 => Ok(Self::Times(factor)),
            _ => Err(format!(
                "{text:?} is neither max nor a positive factor such as 1x or 60x"
            )),
        }
    }
}

/// Maps the data's clock to this machine's.
#[derive(Debug, Clone, Copy)]
pub struct DataClock {
    start: Instant,
    first_ns: i64,
    factor: f64,
}

impl DataClock {
    /// The row stamped `first_ns` (nanoseconds since the epoch) is due at `start`.
    pub fn new(start: Instant, first_ns: i64, factor: f64) -> Self {
        Self {
            start,
            first_ns,
            factor,
        }
    }

    /// When the row stamped `ns` is due; rows stamped before the first are due at the start.
    pub fn due(&self, ns: i64) -> Instant {
        let after = u64::try_from(ns.saturating_sub(self.first_ns)).unwrap_or(0);
        let scaled = Duration::from_nanos(after).as_secs_f64() / self.factor;
        // A factor near zero can ask for more than an Instant holds: due in a century, then.
        Duration::try_from_secs_f64(scaled)
            .ok()
            .and_then(|after| self.start.checked_add(after))
            .unwrap_or_else(|| self.start + Duration::from_hours(24 * 36_525))
    }
}

/// A fixed number of rows a second.
#[derive(Debug, Clone, Copy)]
pub struct OpenLoop {
    start: Instant,
    ns_per_row: f64,
    /// Rows that are due at once.
    burst_rows: u64,
}

impl OpenLoop {
    /// `rows_per_second` from `start` on; the rate is positive.
    pub fn new(start: Instant, rows_per_second: f64) -> Self {
        Self {
            start,
            ns_per_row: 1e9 / rows_per_second,
            burst_rows: 1,
        }
    }

    /// The same mean rate, but so many rows are due at once, and then none for as long as they
    /// stand for.
    #[must_use]
    pub fn in_bursts(self, burst_rows: u64) -> Self {
        Self {
            burst_rows: burst_rows.max(1),
            ..self
        }
    }

    /// When the batch whose first row is number `row` (from 0) is due.
    pub fn due(&self, row: u64) -> Instant {
        let row = row - row % self.burst_rows;
        // Exact to a nanosecond for 2^53 ns (104 days) of run time.
        #[expect(
            clippy::cast_precision_loss,
            reason = "row numbers stay far below 2^53"
        )]
        let after = Duration::from_secs_f64(row as f64 * self.ns_per_row / 1e9);
        self.start + after
    }
}

/// Waits until `due`; false when a stop was asked for first. `idle` runs between sleeps, at least
/// every 5 ms.
pub fn wait_until<E>(
    due: Instant,
    stop: &StopFlag,
    mut idle: impl FnMut() -> Result<(), E>,
) -> Result<bool, E> {
    loop {
        if stop.is_set() {
            return Ok(false);
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(true);
        }
        if left > WAKE_SLACK {
            idle()?;
            let left = due.saturating_duration_since(Instant::now());
            std::thread::sleep(left.saturating_sub(WAKE_SLACK).min(SLEEP_MAX));
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::{Duration, Instant};

    use super::{DataClock, OpenLoop, Speed, wait_until};
    use crate::signals::StopFlag;

    #[test]
    fn speeds_parse() {
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("1x".parse(), Ok(Speed::Times(1.0)));
        assert_eq!("0.5x".parse(), Ok(Speed::Times(0.5)));
        for bad in ["", "x", "1", "0x", "-1x", "infx", "nanx", "MAX"] {
            assert!(bad.parse::<Speed>().unwrap_err().contains(bad), "{bad}");
        }
    }

    #[test]
    fn the_data_clock_scales_the_distance_to_the_first_row() {
        let start = Instant::now();
        let clock = DataClock::new(start, 1_000, 60.0);
        assert_eq!(clock.due(1_000), start);
        assert_eq!(clock.due(0), start);
        assert_eq!(clock.due(60_000_001_000), start + Duration::from_secs(1));
        let slow = DataClock::new(start, i64::MIN, f64::MIN_POSITIVE);
        assert!(slow.due(i64::MAX) > start + Duration::from_secs(1));
    }

    #[test]
    fn the_open_loop_spaces_batches_by_their_first_row() {
        let start = Instant::now();
        let pace = OpenLoop::new(start, 2_000.0);
        assert_eq!(pace.due(0), start);
        assert_eq!(pace.due(1_000), start + Duration::from_millis(500));
    }

    #[test]
    fn rows_of_a_burst_are_due_together_and_the_mean_rate_stays() {
        let start = Instant::now();
        let pace = OpenLoop::new(start, 1_000.0).in_bursts(500);
        assert_eq!(pace.due(499), start);
        assert_eq!(pace.due(500), start + Duration::from_millis(500));
        assert_eq!(pace.due(1_999), start + Duration::from_millis(1_500));
    }

    #[test]
    fn a_wait_ends_at_its_time_or_at_a_stop() {
        let stop = StopFlag::new();
        let mut idles = 0;
        let due = Instant::now() + Duration::from_secs(1);
        let reached = wait_until(due, &stop, || {
            idles += 1;
            Ok::<(), Infallible>(())
        });
        assert_eq!(reached, Ok(true));
        assert!(Instant::now() >= due);
        assert!(idles >= 2, "{idles}");

        let far = Instant::now() + Duration::from_hours(1);
        let reached = wait_until(far, &stop, || {
            stop.set();
            Ok::<(), Infallible>(())
        });
        assert_eq!(reached, Ok(false));
        assert_eq!(wait_until(far, &stop, || Err("idle")), Ok(false));
    }
}
