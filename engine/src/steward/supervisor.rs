//! The thread that hands out look-ups and keeps the steward alive: the clock, the starts and the
//! log around [`Supervision`]. It never blocks, so that look-ups do not wait for anything.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use super::backlog::{Backlog, WorkerId};
use super::fault::Faults;
use super::lookup::Lookups;
use super::strain::Change;
use super::supervision::{Next, Supervision};
use super::worker::Worker;
use crate::io::sys::{block_signals, monotonic_nanos, name_thread};
use crate::io::{Asked, Fs, Reply};
use crate::router::gate::{Gate, Upkeep};

/// The thread's name: look-ups have it too.
pub(super) const THREAD: &str = "forebay-dns";

/// What the supervisor is told.
pub(super) enum Notice {
    /// A look-up is wanted.
    Resolve(Asked),
    /// A worker has ended, and why.
    Ended(WorkerId, String),
    /// The steward falls behind, or has caught up.
    Strain(Change),
    /// The engine stops.
    Stop,
}

/// Everything the thread works with.
pub(super) struct Supervisor<F> {
    pub(super) fs: F,
    pub(super) gate: Arc<Gate>,
    pub(super) backlog: Arc<Backlog>,
    pub(super) supervision: Supervision,
    pub(super) faults: Faults,
    pub(super) lookups: Lookups,
    pub(super) found: SyncSender<Reply>,
    pub(super) arrived: Arc<super::Arrived>,
    pub(super) notices: SyncSender<Notice>,
    /// Starts so far, failed ones included.
    pub(super) starts: u64,
    /// The worker that is alive.
    pub(super) worker: WorkerId,
}

impl<F: Fs + Clone + 'static> Supervisor<F> {
    /// Starts the first steward, then does what comes, until the engine stops.
    pub(super) fn run(mut self, notices: &Receiver<Notice>) {
        name_thread(THREAD);
        block_signals();
        let mut next = Next::Spawn;
        loop {
            next = match next {
                Next::Spawn => self.spawn(),
                Next::FallBack => self.fall_back(),
                Next::Rest => {
                    let heard = notices.recv().ok();
                    match heard.and_then(|notice| self.hear(notice)) {
                        Some(next) => next,
                        None => return,
                    }
                }
                Next::Pause(until) => {
                    let nanos = until.saturating_sub(monotonic_nanos());
                    let ends = match notices.recv_timeout(Duration::from_nanos(nanos)) {
                        Ok(notice) => self.hear(notice).is_none(),
                        Err(error) => error == RecvTimeoutError::Disconnected,
                    };
                    if ends {
                        return;
                    }
                    self.supervision.due(monotonic_nanos())
                }
            };
        }
    }

    /// `None`: the engine stops.
    fn hear(&mut self, notice: Notice) -> Option<Next> {
        match notice {
            Notice::Resolve(asked) => self.look_up(asked),
            Notice::Strain(change) => self.strained(change),
            Notice::Ended(worker, cause)
                if worker == self.worker && !self.backlog.is_stopping() =>
            {
                return Some(self.died(&cause));
            }
            Notice::Ended(..) => {}
            Notice::Stop => {
                self.supervision.stop();
                return None;
            }
        }
        Some(Next::Rest)
    }

    fn look_up(&self, asked: Asked) {
        let (found, arrived, gate) = (self.found.clone(), self.arrived.clone(), self.gate.clone());
        self.lookups.start(asked, move |answer| {
            if found.send(Reply::Resolved(answer)).is_ok() {
                arrived.add();
                gate.knock();
            }
        });
    }

    fn spawn(&mut self) -> Next {
        let start = self.starts;
        self.starts += 1;
        if start > 0 {
            self.gate.counters.steward_respawns.add(1);
        }
        self.worker = self.backlog.hire();
        let worker = Worker {
            id: self.worker,
            fs: self.fs.clone(),
            backlog: Arc::clone(&self.backlog),
            notices: self.notices.clone(),
            faults: self
                .faults
                .of_worker(start.saturating_sub(self.faults.spawn_fails)),
        };
        let started = if self.faults.fails_to_spawn(start) {
            Err(std::io::Error::other("injected"))
        } else {
            worker.start()
        };
        match started {
            Ok(()) => {
                if start > 0 {
                    let respawns = self.supervision.respawns();
                    tracing::warn!(respawns, "FB-S002 the steward was started again");
                }
                self.gate.set_upkeep(Upkeep::Kept);
                Next::Rest
            }
            Err(error) => {
                self.backlog.ended(self.worker);
                self.gate.counters.steward_spawn_failures.add(1);
                self.died(&format!("its thread cannot be started: {error}"))
            }
        }
    }

    /// A worker ended without being asked to.
    fn died(&mut self, cause: &str) -> Next {
        // Before it is counted: whoever sees the count is to find the reason.
        self.gate.set_upkeep(Upkeep::Dead);
        self.gate.counters.steward_deaths.add(1);
        let next = self.supervision.died(monotonic_nanos());
        let respawns = self.supervision.respawns();
        if next == Next::FallBack {
            tracing::error!(cause, respawns, "FB-S001 the steward died");
        } else {
            tracing::warn!(
                cause,
                respawns,
                "FB-S001 the steward died, it is started again after a pause"
            );
        }
        next
    }

    fn fall_back(&self) -> Next {
        tracing::error!(
            respawns = self.supervision.respawns(),
            "FB-S003 the steward is given up: the shard does its work and may stall for \
             milliseconds. Restart the process"
        );
        self.gate.set_upkeep(Upkeep::Inline);
        self.gate.counters.steward_fallback.set(1);
        self.backlog.fall_back();
        Next::Rest
    }

    fn strained(&self, change: Change) {
        match change {
            Change::Relaxed => {
                tracing::info!("FB-S005 the steward has caught up");
                return;
            }
            Change::HighWater => tracing::warn!(
                "FB-S004 the steward falls behind: more waits to be removed than a quarter of \
                 sf_max_total_bytes. Removing goes first until nothing is left"
            ),
            Change::Growing => tracing::warn!(
                "FB-S004 the steward falls behind: more waits to be removed, run after run. \
                 Removing goes first until nothing is left"
            ),
        }
        self.gate.counters.steward_escalations.add(1);
    }
}
