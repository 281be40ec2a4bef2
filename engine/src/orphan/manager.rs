//! Which orphans are drained, and when: one thread that looks at the directory now and then, keeps
//! up to so many drainers busy, counts and tells. Of one sender the frames of an era come before
//! those of the next ([`order`](super::order)).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::crew::{Crew, News, Task, account, start};
use super::drainer::Outcome;
use super::order::{Turn, turns};
use super::stop::Stop;
use super::{Obstacle, Orphan, report_failed, scan};
use crate::config::Config;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::sys::{RealFs, monotonic_nanos};
use crate::observe::DrainerEvent;
use crate::router::gate::lock;
use crate::router::hall::Hall;
use crate::slot::eras;
use crate::units::nanos;

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
    bell: Sender<News>,
    thread: JoinHandle<()>,
}

impl Orphans {
    /// Starts the manager's thread.
    pub(crate) fn spawn(plan: Plan) -> Result<Self, Error> {
        let crew = Crew::new(&plan.config, plan.sf_dir.clone(), true);
        let (stop, bell) = (Arc::clone(&crew.stop), crew.bell());
        let mut manager = Manager {
            crew,
            waiting: VecDeque::new(),
            mismatched: BTreeMap::new(),
            orphans: BTreeMap::new(),
            reached: BTreeMap::new(),
            queued: false,
            settled: false,
            held: false,
            tried: BTreeSet::new(),
            plan,
        };
        let thread = start("forebay-orp", move || manager.run())?;
        Ok(Self { stop, bell, thread })
    }

    /// Asks the drainers to end: those that are not done at `deadline` (monotonic) leave their
    /// slots as they are.
    pub(crate) fn stop(&self, deadline: u64) {
        self.stop.ask(deadline);
        // The manager may have ended by itself.
        let _ = self.bell.send(News::Asked);
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

struct Manager {
    plan: Plan,
    crew: Crew,
    /// Found at the last look, not tried since: slots, and up to where.
    waiting: VecDeque<(String, Option<Fsn>)>,
    /// Since when (monotonic) no server grants durable acknowledgements for these.
    mismatched: BTreeMap<String, u64>,
    /// Orphans known to have frames, with their bytes.
    orphans: BTreeMap<String, u64>,
    /// Up to where an era of these was delivered.
    reached: BTreeMap<String, Fsn>,
    /// The last look found slots whose turn comes after others.
    queued: bool,
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
        while self.crew.stop.deadline().is_none() {
            let now = monotonic_nanos();
            if now >= next_look {
                self.look(first);
                first = false;
                next_look = monotonic_nanos().saturating_add(interval);
            }
            self.launch();
            let idle = self.crew.len() == 0 && self.waiting.is_empty();
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
            if let Some(news) = self.crew.next(wait)
                && self.take(news)
            {
                next_look = 0;
            }
        }
        self.wind_down();
    }

    /// Waits for the drainers, within the bound of the stop.
    fn wind_down(&mut self) {
        while let Some(news) = self.crew.last_news() {
            self.take(news);
        }
        for slot in self.crew.slots() {
            (self.plan.audience)(DrainerEvent::Postponed {
                slot: slot.to_owned(),
                cause: "its drainer did not end in time: the slot is locked until it does"
                    .to_owned(),
            });
        }
        self.count();
    }

    /// Looks at the directory.
    fn look(&mut self, first: bool) {
        let sf_dir = &self.plan.sf_dir;
        let mut found = match scan(&RealFs, sf_dir, &self.plan.own) {
            Ok(found) => found,
            Err(error) => {
                let sf_dir = sf_dir.display();
                tracing::warn!(%sf_dir, %error, "FB-O002 cannot look for slots of other senders");
                return;
            }
        };
        if first {
            report_failed(sf_dir, &found);
        }
        let unmarked = lock(&UNMARKED);
        for orphan in &mut found {
            if self.crew.has(&orphan.name) {
                // Held by ourselves.
                orphan.obstacle = None;
            } else if unmarked.contains(&sf_dir.join(&orphan.name)) {
                orphan.obstacle = Some(Obstacle::Failed);
            }
        }
        // A slot that is gone, or that somebody has, may hold other frames when it comes again.
        let free = |name: &str| found.iter().any(|o| o.name == name && o.obstacle.is_none());
        self.reached.retain(|name, _| free(name));
        // What cannot be read now is the drainer's to report.
        let noted = |name: &str| eras::read(&RealFs, &sf_dir.join(name)).unwrap_or_default();
        let mut turns = turns(&found, noted, &self.reached);
        let (mut orphans, mut waiting) = (BTreeMap::new(), VecDeque::new());
        (self.held, self.queued) = (false, false);
        for Orphan {
            name,
            bytes,
            obstacle,
        } in found
        {
            self.held |= obstacle == Some(Obstacle::Held);
            let turn = turns.remove(&name).unwrap_or(Turn::Never);
            self.queued |= matches!(turn, Turn::Behind(_));
            if turn != Turn::Never || unmarked.contains(&sf_dir.join(&name)) {
                orphans.insert(name.clone(), bytes);
            }
            let again = self.plan.until != Until::TriedOnce || !self.tried.contains(&name);
            if let Turn::Now(until) = turn
                && again
                && !self.crew.has(&name)
            {
                waiting.push_back((name, until));
            }
        }
        drop(unmarked);
        self.settled = waiting.is_empty();
        (self.orphans, self.waiting) = (orphans, waiting);
        self.count();
    }

    /// Starts drainers while there are fewer than wanted.
    fn launch(&mut self) {
        while !self.crew.is_full()
            && let Some((slot, until)) = self.waiting.pop_front()
        {
            self.tried.insert(slot.clone());
            self.crew.hire(Task {
                once: self.plan.until == Until::TriedOnce,
                mismatched_since: self.mismatched.get(&slot).copied(),
                slot,
                until,
            });
            self.count();
        }
    }

    /// Hears what a drainer says; whether the turn of another slot, or era, may have come.
    fn take(&mut self, news: News) -> bool {
        match news {
            News::Event(event) => (self.plan.audience)(event),
            News::Ended(task, outcome) => return self.ended(task, outcome),
            News::Asked => {}
        }
        false
    }

    fn ended(&mut self, task: Task, outcome: Outcome) -> bool {
        let slot = task.slot;
        if let Outcome::Mismatched { .. } = outcome {
            let since = self.mismatched.entry(slot.clone());
            since.or_insert_with(monotonic_nanos);
        } else {
            self.mismatched.remove(&slot);
        }
        let next = match &outcome {
            Outcome::Reached { .. } => {
                self.reached
                    .extend(task.until.map(|until| (slot.clone(), until)));
                self.tried.remove(&slot);
                true
            }
            Outcome::Drained { .. } | Outcome::Passed => {
                self.orphans.remove(&slot);
                self.queued && outcome != Outcome::Passed
            }
            Outcome::Failed { unmarked, .. } => {
                if unmarked.is_none() {
                    self.orphans.remove(&slot);
                } else if !lock(&UNMARKED).insert(self.plan.sf_dir.join(&slot)) {
                    // Another manager of this process has told it.
                    self.count();
                    return self.queued;
                }
                self.queued
            }
            Outcome::Mismatched { .. } | Outcome::Postponed { .. } => false,
        };
        let event = account(&self.plan.hall.counters, slot, outcome);
        self.count();
        if let Some(event) = event {
            (self.plan.audience)(event);
        }
        next
    }

    fn count(&self) {
        let counters = &self.plan.hall.counters;
        counters.drainers_active.set(self.crew.len() as u64);
        counters.orphan_slots.set(self.orphans.len() as u64);
        counters.orphan_bytes.set(self.orphans.values().sum());
    }
}
