//! One world, one slot, processes one after the other: what scripts are made of.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use super::Phase;
use super::keepsake::Keepsake;
use crate::config::Config;
use crate::engine::{hand_back, open_slot};
use crate::io::sim::Summary;
use crate::io::sim::disk::Keep;
use crate::io::sim::expected::Expected;
use crate::io::sim::ledger::Ledger;
use crate::io::sim::life::{Life, Step};
use crate::io::sim::random::{Rng, mix};
use crate::io::sim::rows::Batch;
use crate::io::sim::run::SLOT;
use crate::io::sim::scenario::scripted;
use crate::io::sim::server::SharedLedger;
use crate::io::sim::world::{Crash, SimIo};
use crate::observe::Stats;

/// A wait that takes longer than this in virtual nanoseconds has failed.
pub(super) const WAIT_MAX: u64 = 60_000_000_000;

/// The process died: the script ends here.
#[derive(Debug)]
pub(super) struct Died;

/// A slot's history so far.
pub(super) struct History {
    pub(super) world: SimIo,
    pub(super) ledger: SharedLedger,
    pub(super) summary: Summary,
    config: Config,
    pub(super) seed: u64,
    pub(super) rng: Rng,
    life: Option<Life>,
    opened: (u64, u64),
    expected: Expected,
    /// The slot as it was when it was damaged.
    keepsake: Option<Keepsake>,
    /// What [`arm`](Self::arm) tells the process's fate.
    pub(super) plan: (Option<u32>, bool),
}

impl History {
    pub(super) fn new(phase: Phase, seed: u64) -> Self {
        let mut rng = Rng::new(mix(&[seed, phase as u64, 7]));
        let ledger = Rc::new(RefCell::new(Ledger::of_batches(seed, Batch::lean)));
        let manners = scripted(&mut rng);
        Self {
            world: SimIo::new(rng.next(), manners, &ledger),
            ledger,
            summary: Summary::default(),
            config: config(phase, seed),
            seed,
            rng,
            life: None,
            opened: (0, 0),
            expected: Expected::default(),
            keepsake: None,
            plan: (None, false),
        }
    }

    /// In the part that counts `steps` steps happen, or all; they are noted if `traced`.
    pub(super) fn plan(&mut self, steps: Option<u32>, traced: bool) {
        self.plan = (steps, traced);
    }

    /// From here on the steps count.
    pub(super) fn arm(&mut self) {
        let (left, traced) = self.plan;
        self.world.fate.decide(left, traced);
    }

    /// Opens the slot, checks what it holds and starts the shard.
    pub(super) fn open(&mut self) -> Result<(), Died> {
        let open = || open_slot(&self.world.fs(), &self.config);
        let opened = match &self.keepsake {
            Some(keepsake) => keepsake.listen(&self.world.fate, open),
            None => open(),
        };
        if self.world.fate.is_dead() {
            return Err(Died);
        }
        let handover = opened.unwrap_or_else(|error| panic!("the slot does not open: {error}"));
        let handover = handover.expect("scripts have a directory");
        self.opened = self.expected.check(&handover);
        let report = &handover.slot.report;
        self.summary.recovered += self.opened.0 - self.opened.1;
        self.summary.torn_tails += u64::from(report.torn_tail_bytes > 0);
        self.summary.set_aside += u64::from(report.set_aside.is_some());
        self.summary.lives += 1;
        let rng = self.rng.fork();
        let life = Life::start(&self.config, handover, &self.ledger, rng)
            .unwrap_or_else(|error| panic!("the shard does not start: {error}"));
        self.life = Some(life);
        Ok(())
    }

    /// A producer publishes so many batches.
    pub(super) fn publish(&mut self, batches: u32) -> Result<(), Died> {
        self.publish_every(50_000, batches)
    }

    /// The same with pauses of up to so many nanoseconds.
    pub(super) fn publish_every(&mut self, pause: u64, batches: u32) -> Result<(), Died> {
        let life = self.life.as_mut().expect("a process runs");
        life.add_author(&self.config, batches, pause);
        while !self.life().is_silent() {
            self.step()?;
        }
        Ok(())
    }

    /// Closes in order, waiting `wait` virtual nanoseconds for the server; answers whether all was
    /// acked, and the slot emptied.
    pub(super) fn close(&mut self, wait: u64) -> Result<bool, Died> {
        let deadline = self.world.clock.now() + wait;
        self.life().gate.close(deadline);
        let limit = deadline + WAIT_MAX;
        while self.turn()? == Step::Alive {
            assert!(self.world.clock.now() < limit, "close hangs");
        }
        let life = self.life.take().expect("a process runs");
        self.tally(&life);
        let remains = life.finish(&mut self.world);
        if self.world.fate.is_dead() {
            return Err(Died);
        }
        assert_eq!(remains.poisoned, None);
        self.ledger.borrow_mut().closed(true);
        let drained = remains.frames == 0;
        if drained {
            self.expected.drained();
        }
        let closed = hand_back(&self.world.fs(), remains);
        if self.world.fate.is_dead() {
            return Err(Died);
        }
        closed.unwrap_or_else(|error| panic!("close: {error}"));
        if drained {
            self.expected = Expected::default();
            self.summary.drained += 1;
            self.world.assert_drained(Path::new(SLOT));
        }
        Ok(drained)
    }

    /// The process dies, if it is not dead, and the power goes with it or does not.
    pub(super) fn crash(&mut self, power_cut: bool) {
        let life = self.life.take();
        if let Some(life) = &life {
            self.tally(life);
        }
        let how = if power_cut {
            self.ledger.borrow_mut().powerless();
            self.expected.powerless();
            self.summary.power_cuts += 1;
            Crash::PowerCut
        } else {
            self.ledger.borrow_mut().killed();
            self.summary.kills += 1;
            Crash::Kill(Keep::Random)
        };
        self.world.crash(how);
        if let Some(keepsake) = &self.keepsake {
            keepsake.check(&self.world.disk);
        }
    }

    /// Somebody else damages the slot beyond repair. Its frames may not be delivered any more.
    pub(super) fn damage(&mut self) {
        self.keepsake = Some(Keepsake::damage(&self.world.disk, self.seed));
        self.ledger.borrow_mut().set_aside();
        self.expected = Expected::default();
    }

    /// If the slot was damaged, every byte is kept beside it, and somebody was told.
    pub(super) fn check_set_aside(&self) {
        let Some(keepsake) = &self.keepsake else {
            return;
        };
        assert!(keepsake.check(&self.world.disk), "not set aside");
        let (told, most) = (
            keepsake.told(),
            1 + self.summary.kills + self.summary.power_cuts,
        );
        assert!((1..=most).contains(&told), "told {told} times");
    }

    fn tally(&mut self, life: &Life) {
        let stats = life.gate.counters.stats();
        self.expected = Expected::after(life, self.opened);
        self.summary.frames += stats.frames_published;
        self.summary.rotations += stats.segments_written;
        self.summary.epochs += stats.symbol_epochs;
        self.summary.epochs_interrupted += u64::from(life.is_renewing());
        self.summary.trims += stats.segments_trimmed;
    }

    fn life(&self) -> &Life {
        self.life.as_ref().expect("a process runs")
    }

    pub(super) fn stats(&self) -> Stats {
        self.life().gate.counters.stats()
    }

    pub(super) fn wait_for_stable(&self, change: i32) {
        self.life().gate.stable_waiters(change);
    }

    fn turn(&mut self) -> Result<Step, Died> {
        let life = self.life.as_mut().expect("a process runs");
        let step = life.step(&mut self.world);
        self.summary.turns += 1;
        if self.world.fate.is_dead() {
            return Err(Died);
        }
        Ok(step)
    }

    fn step(&mut self) -> Result<(), Died> {
        assert_eq!(self.turn()?, Step::Alive, "the shard ended by itself");
        Ok(())
    }

    pub(super) fn until(&mut self, done: impl Fn(&Stats) -> bool) -> Result<(), Died> {
        let limit = self.world.clock.now() + WAIT_MAX;
        loop {
            let stats = self.life().gate.counters.stats();
            if done(&stats) {
                return Ok(());
            }
            assert!(self.world.clock.now() < limit, "waits for ever: {stats:?}");
            self.step()?;
        }
    }

    pub(super) fn until_written(&mut self) -> Result<(), Died> {
        self.until(|stats| stats.frames_written == stats.frames_published)
    }

    pub(super) fn until_acked(&mut self) -> Result<(), Died> {
        self.until(|stats| {
            stats.frames_acked == stats.frames_recovered + stats.frames_published
                && stats.frames_written == stats.frames_published
        })
    }

    /// Lets happen what is under way.
    pub(super) fn rest(&mut self, nanos: u64) -> Result<(), Died> {
        let until = self.world.clock.now() + nanos;
        while self.world.clock.now() < until {
            self.step()?;
        }
        Ok(())
    }
}

fn config(phase: Phase, seed: u64) -> Config {
    let total = match phase {
        // Trims do not wait once a segment is full.
        Phase::RotationRacingTrim => 384,
        _ => 1024,
    };
    let durability = match seed % 4 {
        0 => "memory",
        1 => "flush",
        2 => "periodic;sf_sync_interval_millis=5",
        _ => "append",
    };
    let played = match phase {
        Phase::Reopen => Phase::reopened(seed),
        phase => phase,
    };
    let reset = if played == Phase::Epochs { 1 } else { 500_000 };
    let text = format!(
        "ws::addr=127.0.0.1:9000;sf_dir=/sf;sender_id=sim;sf_max_segment_bytes=64k;\
         sf_max_total_bytes={total}k;sf_durability={durability};initial_connect_retry=async;\
         spin_micros=5;intake_ring_bytes=131072;symbol_dict_reset_threshold={reset};"
    );
    Config::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
