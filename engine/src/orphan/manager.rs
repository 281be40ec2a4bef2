//! Which orphans are drained, and when: one thread that looks at the directory now and then, keeps
//! up to so many drainers busy, counts and tells.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::drainer::{Job, Outcome};
use super::stop::Stop;
use super::{Obstacle, Orphan, report_failed, scan};
use crate::config::Config;
use crate::error::Error;
use crate::io::sys::{RealFs, block_signals, monotonic_nanos, name_thread, yield_to_others};
use crate::observe::DrainerEvent;
use crate::router::gate::lock;
use crate::router::hall::Hall;
use crate::units::nanos;

/// Time after the deadline of a stop that drainers are waited for: they finish their last writes.
const GRACE: u64 = 500_000_000;

/// Slots that were given up and could not be marked: left alone, and told once, while this process
/// lives.
static UNMARKED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Gets what happens, in the order in which it happens, on the manager's thread.
pub(crate) type Audience = Box<dyn FnMut(DrainerEvent) + Send>;

/// When the manager ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// When it is told to.
    Stopped,
    /// When there is nothing left that it could drain.
    #[cfg_attr(
        not(any(test, feature = "internals")),
        allow(dead_code, reason = "for `forebay drain`, by way of `internals`")
    )]
    Empty,
    /// When every orphan was tried once.
    TriedOnce,
}

/// What to drain and how.
pub(crate) struct Plan {
    /// Servers, limits, number of drainers and scan interval.
    pub(crate) config: Config,
    /// Directory of the slots.
    pub(crate) sf_dir: PathBuf,
    /// Slots that are no orphans.
    pub(crate) own: Vec<String>,
    /// When to end.
    pub(crate) until: Until,
    /// Where the counts go; the manager is their one writer.
    pub(crate) hall: Arc<Hall>,
    /// Who listens.
    pub(crate) audience: Audience,
}

/// The running manager.
#[derive(Debug)]
pub(crate) struct Orphans {
    stop: Arc<Stop>,
    sender: Sender<Message>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
enum Message {
    Event(DrainerEvent),
    Ended { name: String, outcome: Outcome },
    Stop,
}

impl Orphans {
    /// Starts the manager's thread.
    pub(crate) fn spawn(plan: Plan) -> Result<Self, Error> {
        let stop = Arc::new(Stop::new());
        let (sender, inbox) = channel();
        let mut manager = Manager {
            stop: Arc::clone(&stop),
            sender: sender.clone(),
            inbox,
            waiting: VecDeque::new(),
            active: BTreeSet::new(),
            mismatched: BTreeMap::new(),
            orphans: BTreeMap::new(),
            settled: false,
            held: false,
            tried: BTreeSet::new(),
            plan,
        };
        let thread = start("forebay-orp", move || manager.run())?;
        Ok(Self {
            stop,
            sender,
            thread,
        })
    }

    /// Asks the drainers to end: those that are not done at `deadline` (monotonic) leave their
    /// slots as they are.
    pub(crate) fn stop(&self, deadline: u64) {
        self.stop.ask(deadline);
        // The manager may have ended by itself.
        let _ = self.sender.send(Message::Stop);
    }

    /// Whether the manager has ended.
    #[cfg_attr(
        not(any(test, feature = "internals")),
        allow(dead_code, reason = "for `forebay drain`, by way of `internals`")
    )]
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the manager: after [`stop`](Self::stop), half a second beyond its deadline at
    /// most.
    pub(crate) fn join(self) {
        // A panic there ended the scan; drainers end by themselves.
        let _ = self.thread.join();
    }
}

pub(super) fn start(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let spawned = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            name_thread(name);
            block_signals();
            work();
        });
    spawned.map_err(|source| Error::Unsupported {
        what: format!("starting thread {name}"),
        reason: source.to_string(),
        remedy: "Raise the limit on threads (ulimit -u, pids cgroup)",
    })
}

struct Manager {
    plan: Plan,
    stop: Arc<Stop>,
    sender: Sender<Message>,
    inbox: Receiver<Message>,
    /// Found at the last look, not tried since.
    waiting: VecDeque<Orphan>,
    active: BTreeSet<String>,
    /// Since when (monotonic) no server grants durable acknowledgements for these.
    mismatched: BTreeMap<String, u64>,
    /// Orphans known to have frames, with their bytes.
    orphans: BTreeMap<String, u64>,
    /// The last look found nothing that could be drained.
    settled: bool,
    /// The last look found slots that somebody holds.
    held: bool,
    /// Slots that a drainer was started for.
    tried: BTreeSet<String>,
}

impl Manager {
    fn run(&mut self) {
        let interval = nanos(self.plan.config.orphans.scan_interval);
        let mut first = true;
        let mut next_look = monotonic_nanos();
        // A process that was killed holds its locks until its last write has landed.
        let mut second_look = Some(self.plan.config.lock_retry);
        while self.stop.deadline().is_none() {
            let now = monotonic_nanos();
            if now >= next_look {
                self.look(first);
                first = false;
                next_look = monotonic_nanos().saturating_add(interval);
            }
            self.launch();
            let idle = self.active.is_empty() && self.waiting.is_empty();
            let done = idle
                && match self.plan.until {
                    Until::Stopped => false,
                    Until::Empty => self.settled || self.orphans.is_empty(),
                    Until::TriedOnce => true,
                };
            if done {
                match second_look.take().filter(|_| self.held) {
                    Some(pause) => next_look = monotonic_nanos().saturating_add(nanos(pause)),
                    None if next_look > monotonic_nanos() => return,
                    None => continue,
                }
            }
            let wait = Duration::from_nanos(next_look.saturating_sub(monotonic_nanos()));
            match self.inbox.recv_timeout(wait) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        self.wind_down();
    }

    /// Waits for the drainers, within the bound of the stop.
    fn wind_down(&mut self) {
        let deadline = self.stop.deadline().unwrap_or(0).saturating_add(GRACE);
        while !self.active.is_empty() {
            let left = deadline.saturating_sub(monotonic_nanos());
            match self.inbox.recv_timeout(Duration::from_nanos(left)) {
                Ok(message) => self.take(message),
                Err(_) => break,
            }
        }
        for slot in std::mem::take(&mut self.active) {
            (self.plan.audience)(DrainerEvent::Postponed {
                slot,
                cause: "its drainer did not end in time: the slot is locked until it does"
                    .to_owned(),
            });
        }
        self.count();
    }

    /// Looks at the directory.
    fn look(&mut self, first: bool) {
        let found = match scan(&RealFs, &self.plan.sf_dir, &self.plan.own) {
            Ok(found) => found,
            Err(error) => {
                let sf_dir = self.plan.sf_dir.display();
                tracing::warn!(%sf_dir, %error, "FB-O002 cannot look for slots of other senders");
                return;
            }
        };
        if first {
            report_failed(&self.plan.sf_dir, &found);
        }
        let (mut orphans, mut waiting) = (BTreeMap::new(), VecDeque::new());
        let unmarked = lock(&UNMARKED);
        self.held = false;
        for orphan in found {
            let again = self.plan.until != Until::TriedOnce || !self.tried.contains(&orphan.name);
            if self.active.contains(&orphan.name) {
                orphans.insert(orphan.name, orphan.bytes);
            } else if orphan.obstacle.is_none() {
                orphans.insert(orphan.name.clone(), orphan.bytes);
                if again && !unmarked.contains(&self.plan.sf_dir.join(&orphan.name)) {
                    waiting.push_back(orphan);
                }
            } else {
                self.held |= orphan.obstacle == Some(Obstacle::Held);
            }
        }
        drop(unmarked);
        self.settled = waiting.is_empty();
        (self.orphans, self.waiting) = (orphans, waiting);
        self.count();
    }

    /// Starts drainers while there are fewer than wanted.
    fn launch(&mut self) {
        while self.active.len() < self.plan.config.orphans.drainers_max
            && let Some(orphan) = self.waiting.pop_front()
        {
            let job = Job {
                config: self.plan.config.clone(),
                sf_dir: self.plan.sf_dir.clone(),
                name: orphan.name.clone(),
                until: None,
                once: self.plan.until == Until::TriedOnce,
                mismatched_since: self.mismatched.get(&orphan.name).copied(),
                stop: Arc::clone(&self.stop),
            };
            let sender = self.sender.clone();
            let name = orphan.name.clone();
            self.active.insert(orphan.name.clone());
            self.tried.insert(orphan.name.clone());
            let work = move || {
                yield_to_others();
                // The manager may have given up waiting for this drainer.
                let tell = |event| drop(sender.send(Message::Event(event)));
                let outcome = job.run(&tell);
                let _ = sender.send(Message::Ended { name, outcome });
            };
            if let Err(error) = start("forebay-drn", work) {
                let cause = error.to_string();
                self.ended(orphan.name, Outcome::Postponed { cause });
            }
            self.count();
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Event(event) => (self.plan.audience)(event),
            Message::Ended { name, outcome } => self.ended(name, outcome),
            Message::Stop => {}
        }
    }

    fn ended(&mut self, slot: String, outcome: Outcome) {
        self.active.remove(&slot);
        if let Outcome::Mismatched { .. } = outcome {
            let since = self.mismatched.entry(slot.clone());
            since.or_insert_with(monotonic_nanos);
        } else {
            self.mismatched.remove(&slot);
        }
        let counters = &self.plan.hall.counters;
        let event = match outcome {
            Outcome::Drained { acked } => {
                self.orphans.remove(&slot);
                counters.drainers_succeeded.add_shared(1);
                Some(DrainerEvent::Drained { slot, acked })
            }
            Outcome::Passed | Outcome::Reached => {
                self.orphans.remove(&slot);
                None
            }
            Outcome::Failed { reason, unmarked } => {
                let told =
                    unmarked.is_some() && !lock(&UNMARKED).insert(self.plan.sf_dir.join(&slot));
                if unmarked.is_none() {
                    self.orphans.remove(&slot);
                }
                if !told {
                    counters.drainers_failed.add_shared(1);
                }
                (!told).then_some(DrainerEvent::Failed {
                    slot,
                    reason,
                    unmarked,
                })
            }
            Outcome::Mismatched { cause } => Some(DrainerEvent::DurableMismatch { slot, cause }),
            Outcome::Postponed { cause } => Some(DrainerEvent::Postponed { slot, cause }),
        };
        self.count();
        if let Some(event) = event {
            (self.plan.audience)(event);
        }
    }

    fn count(&self) {
        let counters = &self.plan.hall.counters;
        counters.drainers_active.set(self.active.len() as u64);
        counters.orphan_slots.set(self.orphans.len() as u64);
        counters.orphan_bytes.set(self.orphans.values().sum());
    }
}
