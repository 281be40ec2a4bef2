//! One drainer: takes a slot over, delivers what it holds, releases it. Runs on a thread of its
//! own and may block.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::stop::Stop;
use crate::config::{Config, Durability, IntakeKeys};
use crate::engine::{OpenedIntake, hand_back, hand_over};
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::Fs;
use crate::io::sys::{EventFd, RealFs, monotonic_nanos};
use crate::io::uring::{UringIo, run_here, tls};
use crate::observe::DrainerEvent;
use crate::router::gate::Gate;
use crate::shard::{Handover, Remains, Shard};
use crate::slot::{Adoption, OpenedSlot, adopt, clear_last_error, mark_failed, note_error};
use crate::steward::{self, StewardOptions};

/// Segment memory of a drainer: the active segment, and nothing that is read back.
const MEMORY_BUDGET_BYTES: u64 = 8 << 20;
/// Least time between two notes in `.last_error`, and between two progress events (nanoseconds).
const NOTE_EVERY: u64 = 5_000_000_000;
const PROGRESS_EVERY: u64 = 1_000_000_000;

/// A slot to drain.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) config: Config,
    pub(super) sf_dir: PathBuf,
    pub(super) name: String,
    /// Leave what follows as it is; `None` delivers all.
    pub(super) until: Option<Fsn>,
    /// Give up when every server was tried in vain, instead of trying for ever.
    pub(super) once: bool,
    /// Since when (monotonic) no server granted durable acknowledgements for this slot.
    pub(super) mismatched_since: Option<u64>,
    pub(super) stop: Arc<Stop>,
}

/// How a drain ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Everything is confirmed.
    Drained { acked: u64 },
    /// Everything up to where the job goes is confirmed; more is left.
    Reached { acked: u64 },
    /// It was no orphan any more, or somebody holds it.
    Passed,
    /// Trying again cannot help.
    Failed {
        reason: String,
        unmarked: Option<String>,
    },
    /// No server grants the durable acknowledgement that is asked for; another may come.
    Mismatched { cause: String },
    /// It stays as it is.
    Postponed { cause: String },
}

impl Outcome {
    fn failed(reason: String, marker: std::io::Result<()>) -> Self {
        Self::Failed {
            reason,
            unmarked: marker.err().map(|error| error.to_string()),
        }
    }

    fn postponed(cause: &impl ToString) -> Self {
        Self::Postponed {
            cause: cause.to_string(),
        }
    }
}

impl Job {
    /// Drains the slot. `tell` gets what happens meanwhile.
    pub(super) fn run(self, tell: &dyn Fn(DrainerEvent)) -> Outcome {
        let adopted = {
            let Some(_turn) = self.stop.turn() else {
                return Outcome::Passed;
            };
            adopt(&RealFs, &self.sf_dir, &self.name, self.config.segment_bytes)
        };
        match adopted {
            Ok(Adoption::Slot(slot)) => self.deliver(*slot, tell),
            Ok(Adoption::Empty) => Outcome::Drained { acked: 0 },
            Ok(Adoption::Passed) => Outcome::Passed,
            Ok(Adoption::Damaged { reason, marker }) => Outcome::failed(reason, marker),
            Err(error) => Outcome::postponed(&error),
        }
    }

    fn deliver(&self, slot: OpenedSlot, tell: &dyn Fn(DrainerEvent)) -> Outcome {
        let dir = slot.dir.clone();
        let lock = slot.lock.clone();
        let config = shard_config(&self.config, &self.name);
        let opened = OpenedIntake::open(&slot, &config).and_then(|intake| {
            let mut handover = hand_over(&RealFs, slot, !intake.is_filled())?;
            handover.journal_first = true;
            Ok((handover, intake))
        });
        let (handover, intake) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                note_error(&RealFs, &dir, &error.to_string());
                let _ = RealFs.unlock(&lock);
                return Outcome::postponed(&error);
            }
        };
        let incarnation = handover.incarnation.clone();
        // The ring waits for what is in flight when it is dropped, by a panic too.
        let ended = catch_unwind(AssertUnwindSafe(|| {
            self.serve(&config, &dir, handover, intake, tell)
        }));
        let cause = match ended {
            Ok(Ok((remains, gate))) => return self.conclude(&dir, remains, &gate),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the drainer panicked: this is a bug of forebay".to_owned(),
        };
        note_error(&RealFs, &dir, &cause);
        // Closing the last descriptor would release it as well, but a ring that held it is taken
        // down behind our back.
        let _ = incarnation.release(&RealFs);
        Outcome::postponed(&cause)
    }

    /// The shard's life, from hand-over to its remains.
    fn serve(
        &self,
        config: &Config,
        dir: &Path,
        handover: Handover,
        intake: OpenedIntake,
        tell: &dyn Fn(DrainerEvent),
    ) -> Result<(Remains, Arc<Gate>), Error> {
        let unsupported = |source: std::io::Error| Error::Unsupported {
            what: format!("draining {}", self.name),
            reason: source.to_string(),
            remedy: "Check descriptor (ulimit -n) and locked-memory (ulimit -l) limits",
        };
        let incarnation = handover.incarnation.clone();
        let tls = tls::client(config)?;
        let gate = Arc::new(Gate::new(EventFd::new().map_err(unsupported)?));
        intake.join(&gate);
        if let Some(until) = self.until {
            gate.set_fence(until);
        }
        let keeping = StewardOptions::of(config);
        let (steward, threads) = steward::spawn(&RealFs, &gate, steward::system(), keeping)?;
        let lock = Some(incarnation.lock_file());
        let io = UringIo::new(Arc::clone(&gate), steward, lock, None)
            .map_err(unsupported)?
            .with_tls(tls);
        let unacked_bytes = handover.unacked_bytes;
        let shard = Shard::new(config, Arc::clone(&gate), Some(handover))?;
        let mut watch = Watch::new(self, dir, &gate, tell);
        watch.started(unacked_bytes);
        self.stop.enlist(&gate);
        let remains = run_here(shard, io, || watch.look());
        self.stop.dismiss(&gate);
        threads.stop();
        Ok((remains, gate))
    }

    /// Judges what is left, notes it in the slot and releases it.
    fn conclude(&self, dir: &Path, remains: Remains, gate: &Gate) -> Outcome {
        let acked = gate.counters.frames_acked.get();
        let outcome = if let Some(cause) = &remains.poisoned {
            // The disk failed: what the server said is not the reason that the slot stays.
            Outcome::postponed(&format!("the journal is poisoned: {cause}"))
        } else if remains.frames == 0 && remains.untaken == 0 {
            Outcome::Drained { acked }
        } else if self.has_reached(gate) {
            Outcome::Reached { acked }
        } else if let Some(terminal) = gate.terminal() {
            let reason = terminal.to_error().to_string();
            if gate.is_lacking_durable() && self.may_be_granted() {
                Outcome::Mismatched { cause: reason }
            } else {
                let marker = mark_failed(&RealFs, dir, &reason);
                Outcome::failed(reason, marker)
            }
        } else {
            let (_, cause) = gate.failures();
            let cause = Some(cause).filter(|cause| !cause.is_empty());
            Outcome::postponed(&cause.unwrap_or_else(|| "stopped before all was acked".to_owned()))
        };
        match &outcome {
            Outcome::Drained { .. } => clear_last_error(&RealFs, dir),
            Outcome::Postponed { cause } | Outcome::Mismatched { cause } => {
                note_error(&RealFs, dir, cause);
            }
            _ => {}
        }
        match hand_back(&RealFs, remains) {
            Ok(()) => outcome,
            // All is confirmed, but the files of it could not be removed.
            Err(error) => Outcome::postponed(&error),
        }
    }

    /// Whether everything up to where the job goes is confirmed.
    fn has_reached(&self, gate: &Gate) -> bool {
        let acked = gate.counters.fsn_acked.get();
        self.until.is_some_and(|until| acked >= until.0)
    }

    /// Whether the wait for a server that grants durable acknowledgements goes on.
    fn may_be_granted(&self) -> bool {
        let budget = self.config.reconnect_max_duration.as_nanos();
        let waited = |since| monotonic_nanos().saturating_sub(since);
        self.mismatched_since
            .is_none_or(|since| u128::from(waited(since)) < budget)
    }
}

/// The configuration of a drainer's shard: it shares nothing with the foreground but the way to
/// the servers.
fn shard_config(config: &Config, name: &str) -> Config {
    Config {
        sender_id: name.to_owned(),
        // What is appended from an intake was accepted and promised no more.
        durability: Durability::Memory,
        spin: Duration::ZERO,
        idle_spin: false,
        memory_budget_bytes: MEMORY_BUDGET_BYTES,
        intake: IntakeKeys {
            dir: None,
            ..config.intake.clone()
        },
        ..config.clone()
    }
}

/// Looks at a running drainer from its own thread.
struct Watch<'a> {
    job: &'a Job,
    dir: &'a Path,
    gate: &'a Gate,
    tell: &'a dyn Fn(DrainerEvent),
    noted: String,
    noted_at: u64,
    told: u64,
    told_at: u64,
}

impl<'a> Watch<'a> {
    fn new(job: &'a Job, dir: &'a Path, gate: &'a Gate, tell: &'a dyn Fn(DrainerEvent)) -> Self {
        Self {
            job,
            dir,
            gate,
            tell,
            noted: String::new(),
            noted_at: 0,
            told: 0,
            told_at: monotonic_nanos(),
        }
    }

    fn started(&self, bytes: u64) {
        (self.tell)(DrainerEvent::Started {
            slot: self.job.name.clone(),
            frames: self.gate.counters.unacked_frames.get(),
            bytes,
        });
    }

    fn look(&mut self) {
        let now = monotonic_nanos();
        if now >= self.told_at + PROGRESS_EVERY {
            let acked = self.gate.counters.frames_acked.get();
            if acked > self.told {
                self.told = acked;
                (self.tell)(DrainerEvent::Progress {
                    slot: self.job.name.clone(),
                    acked,
                    left: self.gate.counters.unacked_frames.get(),
                });
            }
            self.told_at = now;
        }
        let (rounds, cause) = self.gate.failures();
        let news = !cause.is_empty() && cause != self.noted;
        if news && (self.noted_at == 0 || now >= self.noted_at + NOTE_EVERY) {
            note_error(&RealFs, self.dir, &cause);
            self.noted = cause;
            self.noted_at = now;
        }
        // A shard ends only when it is told to.
        let done = self.gate.is_acked() || self.job.has_reached(self.gate);
        if self.gate.terminal().is_some() || done || (self.job.once && rounds > 0) {
            self.gate.close(now);
        }
    }
}
