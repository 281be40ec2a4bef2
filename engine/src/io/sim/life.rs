//! One process: a shard on the simulated world, and its producers on the same thread.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use super::disk::SimFs;
use super::random::Rng;
use super::server::SharedLedger;
use super::world::{Injected, SimIo};
use crate::config::{Config, Durability};
use crate::engine::reopen_slot;
use crate::error::Error;
use crate::io::sys::EventFd;
use crate::observe::Stats;
use crate::producer::{Producer, ProducerOptions, Receipt, Way};
use crate::router::gate::Gate;
use crate::router::lane::{self, Stage};
use crate::router::region::Region;
use crate::shard::{Handover, Next, OnDisk, Remains, Shard};
use crate::steward::Incarnation;

/// Turns without a moment of virtual time passing: the shard waits for what is there already.
const STUCK_TURNS: u32 = 20_000;

/// A producer, the batch it holds, and its receipts.
#[derive(Debug)]
struct Author {
    id: u32,
    producer: Producer,
    receipts: Vec<Receipt>,
    /// Batches still to publish.
    left: u32,
    /// Longest pause between two batches, in nanoseconds.
    pause: u64,
    next_at: u64,
    filled: bool,
    /// Batches that the full dictionary refused.
    refused: u64,
}

/// What a turn led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Goes on.
    Alive,
    /// The shard is finished.
    Finished,
    /// The shard panicked, where the run wanted it to.
    Panicked,
}

/// Where the frames of a shard begin that took the place of one that panicked.
#[derive(Debug, Clone)]
pub(crate) struct Rebased {
    /// The next frame's number, and the first unacked one's, as the slot was opened again.
    pub(crate) opened: (u64, u64),
    /// What was counted before.
    pub(crate) before: Stats,
}

/// A running shard.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) gate: Arc<Gate>,
    /// Missing only while one takes another one's place.
    shard: Option<Shard>,
    incarnation: Incarnation,
    rebased: Option<Rebased>,
    authors: Vec<Author>,
    ledger: SharedLedger,
    rng: Rng,
    last_time: u64,
    stuck: u32,
    /// Times the cap was reached.
    pub(crate) times_full: u64,
    was_full: bool,
}

impl Life {
    /// Starts a shard over an opened slot.
    pub(crate) fn start(
        config: &Config,
        handover: Handover,
        ledger: &SharedLedger,
        rng: Rng,
    ) -> Result<Self, Error> {
        let bell = EventFd::new().map_err(|error| Error::Internal(error.to_string()))?;
        let gate = Arc::new(Gate::new(bell));
        let incarnation = handover.incarnation.clone();
        let shard = Shard::new(config, Arc::clone(&gate), Some(handover))?;
        ledger.borrow_mut().opened();
        Ok(Self {
            gate,
            shard: Some(shard),
            incarnation,
            rebased: None,
            authors: Vec::new(),
            ledger: SharedLedger::clone(ledger),
            rng,
            last_time: 0,
            stuck: 0,
            times_full: 0,
            was_full: false,
        })
    }

    /// A producer that publishes `batches` batches, with pauses of up to `pause` nanoseconds.
    pub(crate) fn add_author(&mut self, config: &Config, batches: u32, pause: u64) -> u32 {
        let region = Region::private(config.intake.ring_bytes).expect("memory for a ring");
        let (writer, end, lane) = lane::lane(region, None, &self.gate.hall.herald);
        self.gate.join(Arc::clone(&lane), end);
        let options = ProducerOptions {
            append_deadline: config.append_deadline,
            flush_limit_least: std::time::Duration::ZERO,
            message_bytes_max: (config.segment_bytes - 32, "sf_max_segment_bytes"),
            name_bytes_max: config.max_name_bytes,
            flush_stage: Stage::Written,
            publish_stable: config.durability == Durability::Append,
            has_files: true,
            keys: config.producer.clone(),
            symbols_max: config.symbols_max,
            route_by: config.shards.route_by,
        };
        let way = Way {
            gate: Arc::clone(&self.gate),
            lane,
        };
        let id = self.ledger.borrow_mut().open();
        self.authors.push(Author {
            id,
            producer: Producer::new(options, vec![(way, writer)]),
            receipts: Vec::new(),
            left: batches,
            pause,
            next_at: 0,
            filled: false,
            refused: 0,
        });
        id
    }

    /// Whether everything that was to be published is.
    pub(crate) fn is_silent(&self) -> bool {
        self.authors.iter().all(|author| author.left == 0)
    }

    /// Batches that the full dictionary refused.
    pub(crate) fn refused(&self) -> u64 {
        self.authors.iter().map(|author| author.refused).sum()
    }

    /// Whether a new dictionary epoch is under way: of the slot's files some may be gone.
    pub(crate) fn is_renewing(&self) -> bool {
        self.shard.as_ref().is_some_and(Shard::is_renewing)
    }

    /// Publishes no more.
    pub(crate) fn silence(&mut self) {
        for author in &mut self.authors {
            author.left = 0;
        }
    }

    fn shard(&self) -> &Shard {
        self.shard.as_ref().expect("a life has a shard")
    }

    fn shard_mut(&mut self) -> &mut Shard {
        self.shard.as_mut().expect("a life has a shard")
    }

    /// The producers publish what is due.
    fn publish(&mut self, now: u64) {
        for author in self.authors.iter_mut().filter(|author| author.left > 0) {
            if author.next_at <= now {
                author.publish(&self.ledger, now, &mut self.rng);
            }
        }
    }

    /// The producers publish what is due, then the shard turns once and sleeps as it asks.
    pub(crate) fn step(&mut self, world: &mut SimIo) -> Step {
        let now = world.clock.now();
        self.publish(now);
        let turned = catch_unwind(AssertUnwindSafe(|| self.shard_mut().turn(world)));
        let next = match turned {
            Ok(next) => next,
            Err(panic) if panic.is::<Injected>() => {
                // What the turn had told before is known, too.
                self.read_receipts();
                return Step::Panicked;
            }
            Err(panic) => resume_unwind(panic),
        };
        self.read_receipts();
        self.watch(now, next);
        match next {
            Next::Exit => return Step::Finished,
            Next::Again => {
                world.clock.advance(self.rng.between(1_000, 20_000));
                world.net.pump();
            }
            Next::Park(until) => {
                self.gate.park();
                if self.shard().has_input() {
                    world.clock.advance(self.rng.between(1_000, 20_000));
                    world.net.pump();
                } else {
                    let due = self.authors.iter().filter(|author| author.left > 0);
                    let due = due.map(|author| author.next_at).min().unwrap_or(u64::MAX);
                    world.sleep(until.min(due));
                }
                self.gate.unpark();
            }
        }
        Step::Alive
    }

    /// What is on disk; `None` while the journal is poisoned.
    pub(crate) fn on_disk(&self) -> Option<OnDisk> {
        self.shard().on_disk()
    }

    fn read_receipts(&mut self) {
        let mut ledger = self.ledger.borrow_mut();
        let is_durable = ledger.is_durable;
        for author in &self.authors {
            let account = ledger.account(author.id);
            let old = (account.acked, account.durable);
            author.advance(Stage::Written, &mut account.written);
            author.advance(Stage::Stable, &mut account.stable);
            author.advance(Stage::Acked, &mut account.acked);
            if is_durable {
                author.advance(Stage::Durable, &mut account.durable);
            }
            assert!(
                account.stable <= account.written,
                "stable before written: {account:?}"
            );
            let (acked, durable) = (account.acked, account.durable);
            assert!(!is_durable || durable <= acked, "durable before acked");
            if (acked, durable) != old {
                ledger.check_acked(author.id);
            }
        }
    }

    fn watch(&mut self, now: u64, next: Next) {
        self.stuck = if now == self.last_time {
            self.stuck + 1
        } else {
            0
        };
        self.last_time = now;
        let stuck = self.stuck >= STUCK_TURNS;
        assert!(
            !stuck,
            "time stands still at {now}: the shard says {next:?}"
        );
        let full = self.gate.is_full();
        self.times_full += u64::from(full && !self.was_full);
        self.was_full = full;
    }

    /// Ends in order, after [`Step::Finished`].
    pub(crate) fn finish(mut self, world: &mut SimIo) -> Remains {
        world.panic_in(None);
        self.shard_mut().stop(world);
        world.settle();
        self.shard.expect("a life has a shard").into_remains()
    }

    /// Where frames and counts begin anew, if a shard took the place of another one.
    pub(crate) fn rebased(&self) -> Option<&Rebased> {
        self.rebased.as_ref()
    }

    /// The shard panicked: as the host does, another one takes its place, over the slot opened again
    /// with the calls of `fs`. Producers go on meanwhile. Answers the slot as it was opened, or
    /// `None` if the shard is given up, or the process died on the way.
    pub(crate) fn revive(
        &mut self,
        config: &Config,
        world: &mut SimIo,
        fs: &SimFs,
    ) -> Option<(u64, u64)> {
        world.panic_in(None);
        world.begin_again();
        let shard = self.shard.take().expect("it panicked");
        let salvage = shard.salvage();
        if salvage.poisoned.is_some() {
            return None;
        }
        let pause = self.rng.between(1_000, 20_000_000);
        self.gate.went_down("injected", world.clock.now(), pause);
        for _ in 0..3 {
            world.clock.advance(pause / 3);
            self.publish(world.clock.now());
        }
        let before = self.gate.counters.stats();
        let (written, acked) = (salvage.written.0, salvage.acked.0);
        let handover = loop {
            match reopen_slot(fs, config, &mut self.incarnation, &salvage) {
                Ok(handover) => break handover,
                Err(_) if fs.is_dead() => return None,
                // A disk that is full now may have room at the next attempt.
                Err(Error::Disk { .. }) => world.clock.advance(1_000_000_000),
                Err(error) => panic!("the slot does not open again: {error}"),
            }
        };
        let next = handover.slot.next.0;
        // What it had been told is not forgotten, as far as the disk has it.
        let opened = (next, handover.slot.acked.0.max(acked.min(next)));
        assert!(opened.0 >= written, "{opened:?}, {written} were written");
        let resumed = Shard::resume(config, Arc::clone(&self.gate), handover, salvage);
        self.shard = Some(resumed.unwrap_or_else(|error| panic!("it does not go on: {error}")));
        self.gate.came_up();
        self.ledger.borrow_mut().revived();
        self.rebased = Some(Rebased { opened, before });
        Some(opened)
    }
}

impl Author {
    fn publish(&mut self, ledger: &SharedLedger, now: u64, rng: &mut Rng) {
        let number = ledger.borrow_mut().account(self.id).published;
        if !self.filled {
            let batch = ledger.borrow().batch(self.id, number);
            match batch.fill(&mut self.producer) {
                Ok(()) => self.filled = true,
                Err(Error::SymbolsFull { .. }) => {
                    self.producer.clear();
                    self.next_at = now + 5_000_000;
                    self.refused += 1;
                    return;
                }
                Err(error) => panic!("filling: {error}"),
            }
        }
        self.next_at = now + rng.between(1_000, self.pause);
        match self.producer.try_publish() {
            Ok(receipt) => {
                ledger.borrow_mut().account(self.id).published += 1;
                self.receipts.push(receipt);
                self.filled = false;
                self.left -= 1;
            }
            Err(Error::Backpressure { .. }) => self.next_at += 500_000,
            Err(Error::Poisoned { .. }) => self.left = 0,
            Err(error) => panic!("publishing: {error}"),
        }
    }

    /// Counts the receipts that have reached `stage`.
    fn advance(&self, stage: Stage, count: &mut u32) {
        let rest = self.receipts.iter().skip(*count as usize);
        for receipt in rest {
            match receipt.reached(stage) {
                Ok(true) => *count += 1,
                Ok(false) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}
