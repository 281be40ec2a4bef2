//! One crash point: the death, what survives it, the reopening, and the oracle's judgement.

use super::history::{History, WAIT_MAX};
use super::{CrashPoint, Trace};
use crate::io::sim::Summary;
use crate::io::sim::random::{Rng, mix};
use crate::io::sim::scenario::healthy;

impl CrashPoint {
    /// Plays the phase up to the point, crashes, reopens, appends and drains. Panics where the
    /// slot does not open, a stable frame is lost, a frame is invented, or a script does other
    /// things than when it was traced.
    pub fn run(self, trace: &Trace) -> Summary {
        let Self {
            phase,
            seed,
            step,
            survival,
        } = self;
        let mut history = History::new(phase, seed);
        history.plan(Some(step), false);
        let died = history.play(phase).is_err();
        let last = history.world.fate.last().map(|event| event.to_string());
        assert_eq!(
            last.as_ref(),
            trace.steps.get(step as usize),
            "the script did something else"
        );
        assert_eq!(died, last.is_some());
        let mut rng = Rng::new(mix(&[seed, phase as u64, step.into(), survival]));
        history.world.reseed(rng.next());
        history.world.behave(healthy());
        history.crash(!survival.is_multiple_of(3));
        if !survival.is_multiple_of(2) {
            reopenings_that_die(&mut history, &mut rng);
        }
        let alive = "nobody kills it";
        history.open().expect(alive);
        if survival.is_multiple_of(2) {
            // What is appended now survives as well, beside what the first crash left behind.
            history.world.net.take_server_down();
            history.publish(few(&mut rng, 9)).expect(alive);
            history.until_written().expect(alive);
            history.world.behave(healthy());
            history.crash(rng.percent(50));
            history.open().expect(alive);
        }
        history.publish(few(&mut rng, 5)).expect(alive);
        assert!(
            history.close(WAIT_MAX).expect(alive),
            "a healthy server gets everything"
        );
        history.check_set_aside();
        let ledger = history.ledger.borrow();
        ledger.check_settled();
        history.summary.arrivals = ledger.arrivals;
        history.summary.repeats = ledger.repeats;
        history.summary.seeds = 1;
        history.summary
    }
}

/// From 1 to `most`.
fn few(rng: &mut Rng, most: u64) -> u32 {
    u32::try_from(rng.between(1, most)).expect("a small number")
}

/// Processes that die while they open the slot, or right behind it.
fn reopenings_that_die(history: &mut History, rng: &mut Rng) {
    for _ in 0..rng.between(1, 2) {
        let steps = few(rng, 45) - 1;
        history.plan(Some(steps), false);
        history.arm();
        history.summary.opens_interrupted += u64::from(history.open().is_err());
        history.crash(rng.percent(50));
    }
}
