//! The script of each phase.

use super::Phase;
use super::history::{Died, History, WAIT_MAX};
use crate::io::sim::scenario::healthy;

/// Long enough for the steward's answers and a watermark record, in virtual nanoseconds.
const REST: u64 = 20_000_000;
/// Longer than the pause between two tries of a write that found the disk full.
const FULL_REST: u64 = 250_000_000;
/// Longer than the pause between two trims.
const LONG_REST: u64 = 80_000_000;

impl History {
    /// Plays a phase on an empty disk.
    pub(super) fn play(&mut self, phase: Phase) -> Result<(), Died> {
        match phase {
            Phase::FreshOpen => self.fresh_open(),
            Phase::Append => self.append(),
            Phase::FullDictionary => self.full_dictionary(),
            Phase::Rotation => self.rotation(),
            Phase::Trim => self.trim(),
            Phase::RotationRacingTrim => self.rotation_racing_trim(),
            Phase::Epochs => self.epochs(),
            Phase::DrainedClose => self.drained_close(),
            Phase::CloseWithFramesLeft => self.close_with_frames_left(),
            Phase::SetAside => self.set_aside(),
            Phase::Reopen => self.reopen(),
        }
    }

    /// A slot of written frames that no server has seen.
    fn fill_unserved(&mut self, batches: u32) -> Result<(), Died> {
        self.world.net.take_server_down();
        self.open()?;
        self.publish(batches)?;
        self.until_written()?;
        self.rest(REST)
    }

    fn fresh_open(&mut self) -> Result<(), Died> {
        self.arm();
        self.open()?;
        self.rest(REST)
    }

    fn append(&mut self) -> Result<(), Died> {
        self.world.net.take_server_down();
        self.open()?;
        self.rest(REST)?;
        self.arm();
        let waits = self.seed.is_multiple_of(2);
        self.wait_for_stable(i32::from(waits));
        self.publish(6)?;
        self.until_written()?;
        if waits {
            self.until(|stats| stats.frames_stable == stats.frames_published)?;
            self.wait_for_stable(-1);
        }
        self.world.behave(healthy());
        self.until_acked()?;
        self.publish(2)?;
        self.until_acked()?;
        self.rest(REST)
    }

    fn full_dictionary(&mut self) -> Result<(), Died> {
        self.fill_unserved(3)?;
        self.arm();
        let before = self.stats();
        self.world.fill_dictionary(true);
        // Every other batch brings symbols: nothing from the first of them on is written.
        self.publish(4)?;
        self.rest(FULL_REST)?;
        let full = self.stats();
        assert!(full.disk_errors > before.disk_errors, "{full:?}");
        assert!(full.frames_written < full.frames_published, "{full:?}");
        // Room comes back: it goes on by itself, and nothing is poisoned.
        self.world.fill_dictionary(false);
        self.until_written()?;
        self.publish(2)?;
        self.until_written()?;
        self.rest(REST)
    }

    fn rotation(&mut self) -> Result<(), Died> {
        self.fill_unserved(4)?;
        self.arm();
        self.publish(11)?;
        self.until_written()?;
        self.until(|stats| stats.segments_written > 0)?;
        self.rest(REST)
    }

    fn trim(&mut self) -> Result<(), Died> {
        self.fill_unserved(24)?;
        self.arm();
        self.world.behave(healthy());
        self.until(|stats| stats.segments_trimmed > 0)?;
        self.until_acked()?;
        self.rest(LONG_REST)
    }

    fn rotation_racing_trim(&mut self) -> Result<(), Died> {
        self.open()?;
        self.publish(4)?;
        self.until_acked()?;
        self.rest(REST)?;
        self.arm();
        // Each burst takes both spares: the second rotation meets the trim behind the first.
        for _ in 0..2 {
            self.publish_every(5_000, 12)?;
            self.until_acked()?;
            self.rest(REST)?;
        }
        self.until(|stats| stats.segments_trimmed > 1)
    }

    /// Every other batch brings symbols, and one is enough: twice a burst is acked, and the slot is
    /// begun again under a producer that goes on with what it has sent before.
    fn epochs(&mut self) -> Result<(), Died> {
        self.open()?;
        self.publish(2)?;
        self.until(|stats| stats.symbol_epochs > 0)?;
        self.rest(REST)?;
        self.arm();
        for epochs in 2..4 {
            self.publish_every(5_000, 7)?;
            self.until(|stats| stats.symbol_epochs >= epochs)?;
            self.publish(1)?;
            self.until_acked()?;
        }
        self.rest(REST)
    }

    fn drained_close(&mut self) -> Result<(), Died> {
        self.open()?;
        self.publish(14)?;
        self.until(|stats| stats.segments_trimmed > 0)?;
        self.arm();
        // The next trim has to wait: close finds full segments.
        self.publish_every(5_000, 14)?;
        let drained = self.close(WAIT_MAX)?;
        assert!(drained, "the server was there");
        Ok(())
    }

    fn close_with_frames_left(&mut self) -> Result<(), Died> {
        self.fill_unserved(4)?;
        self.arm();
        self.publish(6)?;
        let drained = self.close(1_000_000)?;
        assert!(!drained, "nobody acknowledged");
        // The slot is found as it was left.
        self.open()?;
        self.rest(REST)
    }

    fn set_aside(&mut self) -> Result<(), Died> {
        self.fill_unserved(24)?;
        self.crash(false);
        self.damage();
        self.arm();
        self.open()?;
        self.publish(2)?;
        self.until_written()?;
        self.rest(REST)
    }

    fn reopen(&mut self) -> Result<(), Died> {
        let other = Phase::reopened(self.seed);
        let counted = std::mem::take(&mut self.plan);
        let steps = u32::try_from(self.rng.below(90)).expect("small");
        self.plan(Some(steps), false);
        // Dead, or at its end: either way it is not there any more.
        let _ = self.play(other);
        let power_cut = self.rng.percent(60);
        self.crash(power_cut);
        self.plan = counted;
        self.arm();
        self.open()?;
        self.rest(REST)
    }
}
