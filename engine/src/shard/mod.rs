//! One core: takes batches in, journals them, delivers them, trims what is acknowledged.
//!
//! [`Shard::turn`] is a plain function over the [`Io`] seam. The host (`io::uring` in production,
//! a loop over the simulated world in tests) calls it again and again on one thread and parks as
//! [`Next`] says. Nothing in here blocks, logs or calls user code.

mod assemble;
mod fault;
mod intake;
mod journal;
mod link;
mod progress;
mod replay;
mod restart;

use std::sync::Arc;

use self::intake::Intake;
use self::journal::{Journal, JournalOptions, Stall};
use self::link::Link;
use self::progress::Progress;
use crate::config::{Changes, Config, Durability};
use crate::error::Error;
use crate::fsn::Fsn;
use crate::intake::RingFile;
use crate::io::{Io, Reply};
use crate::router::gate::Gate;
use crate::router::lane::Stage;
use crate::slot::OpenedSlot;
use crate::steward::Incarnation;
use crate::units::nanos;

pub(crate) use self::journal::{SlotRemains, token};
pub(crate) use self::restart::Salvage;

/// Spinning goes on this much longer while operations or bytes are in flight (nanoseconds).
const SPIN_BUSY: u64 = 250_000;
/// The longest sleep: bounds every timer that is not worth a deadline of its own.
const SLEEP_MAX: u64 = 100_000_000;
/// How late a sleep may end (timer slack, and the way back to the core): the rest of a commit
/// window is spun through.
const TIMER_LATE: u64 = 200_000;
/// How long `close` may go on writing after its deadline.
const FINAL_WRITES: u64 = 5_000_000_000;

/// What the host does between two turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Calls again at once.
    Again,
    /// Sleeps until something arrives, until this time at the latest.
    Park(u64),
    /// Ends: the shard is finished.
    Exit,
}

/// What is left when a shard ends.
#[derive(Debug)]
pub(crate) struct Remains {
    /// The slot's files; `None` in memory mode.
    pub(crate) slot: Option<SlotRemains>,
    /// Frames not acked.
    pub(crate) frames: u64,
    /// Bytes of them.
    pub(crate) bytes: u64,
    /// Batches accepted and in no frame: what a failed or full journal could not take.
    pub(crate) untaken: u64,
    /// Files of rings that hold nothing more.
    pub(crate) rings: Vec<RingFile>,
    /// The failure of a disk operation that was not repaired.
    pub(crate) poisoned: Option<String>,
}

/// How far a slot's frames are on disk: the first FSN of each kind that is not.
#[cfg(any(test, feature = "internals"))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnDisk {
    /// Written.
    pub(crate) written: Fsn,
    /// Stable.
    pub(crate) stable: Fsn,
    /// In a full segment whose successor is active by the manifest.
    pub(crate) sealed: Fsn,
}

/// One shard.
#[derive(Debug)]
pub(crate) struct Shard {
    gate: Arc<Gate>,
    journal: Journal,
    intake: Intake,
    progress: Progress,
    link: Link,
    spin: u64,
    idle_spin: bool,
    /// When the first turn began: the age of recovered frames counts from here.
    started: u64,
    last_work: u64,
    last_sweep: u64,
    cpu_at: u64,
    /// A lane cannot be freed before an fdatasync.
    lane_waits: bool,
    /// Dictionary epoch of the intake's and the link's ids.
    epoch: u64,
    /// Version of the settings that changed while this runs.
    settings: u32,
    /// Deadline of `close`, as read when this turn began: what the turn then finds empty was
    /// empty after `close`.
    closing: Option<u64>,
}

/// A slot as its opener hands it over.
#[derive(Debug)]
pub(crate) struct Handover {
    /// The opened slot.
    pub(crate) slot: OpenedSlot,
    /// What the last partial block of the active segment holds.
    pub(crate) active_tail: Vec<u8>,
    /// Bytes of unacked frames, for the gauge.
    pub(crate) unacked_bytes: u64,
    /// This life of the slot.
    pub(crate) incarnation: Incarnation,
    /// No producer will join and no batch waits in an intake: no spares are made.
    pub(crate) replay_only: bool,
    /// Batches are taken only when what the slot holds is acked.
    pub(crate) journal_first: bool,
}

impl Shard {
    /// A shard over an opened slot, or in memory.
    pub(crate) fn new(
        config: &Config,
        gate: Arc<Gate>,
        handover: Option<Handover>,
    ) -> Result<Self, Error> {
        let periodic = config.durability == Durability::Periodic;
        let sync_interval = if periodic {
            nanos(config.sync_interval)
        } else {
            0
        };
        let replay_only = handover
            .as_ref()
            .is_some_and(|handover| handover.replay_only);
        let options = JournalOptions {
            segment_bytes: config.segment_bytes,
            total_bytes: config.total_bytes,
            memory_budget_bytes: config.memory_budget_bytes,
            spares: if replay_only {
                0
            } else {
                config.steward.spares
            },
            prefill: config.fills_spares(),
            min_free_bytes: config.steward.min_free_bytes,
            sync_always: matches!(config.durability, Durability::Flush | Durability::Append),
            sync_interval,
            commit_window: nanos(config.commit_window),
            commit_window_bytes: config.commit_window_bytes,
            symbols_max: config.symbols_max,
            // Without producers there will be no further symbol.
            symbols_reset: if replay_only {
                u32::MAX
            } else {
                config.symbols_reset
            },
        };
        let has_files = handover.is_some();
        let journal_first = handover.as_ref().is_some_and(|h| h.journal_first);
        let (slot, tail, unacked) = match handover {
            Some(h) => (
                Some((h.slot, h.incarnation)),
                h.active_tail,
                h.unacked_bytes,
            ),
            None => (None, Vec::new(), 0),
        };
        let journal = Journal::new(options, Arc::clone(&gate), slot, &tail)?;
        let link = Link::new(config, Arc::clone(&gate), &journal)?;
        gate.set_symbols_max(config.symbols_max);
        let recovered = journal.published().since(journal.acked());
        let after = if journal_first {
            journal.published()
        } else {
            Fsn(0)
        };
        Ok(Self {
            intake: Intake::new(Arc::clone(&gate), after, has_files),
            progress: Progress::new(
                journal.published(),
                has_files,
                config.delivery.durable_ack.is_some(),
                (recovered, unacked),
            ),
            link,
            journal,
            gate,
            spin: nanos(config.spin),
            idle_spin: config.idle_spin,
            started: 0,
            last_work: 0,
            last_sweep: 0,
            cpu_at: 0,
            lane_waits: false,
            epoch: 0,
            settings: 0,
            closing: None,
        })
    }

    /// One turn of the duty cycle.
    pub(crate) fn turn(&mut self, io: &mut impl Io) -> Next {
        let now = io.now();
        if self.started == 0 {
            self.started = now.max(1);
        }
        self.gate.counters.turns.add(1);
        self.closing = self.gate.closing();
        if self.closing.is_some() {
            fault::pass(fault::Place::Close);
        }
        let mut worked = self.reap(io, now);
        if let Some(changes) = self.gate.changes_since(&mut self.settings) {
            self.change(io, changes, now);
            worked = true;
        }
        if self.epoch != self.journal.epoch() {
            self.epoch = self.journal.epoch();
            self.intake.begin_epoch();
            self.link.begin_epoch(io, &self.journal, now);
            worked = true;
        }
        let joined = self.gate.joined();
        if !joined.is_empty() {
            self.intake.join(joined, &mut self.progress);
            worked = true;
        }
        self.journal.close(self.closing.is_some());
        self.journal
            .want_sync(self.gate.wants_stable() || self.lane_waits);
        let sent = self.link.position();
        if self.holds(now) {
            self.intake.stall = Some(Stall::Epoch);
        } else {
            worked |= self
                .intake
                .turn(io, &mut self.journal, &mut self.progress, (sent, now));
        }
        self.gate.set_full(self.intake.stall == Some(Stall::Full));
        self.journal.pump(io, now);
        self.report_disk(now);
        self.intake.release();
        let before = (self.link.okayed(), self.journal.acked());
        worked |= self.link.turn(io, &mut self.journal, now);
        if (self.link.okayed(), self.journal.acked()) != before {
            self.report_acked(before.1, now);
        }
        io.kick();
        if worked {
            self.last_work = now;
            self.publish_gauges();
        } else {
            self.gate.counters.turns_idle.add(1);
        }
        self.next(io, now)
    }

    /// Whether something arrived since the last turn: the host's last look before it sleeps.
    pub(crate) fn has_input(&self) -> bool {
        self.gate.has_joining()
            || (self.closing.is_none() && self.gate.closing().is_some())
            || self.intake.has_input(self.journal.acked())
            || self.gate.has_changed_since(self.settings)
            || self.gate.is_lacking_symbols()
            || (self.gate.wants_stable() && self.journal.stable() < self.journal.written())
    }

    /// What is on disk; `None` while the journal is poisoned.
    #[cfg(any(test, feature = "internals"))]
    pub(crate) fn on_disk(&self) -> Option<OnDisk> {
        let journal = &self.journal;
        journal.poisoned().is_none().then(|| OnDisk {
            written: journal.written(),
            stable: journal.stable(),
            sealed: journal.sealed(),
        })
    }

    /// Whether the slot is being renewed.
    #[cfg(any(test, feature = "internals"))]
    pub(crate) fn is_renewing(&self) -> bool {
        self.journal.is_renewing()
    }

    /// Ends the shard: only after [`Next::Exit`].
    pub(crate) fn into_remains(self) -> Remains {
        let frames = self.journal.published().since(self.journal.acked());
        Remains {
            frames,
            bytes: self.progress.unacked_bytes(),
            untaken: self.intake.untaken(),
            rings: self.intake.into_finished(),
            poisoned: self.journal.poisoned().map(str::to_owned),
            slot: self.journal.into_files(),
        }
    }

    /// Goes on with other settings.
    fn change(&mut self, io: &mut impl Io, changes: Changes, now: u64) {
        if let Some(bytes) = changes.total_bytes {
            self.journal.set_total_bytes(bytes);
        }
        if let Some(list) = changes.endpoints {
            self.link.change_servers(io, list, now);
        }
    }

    /// Whether the intake waits for a new dictionary epoch. At the end there is none for its own
    /// sake: closing leaves the slot empty as well.
    fn holds(&mut self, now: u64) -> bool {
        let mut short = self.intake.stall == Some(Stall::Symbols);
        if self.gate.is_lacking_symbols() {
            self.gate.saw_lack();
            short = true;
        }
        let over = self.closing.is_some() && self.intake.is_empty();
        let sent = self.link.has_sent_all(&self.journal);
        self.journal.holds((short, sent, over), now)
    }

    /// Takes completed operations and answers of the steward.
    fn reap(&mut self, io: &mut impl Io, now: u64) -> bool {
        let mut any = false;
        while let Some(done) = io.complete() {
            any = true;
            if done.token.0 >= token::REPLAY {
                self.link.read_completed(done);
            } else {
                self.journal.completed(done, now);
            }
        }
        while let Some(reply) = io.reply() {
            any = true;
            match reply {
                Reply::Resolved(found) => self.link.resolved(io, found, now),
                Reply::Opened { key, answer } => self.link.file_opened(key, answer),
                Reply::Kept(answer) => self.link.kept(io, answer, now),
                reply => self.journal.replied(io, reply, now),
            }
        }
        if any {
            self.gate.set_disk_failure(self.journal.poisoned());
        }
        any
    }

    /// After a failed write or sync no further stage is reported: what the kernel says of the
    /// file's later operations proves nothing about the earlier ones.
    fn report_disk(&mut self, now: u64) {
        if self.journal.poisoned().is_some() {
            return;
        }
        let counters = &self.gate.counters;
        self.progress
            .advance(Stage::Written, self.journal.written(), now, counters);
        self.progress
            .advance(Stage::Stable, self.journal.stable(), now, counters);
    }

    fn report_acked(&mut self, before: Fsn, now: u64) {
        let acked = self.journal.acked();
        let counters = &self.gate.counters;
        self.progress.recovered_acked(acked.since(before));
        let okayed = self.link.okayed();
        self.progress.advance(Stage::Acked, okayed, now, counters);
        if self.link.is_durable() {
            self.progress.advance(Stage::Durable, acked, now, counters);
        }
    }

    fn publish_gauges(&self) {
        self.journal.publish_gauges();
        self.gate
            .counters
            .unacked_bytes
            .set(self.progress.unacked_bytes());
        let oldest = self.progress.oldest_unacked(self.started);
        self.gate.set_oldest_unacked(oldest.unwrap_or(0));
    }

    fn next(&mut self, io: &mut impl Io, now: u64) -> Next {
        if now >= self.last_sweep + SLEEP_MAX {
            self.last_sweep = now;
            self.intake.sweep(io, &mut self.progress);
            let gate = &self.gate;
            self.lane_waits = self.progress.sweep(|lane| gate.forget(lane));
        }
        if now >= self.cpu_at {
            self.cpu_at = now + SLEEP_MAX;
            self.gate
                .counters
                .shard_cpu_nanos
                .set(crate::io::sys::cpu_nanos());
        }
        if self
            .closing
            .is_some_and(|deadline| self.may_exit(deadline, now))
        {
            return Next::Exit;
        }
        let busy = self.journal.is_busy()
            || self.link.is_busy(&self.journal)
            || self.link.awaits(&self.journal);
        let spin = if busy {
            self.spin.max(SPIN_BUSY)
        } else {
            self.spin
        };
        let window = self.journal.window_end(now);
        let window = window.map(|end| end.saturating_sub(TIMER_LATE));
        if self.idle_spin || now < self.last_work + spin || window.is_some_and(|end| now >= end) {
            return Next::Again;
        }
        self.gate.counters.parks.add(1);
        let mut until = now + SLEEP_MAX;
        until = until.min(self.link.deadline().max(now));
        until = until.min(self.journal.deadline(now).unwrap_or(until));
        until = until.min(window.unwrap_or(until));
        if let Some(deadline) = self.closing {
            until = until.min(deadline.max(now + 1_000_000));
        }
        Next::Park(until)
    }

    /// Closing: what was accepted is written, and acked, or there is no time or no hope left. While
    /// a poisoned journal waits for its repair, what it holds in memory is delivered on.
    fn may_exit(&self, deadline: u64, now: u64) -> bool {
        let acked = self.journal.acked() == self.journal.published();
        let open = self.intake.has_work(self.journal.acked());
        let taken = !open || self.intake.stall == Some(Stall::Poisoned);
        let settled = taken && self.journal.is_settled();
        let over = acked || self.link.is_stopped() || now >= deadline;
        let overdue = now >= deadline.saturating_add(FINAL_WRITES);
        ((settled && over) || overdue) && !self.journal.in_flight() && !self.link.in_flight()
    }

    /// Ends the conversation in order, after [`Next::Exit`].
    pub(crate) fn stop(&mut self, io: &mut impl Io) {
        self.link.stop(io);
        self.publish_gauges();
        self.gate.shut();
    }
}
