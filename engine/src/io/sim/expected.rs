//! What an opening must find, as frame numbers.

use super::life::Life;
use crate::observe::Stats;
use crate::shard::Handover;

/// What the next opening must find, whatever became of the process before it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Expected {
    /// Frames below this are there, or were acked, after a kill.
    pub(super) after_kill: u64,
    /// The same after a power cut.
    pub(super) after_power_cut: u64,
    /// Frames below this were written, whatever became of them.
    written: u64,
    /// No frame from this number on is.
    pub(super) at_most: u64,
    /// No frame from this number on counts as acked.
    pub(super) acked_at_most: u64,
    /// Everything was acked and the files were about to go: the slot may be an empty one.
    pub(super) may_be_new: bool,
}

impl Expected {
    /// After a life over a slot that was opened with these frames: the next one's number, and the
    /// first's that was not acked.
    pub(super) fn after(life: &Life, opened: (u64, u64)) -> Self {
        let stats = life.gate.counters.stats();
        let (opened, before) = match life.rebased() {
            Some(rebased) => (rebased.opened, rebased.before),
            None => (opened, Stats::default()),
        };
        let (next, acked) = opened;
        let written = next + stats.frames_written - before.frames_written;
        Self {
            after_kill: written,
            written,
            after_power_cut: next + stats.frames_stable - before.frames_stable,
            at_most: next + stats.frames_published - before.frames_published,
            acked_at_most: acked + stats.frames_acked - before.frames_acked,
            may_be_new: life.is_renewing(),
        }
    }

    /// Written frames that were not found, the next one found being `next`: none of them was
    /// stable.
    pub(super) fn lost_before(&self, next: u64) -> u64 {
        self.written.saturating_sub(next)
    }

    /// The power went: from now on only what was stable must be there.
    pub(super) fn powerless(&mut self) {
        self.after_kill = self.after_power_cut;
    }

    /// Everything is acked, and the files are about to go: they may be there or not.
    pub(super) fn drained(&mut self) {
        self.written = 0;
        self.after_kill = 0;
        self.after_power_cut = 0;
    }

    /// Compares with what was found; answers the next frame's number, and the first unacked one's.
    pub(super) fn check(&self, handover: &Handover) -> (u64, u64) {
        let (next, acked) = (handover.slot.next.0, handover.slot.acked.0);
        // A renewal that was cut short by a power cut may leave the manifest of the old slot without
        // its last segment: an empty slot that goes on at that segment's first number.
        if self.may_be_new && acked == next && next <= self.at_most {
            return (next, acked);
        }
        assert!(
            (self.after_kill..=self.at_most).contains(&next),
            "reopened with frames below {next}, {self:?}, {:?}",
            handover.slot.report
        );
        assert!(acked <= self.acked_at_most, "acked below {acked}, {self:?}");
        (next, acked)
    }
}
