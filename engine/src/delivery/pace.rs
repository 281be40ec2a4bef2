//! Pauses between connection attempts (protocol.md section 13.2; design.md section 7: equal
//! jitter, never below the base).
//!
//! | what happened | pause |
//! |---|---|
//! | a round over all servers failed, the n-th in a row | `[base, 2*base)`, base = initial * 2^(n-1) |
//! | the round ended with a server that refused by its role | initial, and n starts over |
//! | strike s | `[dose, 2*dose)`, dose = initial * 2^(s-1) |
//! | a connection ended that had confirmed something | none |
//! | a connection ended without progress, the n-th in a row | none for the first, then as round n-1 |
//! | a frame or symbol exceeds the server's cap, the n-th in a row | as strike n |
//!
//! Every base is at most the configured maximum.

use std::time::Duration;

use crate::units::nanos;

/// Doublings of the base at most; the maximum binds long before.
const DOUBLINGS_MAX: u32 = 20;
/// Doublings of a strike's dose at most.
const DOSE_DOUBLINGS_MAX: u32 = 6;

/// The present lengths. Nanoseconds throughout.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    initial: u64,
    max: u64,
    /// Failed rounds in a row.
    rounds: u32,
    /// Connections in a row that ended without progress and without blame.
    idle: u32,
    /// Connections in a row that a cap ended.
    blocked: u32,
}

impl Pace {
    pub(crate) fn new(initial: Duration, max: Duration) -> Self {
        let initial = nanos(initial).max(1);
        Self {
            initial,
            max: nanos(max).max(initial),
            rounds: 0,
            idle: 0,
            blocked: 0,
        }
    }

    /// Every server was tried in vain; `by_role`: the last to answer does not take writes now.
    pub(crate) fn round_failed(&mut self, by_role: bool, random: u64) -> u64 {
        if by_role {
            self.rounds = 0;
            return self.initial;
        }
        self.rounds = self.rounds.saturating_add(1);
        self.jittered(self.rounds, DOUBLINGS_MAX, random)
    }

    /// A server refused what was sent, the `strikes`-th time without progress.
    pub(crate) fn struck(&self, strikes: u32, random: u64) -> u64 {
        self.jittered(strikes, DOSE_DOUBLINGS_MAX, random)
    }

    /// A connection ended, nobody's fault.
    pub(crate) fn recycled(&mut self, progressed: bool, random: u64) -> u64 {
        if progressed {
            self.idle = 0;
            return 0;
        }
        self.idle = self.idle.saturating_add(1);
        match self.idle {
            1 => 0,
            n => self.jittered(n - 1, DOUBLINGS_MAX, random),
        }
    }

    /// The server's cap is below a message that is due.
    pub(crate) fn blocked(&mut self, random: u64) -> u64 {
        self.blocked = self.blocked.saturating_add(1);
        self.jittered(self.blocked, DOSE_DOUBLINGS_MAX, random)
    }

    /// A server accepted a connection: the rounds start over.
    pub(crate) fn connected(&mut self) {
        self.rounds = 0;
    }

    /// A frame was confirmed that was not before: everything starts over.
    pub(crate) fn progressed(&mut self) {
        (self.rounds, self.idle, self.blocked) = (0, 0, 0);
    }

    /// Uniformly from `[base, 2*base)` with the base of the `nth` time.
    fn jittered(&self, nth: u32, doublings_max: u32, random: u64) -> u64 {
        let doublings = nth.saturating_sub(1).min(doublings_max);
        let base = self.initial.saturating_mul(1 << doublings).min(self.max);
        base.saturating_add(random % base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pace(initial: u64, max: u64) -> Pace {
        Pace::new(Duration::from_millis(initial), Duration::from_millis(max))
    }

    #[test]
    fn rounds_double_up_to_the_maximum_and_start_over() {
        let mut pace = pace(100, 500);
        let pauses: Vec<_> = (0..5).map(|_| pace.round_failed(false, 0) / MS).collect();
        assert_eq!(pauses, [100, 200, 400, 500, 500]);
        pace.connected();
        let jitter = u64::MAX % (100 * MS);
        assert_eq!(pace.round_failed(false, u64::MAX), 100 * MS + jitter);
    }

    #[test]
    fn a_role_is_asked_again_after_exactly_the_initial_pause() {
        let mut pace = pace(100, 5000);
        for _ in 0..3 {
            pace.round_failed(false, 0);
        }
        for random in [0, 7, u64::MAX] {
            assert_eq!(pace.round_failed(true, random), 100 * MS);
        }
        assert_eq!(pace.round_failed(false, 0), 100 * MS, "the base was reset");
    }

    #[test]
    fn connections_without_progress_are_paced_from_the_second_on() {
        let mut pace = pace(100, 300);
        let pauses: Vec<_> = (0..5).map(|_| pace.recycled(false, 0) / MS).collect();
        assert_eq!(pauses, [0, 100, 200, 300, 300]);
        assert_eq!(pace.recycled(true, 0), 0);
        assert_eq!(pace.recycled(false, 0), 0, "progress starts it over");
        pace.connected();
        assert_eq!(
            pace.recycled(false, 0),
            100 * MS,
            "a connection alone does not"
        );
    }

    #[test]
    fn strikes_and_caps_take_a_growing_dose() {
        let mut pace = pace(100, 5000);
        let doses: Vec<_> = (1..9).map(|s| pace.struck(s, 0) / MS).collect();
        assert_eq!(doses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!([pace.blocked(0), pace.blocked(0)], [100 * MS, 200 * MS]);
        pace.progressed();
        assert_eq!(pace.blocked(0), 100 * MS);
    }

    #[test]
    fn reconnect_herd() {
        let mut counts = [0; 10];
        for client in 0..1000u64 {
            let mut pace = pace(100, 5000);
            for _ in 0..9 {
                pace.round_failed(false, client.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            }
            let random = client.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
            let pause = pace.round_failed(false, random) / MS;
            assert!((5000..10_000).contains(&pause), "{pause}");
            counts[usize::try_from((pause - 5000) / 500).unwrap()] += 1;
        }
        assert!(counts.iter().all(|n| (50..200).contains(n)), "{counts:?}");
    }
}
