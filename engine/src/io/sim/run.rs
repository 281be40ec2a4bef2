//! A run: a few processes one after the other on one disk, each but the last cut short, and the
//! oracle's judgement at every reopening and at the end.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use super::Summary;
use super::disk::{Keep, SimFs};
use super::expected::Expected;
use super::ledger::Ledger;
use super::life::{Life, Step};
use super::promises::Promises;
use super::random::{Rng, mix};
use super::scenario::{Kind, config, healthy, manners};
use super::server::SharedLedger;
use super::world::{Crash, SimIo};
use crate::config::Config;
use crate::engine::{hand_back, open_slot};
use crate::shard::{Handover, Remains};

/// Slot directory of every run.
pub(crate) const SLOT: &str = "/sf/sim";
/// Longest end of a run with a healthy server, in virtual nanoseconds and in turns.
const END_NANOS_MAX: u64 = 600_000_000_000;
const END_TURNS_MAX: u32 = 400_000;

pub(crate) struct Run {
    kind: Kind,
    rng: Rng,
    config: Config,
    world: SimIo,
    ledger: SharedLedger,
    expected: Expected,
    opened: (u64, u64),
    pub(crate) summary: Summary,
}

impl Run {
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        Self::in_mode(kind, seed, None)
    }

    /// A run in one mode of `sf_durability`.
    pub(crate) fn in_mode(kind: Kind, seed: u64, mode: Option<&str>) -> Self {
        let mut rng = Rng::new(mix(&[seed, kind as u64]));
        let ledger = Rc::new(RefCell::new(Ledger::new(seed)));
        let manners = manners(kind, &mut rng);
        let config = config(&mut rng, mode);
        ledger.borrow_mut().is_durable = config.delivery.durable_ack.is_some();
        let world = SimIo::new(rng.next(), manners, &ledger);
        let summary = Summary {
            seeds: 1,
            ..Summary::default()
        };
        let (expected, opened) = (Expected::default(), (0, 0));
        Self {
            kind,
            rng,
            config,
            world,
            ledger,
            expected,
            opened,
            summary,
        }
    }

    /// The wall clock is set again and again.
    pub(crate) fn with_wall_steps(self) -> Self {
        self.world.clock.set_wall();
        self
    }

    /// All lives. Panics where a promise is broken.
    pub(crate) fn go(mut self) -> Summary {
        for _ in 0..self.rng.between(1, 4) {
            let life = self.open();
            if let Some(life) = self.live(life) {
                self.end(life);
            }
        }
        self.world.behave(healthy());
        loop {
            let interrupted = self.rng.percent(50);
            let life = self.open();
            self.deliver(life, interrupted);
            if !interrupted {
                return self.settle();
            }
        }
    }

    /// Opens the slot, perhaps dying on the way a few times, and checks what it holds.
    fn open(&mut self) -> Life {
        let handover = loop {
            self.world.start();
            let mut fs = self.world.fs();
            if self.rng.percent(20) {
                fs = self.dying_fs(1, 45);
            }
            let opened = open_slot(&fs, &self.config);
            if fs.is_dead() {
                drop(opened);
                self.summary.opens_interrupted += 1;
                self.crash();
                continue;
            }
            match opened {
                Ok(handover) => break handover.expect("runs have a directory"),
                Err(error) => panic!("the slot does not open: {error}"),
            }
        };
        self.check_opened(&handover);
        let rng = self.rng.fork();
        Life::start(&self.config, handover, &self.ledger, rng)
            .unwrap_or_else(|error| panic!("the shard does not start: {error}"))
    }

    fn check_opened(&mut self, handover: &Handover) {
        let (next, acked) = self.expected.check(handover);
        self.summary.unstable_lost += self.expected.lost_before(next);
        self.summary.recovered += next - acked;
        self.summary.torn_tails += u64::from(handover.slot.report.torn_tail_bytes > 0);
        self.opened = (next, acked);
    }

    /// A step, which may be the one that panics: once in so many.
    fn step(&mut self, life: &mut Life, calm: u64) -> Step {
        // A journal that waits for its repair does not wait long.
        let hurry = if life.on_disk().is_some() { 1 } else { 20 };
        if self.kind == Kind::Panics && self.rng.below(calm / hurry) == 0 {
            let calls = self.rng.below(60);
            self.world.panic_in(Some(calls));
        }
        life.step(&mut self.world)
    }

    /// The shard panicked: another one takes its place, unless the process dies over it or it is
    /// given up and the process killed. Answers whether the life goes on.
    fn revive(&mut self, life: &mut Life, may_die: bool) -> bool {
        self.summary.panics += 1;
        let expected = Expected::after(life, self.opened);
        let mut fs = self.world.fs();
        if may_die && self.rng.percent(10) {
            fs = self.dying_fs(1, 45);
        }
        if life.revive(&self.config, &mut self.world, &fs).is_some() && !fs.is_dead() {
            self.summary.revivals += 1;
            return true;
        }
        if fs.is_dead() {
            self.summary.revivals_interrupted += 1;
        } else {
            self.summary.given_up += 1;
        }
        life.silence();
        self.tally(life);
        self.expected = expected;
        self.crash();
        false
    }

    /// Publishes and turns until the moment has come; `None` if the process died before.
    fn live(&mut self, mut life: Life) -> Option<Life> {
        self.hire(&mut life);
        let mut promises = Promises::of(&self.config, self.world.disk_manners());
        let mut left = self.rng.between(10, 5_000);
        let mut waiting = false;
        while left > 0 {
            left -= 1;
            self.summary.turns += 1;
            if self.rng.below(200) == 0 {
                // Somebody begins or ends waiting for stable.
                life.gate.stable_waiters(if waiting { -1 } else { 1 });
                waiting = !waiting;
            }
            let step = self.step(&mut life, 600);
            if step == Step::Panicked {
                if !self.revive(&mut life, true) {
                    return None;
                }
                continue;
            }
            assert_eq!(step, Step::Alive, "the shard ended by itself");
            if let Some(on_disk) = life.on_disk() {
                promises.check(self.world.clock.now(), on_disk);
            }
            if left > 600 && life.is_silent() {
                left = self.rng.below(600);
            }
        }
        self.world.panic_in(None);
        // Most crashes hit a disk at work, some a slot that is being emptied for a new epoch.
        let wanted = if self.rng.percent(70) { 500 } else { 0 };
        let renewing = self.rng.percent(25);
        for _ in 0..wanted {
            let at_work = self.world.is_writing() && !renewing;
            if at_work || life.is_renewing() {
                break;
            }
            life.step(&mut self.world);
        }
        Some(life)
    }

    fn hire(&mut self, life: &mut Life) {
        for _ in 0..self.rng.between(1, 3) {
            let batches = u32::try_from(self.rng.between(1, 100)).expect("small");
            let pause = [20_000, 200_000, 2_000_000][self.rng.index(3)];
            life.add_author(&self.config, batches, pause);
        }
    }

    /// Ends a life: mostly by a crash, sometimes in order, without waiting for the server.
    fn end(&mut self, mut life: Life) {
        if self.rng.percent(15) {
            let wait = self.rng.below(300_000_000);
            let interrupted = self.rng.percent(30);
            self.close(life, wait, interrupted);
            if !interrupted && self.rng.percent(30) {
                // The machine goes down after the process has ended.
                self.crash();
            }
            return;
        }
        life.silence();
        self.tally(&life);
        self.crash();
        drop(life);
    }

    /// Counts what a life did and what the next one must find.
    fn tally(&mut self, life: &Life) {
        let stats = life.gate.counters.stats();
        self.expected = Expected::after(life, self.opened);
        let summary = &mut self.summary;
        summary.lives += 1;
        summary.frames += stats.frames_published;
        summary.rotations += stats.segments_written;
        summary.trims += stats.segments_trimmed;
        summary.replays += stats.frames_replayed;
        summary.reconnects += stats.reconnects_succeeded;
        summary.durable_acks += stats.durable_acks_received;
        summary.half_open_drops += stats.half_open_drops;
        summary.disk_errors += stats.disk_errors;
        summary.times_full += life.times_full;
        summary.epochs += stats.symbol_epochs;
        summary.epochs_interrupted += u64::from(life.is_renewing());
        summary.symbols_refused += life.refused();
        summary.dictionary_writes += self.world.dictionary_writes();
        summary.disk_reads += self.world.reads();
    }

    fn crash(&mut self) {
        let may_cut = matches!(self.kind, Kind::PowerCuts | Kind::Panics);
        let power_cut = may_cut && self.rng.percent(75);
        let mut ledger = self.ledger.borrow_mut();
        if power_cut {
            self.summary.power_cuts += 1;
            self.summary.stable_at_cuts += self.expected.after_power_cut;
            ledger.powerless();
            self.expected.powerless();
        } else {
            self.summary.kills += 1;
            ledger.killed();
        }
        drop(ledger);
        self.world.crash(if power_cut {
            Crash::PowerCut
        } else {
            Crash::Kill(Keep::Random)
        });
    }

    /// Closes in order, waiting `wait` virtual nanoseconds for the server.
    fn close(&mut self, mut life: Life, wait: u64, interrupted: bool) {
        life.gate.close(self.world.clock.now() + wait);
        life.silence();
        let limit = self.world.clock.now() + END_NANOS_MAX;
        let mut turns = 0;
        loop {
            match self.step(&mut life, 3_000) {
                Step::Alive => {}
                Step::Finished => break,
                Step::Panicked if self.revive(&mut life, false) => {}
                Step::Panicked => return,
            }
            turns += 1;
            let late = turns > END_TURNS_MAX || self.world.clock.now() > limit;
            assert!(!late, "close hangs: {:?}", life.gate.counters.stats());
        }
        self.summary.turns += u64::from(turns);
        self.tally(&life);
        let full = life.gate.is_full();
        let remains = life.finish(&mut self.world);
        // At the cap, or on a failing disk, close gives up what was accepted and not taken.
        let complete = !full && remains.poisoned.is_none();
        self.ledger.borrow_mut().closed(complete);
        let drained = remains.frames == 0 && remains.poisoned.is_none();
        if interrupted {
            return self.close_interrupted(remains, drained);
        }
        hand_back(&self.world.fs(), remains).unwrap_or_else(|error| panic!("close: {error}"));
        if drained {
            self.expected = Expected::default();
            self.summary.drained += 1;
            self.world.assert_drained(Path::new(SLOT));
        }
    }

    /// The process dies within the directory work of close.
    fn close_interrupted(&mut self, remains: Remains, drained: bool) {
        let fs = self.dying_fs(1, 16);
        let closed = hand_back(&fs, remains);
        assert!(closed.is_ok() || fs.is_dead(), "close: {closed:?}");
        if drained {
            self.expected.drained();
        }
        self.summary.closes_interrupted += 1;
        self.crash();
    }

    fn dying_fs(&mut self, low: u64, high: u64) -> SimFs {
        let steps = self.rng.between(low, high);
        self.world
            .fs()
            .dying_after(u32::try_from(steps).expect("a small number"))
    }

    /// A life with a healthy server: everything is delivered, unless its close is interrupted the
    /// slot ends empty.
    fn deliver(&mut self, mut life: Life, interrupted: bool) {
        self.hire(&mut life);
        let limit = self.world.clock.now() + END_NANOS_MAX;
        let mut turns = 0;
        while !life.is_silent() {
            match self.step(&mut life, 3_000) {
                Step::Alive => {}
                Step::Panicked => assert!(self.revive(&mut life, false), "nothing is broken"),
                Step::Finished => panic!("the shard ended by itself"),
            }
            turns += 1;
            let late = turns > END_TURNS_MAX || self.world.clock.now() > limit;
            assert!(!late, "publishing hangs: {:?}", life.gate.counters.stats());
        }
        self.summary.turns += u64::from(turns);
        let drained = self.summary.drained + u64::from(!interrupted);
        self.close(life, 2 * END_NANOS_MAX, interrupted);
        assert_eq!(
            self.summary.drained, drained,
            "the last close leaves nothing behind"
        );
    }

    /// The oracle's judgement of the whole run.
    fn settle(mut self) -> Summary {
        let ledger = self.ledger.borrow();
        ledger.check_settled();
        self.summary.arrivals = ledger.arrivals;
        self.summary.repeats = ledger.repeats;
        self.summary.lost_by_server = ledger.lost_by_server;
        self.summary.vanished = self.world.net.vanished;
        self.summary.dials = self.world.net.dials;
        self.summary.virtual_millis = self.world.clock.now() / 1_000_000;
        self.summary
    }
}
