//! When the steward falls behind: a state machine over the bytes that wait to be removed.
//!
//! It escalates when they pass a high-water mark, or when they grew in three consecutive runs. A
//! run is sixteen requests: after one alone there is often more to be removed than before it,
//! because making a spare takes longer than removing one. It relaxes when nothing is left. While it
//! lasts, what is to be removed goes before everything else and all at once.

/// Requests of a run.
const RUN_REQUESTS: u32 = 16;
/// Runs in a row that may end with more to be removed than the one before.
const GROWING_RUNS_MAX: u32 = 3;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Behind: the bytes passed the high-water mark.
    HighWater,
    /// Behind: the bytes grew run after run.
    Growing,
    /// Caught up.
    Relaxed,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Strain {
    high_water_bytes: u64,
    requests: u32,
    at_last_run: u64,
    growing: u32,
    is_escalated: bool,
}

impl Strain {
    /// Nothing waits.
    pub(crate) fn new(high_water_bytes: u64) -> Self {
        Self {
            high_water_bytes,
            requests: 0,
            at_last_run: 0,
            growing: 0,
            is_escalated: false,
        }
    }

    /// More is to be removed: `bytes` in all.
    pub(crate) fn added(&mut self, bytes: u64) -> Option<Change> {
        (bytes > self.high_water_bytes).then_some(())?;
        self.escalate(Change::HighWater)
    }

    /// A request was done; `bytes` still wait to be removed.
    pub(crate) fn done(&mut self, bytes: u64) -> Option<Change> {
        if bytes == 0 {
            (self.requests, self.at_last_run, self.growing) = (0, 0, 0);
            return std::mem::take(&mut self.is_escalated).then_some(Change::Relaxed);
        }
        self.requests += 1;
        if self.requests == RUN_REQUESTS {
            let grew = bytes > self.at_last_run;
            self.growing = if grew { self.growing + 1 } else { 0 };
            (self.requests, self.at_last_run) = (0, bytes);
        }
        if self.growing >= GROWING_RUNS_MAX {
            return self.escalate(Change::Growing);
        }
        self.added(bytes)
    }

    /// Whether removing goes before everything else.
    pub(crate) fn is_escalated(&self) -> bool {
        self.is_escalated
    }

    fn escalate(&mut self, why: Change) -> Option<Change> {
        (!std::mem::replace(&mut self.is_escalated, true)).then_some(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_escalates_once_until_all_is_removed() {
        let mut strain = Strain::new(100);
        assert_eq!(strain.added(100), None);
        assert_eq!(strain.added(101), Some(Change::HighWater));
        assert_eq!(strain.added(500), None, "told once");
        assert_eq!(strain.done(1), None, "not caught up yet");
        assert!(strain.is_escalated());
        assert_eq!(strain.done(0), Some(Change::Relaxed));
        assert!(!strain.is_escalated());
        assert_eq!(strain.added(101), Some(Change::HighWater));
    }

    /// Sixteen requests, behind each of which `bytes` wait.
    fn run(strain: &mut Strain, bytes: u64) -> Option<Change> {
        let changes = (0..RUN_REQUESTS).filter_map(|_| strain.done(bytes));
        changes.last()
    }

    #[test]
    fn three_growing_runs_escalate_below_the_mark() {
        let mut strain = Strain::new(u64::MAX);
        for bytes in [1, 2, 2, 3, 4] {
            assert_eq!(run(&mut strain, bytes), None, "{bytes}");
        }
        assert_eq!(run(&mut strain, 5), Some(Change::Growing));
        assert_eq!(run(&mut strain, 6), None, "told once");
        assert_eq!(strain.done(0), Some(Change::Relaxed));
    }

    #[test]
    fn a_moment_without_anything_to_remove_begins_anew() {
        let mut strain = Strain::new(u64::MAX);
        for bytes in 1..100 {
            for _ in 0..2 {
                assert_eq!(run(&mut strain, bytes), None, "{bytes}");
                assert_eq!(run(&mut strain, bytes + 1), None, "{bytes}");
                assert_eq!(strain.done(0), None);
            }
        }
    }
}
