//! The poison-frame detector (protocol.md sections 13.1 and 22): a frame that the server keeps
//! refusing ends the sender instead of being retried for ever.
//!
//! Strikes belong to the highest frame that was named since they were cleared, and only an OK at or
//! beyond it clears them: OKs of earlier frames, which every replay brings again in durable mode, do
//! not. A strike that names an earlier frame counts as well: while a group of frames stalls, any of
//! them may be named.

use crate::fsn::Fsn;

/// Strikes since the last clearing.
#[derive(Debug, Clone)]
pub(crate) struct Poison {
    limit: u32,
    window: u64,
    strikes: u32,
    first_at: u64,
    suspect: Fsn,
}

impl Poison {
    /// Escalates at `limit` strikes that span at least `window` nanoseconds.
    pub(crate) fn new(limit: u32, window: u64) -> Self {
        Self {
            limit,
            window,
            strikes: 0,
            first_at: 0,
            suspect: Fsn(0),
        }
    }

    /// The server refused frame `named`. `true` when both limits are reached.
    pub(crate) fn strike(&mut self, named: Fsn, now: u64) -> bool {
        if self.strikes == 0 {
            self.first_at = now;
            self.suspect = named;
        }
        self.suspect = self.suspect.max(named);
        self.strikes = self.strikes.saturating_add(1);
        self.strikes >= self.limit && now.saturating_sub(self.first_at) >= self.window
    }

    /// An OK covers everything below `okayed`.
    pub(crate) fn accepted(&mut self, okayed: Fsn) {
        if okayed > self.suspect {
            self.strikes = 0;
        }
    }

    /// Strikes so far.
    pub(crate) fn strikes(&self) -> u32 {
        self.strikes
    }

    /// The frame that must be accepted to clear them.
    pub(crate) fn suspect(&self) -> Fsn {
        self.suspect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_must_be_reached_and_acceptance_clears() {
        let mut poison = Poison::new(3, 100);
        assert!(!poison.strike(Fsn(7), 0));
        assert!(!poison.strike(Fsn(7), 10));
        assert!(!poison.strike(Fsn(7), 50), "the window has not passed");
        assert!(poison.strike(Fsn(7), 100));
        poison.accepted(Fsn(8));
        assert!(!poison.strike(Fsn(9), 200));
        assert_eq!(poison.strikes(), 1);
    }

    #[test]
    fn oks_of_earlier_frames_do_not_clear() {
        let mut poison = Poison::new(2, 0);
        assert!(!poison.strike(Fsn(7), 0));
        poison.accepted(Fsn(7));
        assert_eq!(poison.strikes(), 1, "frames 0..=6 only");
        assert!(poison.strike(Fsn(7), 1));
    }

    #[test]
    fn any_frame_of_a_stalled_group_counts() {
        let mut poison = Poison::new(3, 0);
        assert!(!poison.strike(Fsn(5), 0));
        assert!(!poison.strike(Fsn(7), 1));
        assert!(poison.strike(Fsn(6), 2));
        poison.accepted(Fsn(7));
        assert_eq!((poison.strikes(), poison.suspect()), (3, Fsn(7)));
        poison.accepted(Fsn(8));
        assert_eq!(poison.strikes(), 0);
    }

    #[test]
    fn a_burst_of_rejections_is_no_poison() {
        let seconds = |n: u64| n * 1_000_000_000;
        let mut poison = Poison::new(4, seconds(5));
        for strike in 0..6 {
            assert!(!poison.strike(Fsn(0), strike * 33_000_000));
        }
        poison.accepted(Fsn(1));
        let escalated = (0..6).filter(|n| poison.strike(Fsn(1), seconds(10 + *n)));
        assert_eq!(escalated.collect::<Vec<_>>(), [5]);
    }
}
