//! Delivering what an earlier number of shards left, era by era, before the present one begins.
//!
//! One thread walks through the eras. In each, the engine's own shards may send up to the era's end
//! in their slots (the fence of their gates), and drainers deliver the slots of shards that are no
//! more, up to the era's end in those. When all of it is confirmed, the next era's turn comes; at
//! last the fences go.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::drainer::{Job, Outcome};
use super::manager::start;
use super::stop::Stop;
use super::{Obstacle, scan};
use crate::config::Config;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::sys::{RealFs, monotonic_nanos};
use crate::observe::{DrainerEvent, Event};
use crate::router::gate::Gate;
use crate::router::hall::Hall;
use crate::units::nanos;

/// How often shards and slots are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Pause before a slot is tried again.
const PAUSE: u64 = 500_000_000;
/// Time after the deadline of a stop that drainers are waited for.
const GRACE: Duration = Duration::from_millis(500);

/// A slot of a shard that is no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left {
    /// Its name.
    pub(crate) name: String,
    /// First frame of the next era; `None` if the rest is of this one.
    pub(crate) until: Option<Fsn>,
}

/// What one era left.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Shards of this engine, and the end of the era in their slots.
    pub(crate) own: Vec<(u32, Fsn)>,
    /// Slots that nobody has.
    pub(crate) left: Vec<Left>,
}

/// What is to be done.
pub(crate) struct Succession {
    /// Servers and limits.
    pub(crate) config: Config,
    /// Directory of the slots.
    pub(crate) sf_dir: PathBuf,
    /// Where events and counts go.
    pub(crate) hall: Arc<Hall>,
    /// The shards, by number. They are fenced already if order matters.
    pub(crate) gates: Vec<Arc<Gate>>,
    /// Oldest first.
    pub(crate) stages: Vec<Stage>,
}

/// The running thread.
#[derive(Debug)]
pub(crate) struct Successor {
    deadline: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Successor {
    /// Starts the thread.
    pub(crate) fn spawn(work: Succession) -> Result<Self, Error> {
        let deadline = Arc::new(AtomicU64::new(u64::MAX));
        let (sender, inbox) = channel();
        let mut walk = Walk {
            deadline: Arc::clone(&deadline),
            stop: Arc::new(Stop::new()),
            sender,
            inbox,
            active: 0,
            work,
        };
        let thread = start("forebay-suc", move || walk.run())?;
        Ok(Self { deadline, thread })
    }

    /// Asks it to end by `deadline` (monotonic): what is not delivered then stays as it is.
    pub(crate) fn stop(&self, deadline: u64) {
        self.deadline.fetch_min(deadline, Ordering::AcqRel);
    }

    /// Waits for the end: after [`stop`](Self::stop), half a second beyond the deadline at most.
    pub(crate) fn join(self) {
        // A panic there leaves the fences up: nothing is sent out of order.
        let _ = self.thread.join();
    }
}

enum Message {
    Event(DrainerEvent),
    Ended(Left, Outcome),
}

/// A slot that waits for its drainer.
struct Due {
    left: Left,
    /// When to try it.
    at: u64,
    /// Since when somebody holds it.
    held_since: Option<u64>,
}

struct Walk {
    work: Succession,
    deadline: Arc<AtomicU64>,
    stop: Arc<Stop>,
    sender: Sender<Message>,
    inbox: Receiver<Message>,
    active: usize,
}

impl Walk {
    fn run(&mut self) {
        for stage in std::mem::take(&mut self.work.stages) {
            if !self.pass(stage) {
                self.wind_down();
                return;
            }
        }
        for gate in &self.work.gates {
            gate.set_fence(Fsn(u64::MAX));
        }
        tracing::info!("FB-A002 what an earlier number of shards left is delivered");
    }

    /// Delivers what one era left; `false` when the time is up.
    fn pass(&mut self, stage: Stage) -> bool {
        for (shard, end) in &stage.own {
            self.work.gates[*shard as usize].raise_fence(*end);
        }
        let due = |left| Due {
            left,
            at: 0,
            held_since: None,
        };
        let mut waiting: VecDeque<Due> = stage.left.into_iter().map(due).collect();
        let mut running = Vec::new();
        loop {
            let now = monotonic_nanos();
            if now >= self.deadline.load(Ordering::Acquire) {
                return false;
            }
            self.launch(&mut waiting, &mut running, now);
            let confirmed = stage.own.iter().all(|(shard, end)| {
                let gate = &self.work.gates[*shard as usize];
                gate.counters.fsn_acked.get() >= end.0 || gate.is_over()
            });
            if confirmed && waiting.is_empty() && self.active == 0 {
                return true;
            }
            match self.inbox.recv_timeout(LOOK_EVERY) {
                Ok(Message::Event(event)) => self.work.hall.events.push(Event::Drainer(event)),
                Ok(Message::Ended(left, outcome)) => {
                    self.active -= 1;
                    let place = running.iter().position(|due: &Due| due.left == left);
                    let due = running.swap_remove(place.expect("it was launched"));
                    waiting.extend(self.judge(due, outcome));
                }
                Err(_) => {}
            }
        }
    }

    /// Starts drainers while there are fewer than wanted.
    fn launch(&mut self, waiting: &mut VecDeque<Due>, running: &mut Vec<Due>, now: u64) {
        let most = self.work.config.orphans.drainers_max.max(1);
        while self.active < most
            && let Some(place) = waiting.iter().position(|due| due.at <= now)
            && let Some(due) = waiting.remove(place)
        {
            let job = Job {
                config: self.work.config.clone(),
                sf_dir: self.work.sf_dir.clone(),
                name: due.left.name.clone(),
                until: due.left.until,
                once: false,
                mismatched_since: None,
                stop: Arc::clone(&self.stop),
            };
            let (sender, left) = (self.sender.clone(), due.left.clone());
            let work = move || {
                let tell = |event| drop(sender.send(Message::Event(event)));
                let outcome = job.run(&tell);
                let _ = sender.send(Message::Ended(left, outcome));
            };
            self.active += 1;
            if let Err(error) = start("forebay-drn", work) {
                let cause = error.to_string();
                let outcome = Outcome::Postponed { cause };
                let _ = self.sender.send(Message::Ended(due.left.clone(), outcome));
            }
            running.push(due);
        }
    }

    /// Tells and counts how a drainer ended; the slot again if it is to be tried once more.
    fn judge(&self, mut due: Due, outcome: Outcome) -> Option<Due> {
        let slot = due.left.name.clone();
        let counters = &self.work.hall.counters;
        let event = match outcome {
            Outcome::Drained { acked } => {
                counters.drainers_succeeded.add_shared(1);
                DrainerEvent::Drained { slot, acked }
            }
            Outcome::Reached => return None,
            Outcome::Passed => return self.passed(due),
            Outcome::Failed { reason, unmarked } => {
                counters.drainers_failed.add_shared(1);
                DrainerEvent::Failed {
                    slot,
                    reason,
                    unmarked,
                }
            }
            Outcome::Mismatched { cause } | Outcome::Postponed { cause } => {
                due.at = monotonic_nanos() + PAUSE;
                let again = DrainerEvent::Postponed { slot, cause };
                self.work.hall.events.push(Event::Drainer(again));
                return Some(due);
            }
        };
        self.work.hall.events.push(Event::Drainer(event));
        None
    }

    /// A slot that was not taken over. A process that was killed holds its lock until its last
    /// write has landed; whoever holds it longer uses the name for something else.
    fn passed(&self, mut due: Due) -> Option<Due> {
        let found = scan(&RealFs, &self.work.sf_dir, &[]).unwrap_or_default();
        let found = found.iter().find(|orphan| orphan.name == due.left.name)?;
        let now = monotonic_nanos();
        let since = *due.held_since.get_or_insert(now);
        let patience = nanos(self.work.config.lock_retry).max(PAUSE);
        if found.obstacle == Some(Obstacle::Failed) || now.saturating_sub(since) > patience {
            tracing::warn!(
                slot = due.left.name, obstacle = ?found.obstacle,
                "FB-A001 a slot of an earlier number of shards is not delivered: the order of its \
                 rows among later ones is lost"
            );
            return None;
        }
        due.at = now + nanos(LOOK_EVERY);
        Some(due)
    }

    /// Waits for the drainers, within the bound of the stop.
    fn wind_down(&mut self) {
        self.stop.ask(monotonic_nanos());
        let until = monotonic_nanos() + nanos(GRACE);
        while self.active > 0 {
            let left = Duration::from_nanos(until.saturating_sub(monotonic_nanos()));
            match self.inbox.recv_timeout(left) {
                Ok(Message::Ended(..)) => self.active -= 1,
                Ok(Message::Event(event)) => self.work.hall.events.push(Event::Drainer(event)),
                Err(_) => return,
            }
        }
    }
}
