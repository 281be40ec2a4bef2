//! Faults on demand, for tests: the steward dies, cannot be started, or is slow.
//!
//! Read once per steward from `FOREBAY_FAULT_STEWARD_*` (docs/testing.md); nothing happens unless
//! one of them is set.

use std::time::Duration;

const PREFIX: &str = "FOREBAY_FAULT_STEWARD_";

/// What goes wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// `DIE_AT_START=n`: so many workers end before their first request.
    pub(crate) die_at_start: u64,
    /// `DIE_AFTER=n`: a worker panics at its request `n + 1`.
    pub(crate) die_after: Option<u64>,
    /// `DEATHS=n`: so many workers die by `DIE_AFTER`; all of them when it is not set.
    pub(crate) deaths: Option<u64>,
    /// `DIE_LATE=1`: by `DIE_AFTER` a worker dies when the request is done and not answered.
    pub(crate) die_late: bool,
    /// `SPAWN_FAILS=n`: so many starts fail.
    pub(crate) spawn_fails: u64,
    /// `SLOW_MILLIS=n`: every request takes so much longer.
    pub(crate) slow: Duration,
}

impl Faults {
    /// From the environment. What is not a number is told and ignored.
    pub(crate) fn from_env() -> Self {
        let faults = Self::read(|name| std::env::var(name).ok());
        if faults != Self::default() {
            tracing::warn!(
                ?faults,
                "FB-S009 faults are injected (FOREBAY_FAULT_STEWARD_*): never in production"
            );
        }
        faults
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| -> Option<u64> {
            let name = format!("{PREFIX}{name}");
            let text = variable(&name)?;
            let number = text.parse().ok();
            if number.is_none() {
                tracing::warn!(name, text, "FB-S009 not a number, ignored");
            }
            number
        };
        Self {
            die_at_start: number("DIE_AT_START").unwrap_or(0),
            die_after: number("DIE_AFTER"),
            deaths: number("DEATHS"),
            die_late: number("DIE_LATE").is_some_and(|n| n > 0),
            spawn_fails: number("SPAWN_FAILS").unwrap_or(0),
            slow: Duration::from_millis(number("SLOW_MILLIS").unwrap_or(0)),
        }
    }

    /// Whether start number `start` (from 0, failed ones included) fails.
    pub(crate) fn fails_to_spawn(&self, start: u64) -> bool {
        start < self.spawn_fails
    }

    /// What befalls worker number `worker` (from 0).
    pub(crate) fn of_worker(&self, worker: u64) -> WorkerFaults {
        let dies = self.deaths.is_none_or(|deaths| worker < deaths);
        WorkerFaults {
            at_start: worker < self.die_at_start,
            after: self.die_after.filter(|_| dies),
            late: self.die_late,
            slow: self.slow,
            done: 0,
        }
    }
}

/// The faults of one worker.
#[derive(Debug)]
pub(crate) struct WorkerFaults {
    at_start: bool,
    after: Option<u64>,
    late: bool,
    slow: Duration,
    done: u64,
}

impl WorkerFaults {
    /// Whether it ends before its first request.
    pub(crate) fn dies_at_start(&self) -> bool {
        self.at_start
    }

    /// Called with a request in hand.
    pub(crate) fn before(&self) {
        if !self.slow.is_zero() {
            std::thread::sleep(self.slow);
        }
        self.maybe_die(false);
    }

    /// Called when the request is done and not answered.
    pub(crate) fn after(&mut self) {
        self.maybe_die(true);
        self.done += 1;
    }

    fn maybe_die(&self, late: bool) {
        let due = self.after.is_some_and(|after| self.done >= after);
        assert!(!(due && late == self.late), "injected death");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Faults {
        Faults::read(|name| {
            let short = name.strip_prefix(PREFIX).expect("the common beginning");
            let found = variables.iter().find(|(key, _)| *key == short);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_is_set_and_nothing_happens() {
        assert_eq!(read(&[]), Faults::default());
        let mut worker = Faults::default().of_worker(0);
        assert!(!worker.dies_at_start());
        for _ in 0..100 {
            worker.before();
            worker.after();
        }
        assert!(!Faults::default().fails_to_spawn(0));
    }

    #[test]
    fn variables_are_read_and_nonsense_is_ignored() {
        let faults = read(&[
            ("DIE_AT_START", "2"),
            ("DIE_AFTER", "3"),
            ("DEATHS", "1"),
            ("DIE_LATE", "1"),
            ("SPAWN_FAILS", "4"),
            ("SLOW_MILLIS", "five"),
        ]);
        let expected = Faults {
            die_at_start: 2,
            die_after: Some(3),
            deaths: Some(1),
            die_late: true,
            spawn_fails: 4,
            slow: Duration::ZERO,
        };
        assert_eq!(faults, expected);
        assert!(faults.fails_to_spawn(3) && !faults.fails_to_spawn(4));
        assert!(faults.of_worker(1).dies_at_start() && !faults.of_worker(2).dies_at_start());
    }

    #[test]
    fn a_worker_dies_at_the_request_behind_the_last_that_it_may_do() {
        let faults = read(&[("DIE_AFTER", "2"), ("DEATHS", "1")]);
        let done_by = |number| {
            let mut worker = faults.of_worker(number);
            (0..5)
                .take_while(|_| {
                    let step = std::panic::AssertUnwindSafe(|| {
                        worker.before();
                        worker.after();
                    });
                    std::panic::catch_unwind(step).is_ok()
                })
                .count()
        };
        assert_eq!(done_by(0), 2);
        assert_eq!(done_by(1), 5, "only one dies");
    }
}
