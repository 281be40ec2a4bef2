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
use std::thread::JoinHandle;
use std::time::Duration;

use super::crew::{Crew, News, Task, account, start};
use super::drainer::Outcome;
use super::{Obstacle, scan};
use crate::config::Config;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::sys::{RealFs, monotonic_nanos};
use crate::observe::Event;
use crate::router::gate::Gate;
use crate::router::hall::Hall;
use crate::units::nanos;

/// How often shards and slots are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Pause before a slot is tried again.
const PAUSE: u64 = 500_000_000;

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
        // The foreground waits for these.
        let crew = Crew::new(&work.config, work.sf_dir.clone(), false);
        let mut walk = Walk {
            deadline: Arc::clone(&deadline),
            crew,
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
    crew: Crew,
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
            if confirmed && waiting.is_empty() && self.crew.len() == 0 {
                return true;
            }
            match self.crew.next(LOOK_EVERY) {
                Some(News::Event(event)) => self.work.hall.events.push(Event::Drainer(event)),
                Some(News::Ended(task, outcome)) => {
                    let place = running
                        .iter()
                        .position(|due: &Due| due.left.name == task.slot);
                    let due = running.swap_remove(place.expect("it was launched"));
                    waiting.extend(self.judge(due, outcome));
                }
                Some(News::Asked) | None => {}
            }
        }
    }

    /// Starts drainers while there are fewer than wanted.
    fn launch(&mut self, waiting: &mut VecDeque<Due>, running: &mut Vec<Due>, now: u64) {
        while !self.crew.is_full()
            && let Some(place) = waiting.iter().position(|due| due.at <= now)
            && let Some(due) = waiting.remove(place)
        {
            self.crew.hire(Task {
                slot: due.left.name.clone(),
                until: due.left.until,
                once: false,
                mismatched_since: None,
            });
            running.push(due);
        }
    }

    /// Tells and counts how a drainer ended; the slot again if it is to be tried once more.
    fn judge(&self, mut due: Due, outcome: Outcome) -> Option<Due> {
        let outcome = match outcome {
            Outcome::Passed => return self.passed(due),
            // The servers that will grant it may be on their way.
            Outcome::Mismatched { cause } => Outcome::Postponed { cause },
            other => other,
        };
        let again = matches!(outcome, Outcome::Postponed { .. });
        let slot = due.left.name.clone();
        if let Some(event) = account(&self.work.hall.counters, slot, outcome) {
            self.work.hall.events.push(Event::Drainer(event));
        }
        due.at = monotonic_nanos() + PAUSE;
        again.then_some(due)
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
        self.crew.stop.ask(monotonic_nanos());
        while let Some(news) = self.crew.last_news() {
            if let News::Event(event) = news {
                self.work.hall.events.push(Event::Drainer(event));
            }
        }
    }
}
