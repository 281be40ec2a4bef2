//! The drainers at work for one thread: it starts them, hears of them, counts them and waits for
//! their end. What is to be drained, and when, the thread decides.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::drainer::{Job, Outcome};
use super::stop::Stop;
use crate::config::Config;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::sys::{block_signals, monotonic_nanos, name_thread, yield_to_others};
use crate::observe::{Counters, DrainerEvent};

/// Time after the deadline of a stop that drainers are waited for: they finish their last writes.
const GRACE: u64 = 500_000_000;

/// What a thread hears of its drainers.
#[derive(Debug)]
pub(super) enum News {
    Event(DrainerEvent),
    /// A drainer has ended.
    Ended(Task, Outcome),
    /// Somebody wants the thread to look at its stop.
    Asked,
}

/// What a drainer is started for.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// Name of the slot.
    pub(super) slot: String,
    /// See [`Job::until`].
    pub(super) until: Option<Fsn>,
    /// See [`Job::once`].
    pub(super) once: bool,
    /// See [`Job::mismatched_since`].
    pub(super) mismatched_since: Option<u64>,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Crew {
    config: Config,
    sf_dir: PathBuf,
    /// At the lowest priority: nobody waits for them.
    yields: bool,
    pub(super) stop: Arc<Stop>,
    sender: Sender<News>,
    inbox: Receiver<News>,
    /// By slot.
    active: BTreeMap<String, Task>,
}

impl Crew {
    pub(super) fn new(config: &Config, sf_dir: PathBuf, yields: bool) -> Self {
        let (sender, inbox) = channel();
        Self {
            config: config.clone(),
            sf_dir,
            yields,
            stop: Arc::new(Stop::new()),
            sender,
            inbox,
            active: BTreeMap::new(),
        }
    }

    /// What ends the wait in [`next`](Self::next).
    pub(super) fn bell(&self) -> Sender<News> {
        self.sender.clone()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.active.len()
    }

    /// Slots with a drainer.
    pub(super) fn slots(&self) -> impl Iterator<Item = &str> {
        self.active.keys().map(String::as_str)
    }

    /// Whether a slot has one.
    pub(super) fn has(&self, slot: &str) -> bool {
        self.active.contains_key(slot)
    }

    /// Whether there are as many as wanted.
    pub(super) fn is_full(&self) -> bool {
        self.active.len() >= self.config.orphans.drainers_max.max(1)
    }

    /// Starts a drainer. One that cannot be started ends at once, as news.
    pub(super) fn hire(&mut self, task: Task) {
        self.active.insert(task.slot.clone(), task.clone());
        let job = Job {
            config: self.config.clone(),
            sf_dir: self.sf_dir.clone(),
            name: task.slot.clone(),
            until: task.until,
            once: task.once,
            mismatched_since: task.mismatched_since,
            stop: Arc::clone(&self.stop),
        };
        let (sender, yields, done) = (self.sender.clone(), self.yields, task.clone());
        let work = move || {
            if yields {
                yield_to_others();
            }
            // The thread may have given up waiting for this drainer.
            let tell = |event| drop(sender.send(News::Event(event)));
            let outcome = job.run(&tell);
            let _ = sender.send(News::Ended(done, outcome));
        };
        if let Err(error) = start("forebay-drn", work) {
            let cause = error.to_string();
            let _ = self
                .sender
                .send(News::Ended(task, Outcome::Postponed { cause }));
        }
    }

    /// The next news, if some comes within `wait`.
    pub(super) fn next(&mut self, wait: Duration) -> Option<News> {
        let news = match self.inbox.recv_timeout(wait) {
            Ok(news) => news,
            // There is a sender here: nobody disconnects.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        };
        if let News::Ended(task, _) = &news {
            self.active.remove(&task.slot);
        }
        Some(news)
    }

    /// News while drainers end, within the bound of the stop; `None` when there is none any more,
    /// or those that are left took too long.
    pub(super) fn last_news(&mut self) -> Option<News> {
        if self.active.is_empty() {
            return None;
        }
        let deadline = self.stop.deadline().unwrap_or(0).saturating_add(GRACE);
        let left = deadline.saturating_sub(monotonic_nanos());
        self.next(Duration::from_nanos(left))
    }
}

/// Counts how a drainer ended, and says it; `None` where there is nothing to say.
pub(super) fn account(counters: &Counters, slot: String, outcome: Outcome) -> Option<DrainerEvent> {
    match outcome {
        Outcome::Drained { acked } => {
            counters.drainers_succeeded.add_shared(1);
            Some(DrainerEvent::Drained { slot, acked })
        }
        Outcome::Reached { acked } => Some(DrainerEvent::EraDrained { slot, acked }),
        Outcome::Passed => None,
        Outcome::Failed { reason, unmarked } => {
            counters.drainers_failed.add_shared(1);
            Some(DrainerEvent::Failed {
                slot,
                reason,
                unmarked,
            })
        }
        Outcome::Mismatched { cause } => Some(DrainerEvent::DurableMismatch { slot, cause }),
        Outcome::Postponed { cause } => Some(DrainerEvent::Postponed { slot, cause }),
    }
}

/// Starts a thread of the engine.
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
