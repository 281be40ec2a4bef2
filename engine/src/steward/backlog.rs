//! What the steward has to do: the one list that shard, worker, supervisor and closer share.
//!
//! A request stays on the list until it is answered. What a worker has in hand when it dies goes
//! back to the front, marked as begun. Nobody does file work under the list's lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::strain::{Change, Strain};
use crate::io::{Doomed, Reply, Request};
use crate::router::gate::{Gate, lock};

/// Requests that may wait, answers that were not taken included.
pub(super) const QUEUE: usize = 64;

/// A request, and whether somebody who died had begun it.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) request: Request,
    pub(super) begun: bool,
    /// The shard's life that asked.
    era: u64,
}

/// Names one worker: what an earlier one says is not heard any more.
pub(super) type WorkerId = u64;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Backlog {
    state: Mutex<State>,
    /// Something to do, or an end.
    news: Condvar,
    gate: Arc<Gate>,
    /// Answers that wait; while the shard does the work, what waits to be done too.
    pending: AtomicUsize,
    is_inline: AtomicBool,
    is_stopping: AtomicBool,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Task>,
    /// With the worker, innermost last.
    in_hand: Vec<Task>,
    replies: VecDeque<Reply>,
    worker: WorkerId,
    /// Counts the shard's lives: what an earlier one asked for is not answered any more.
    era: u64,
    is_alive: bool,
    strain: Strain,
}

impl Backlog {
    pub(super) fn new(gate: Arc<Gate>, high_water_bytes: u64) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::with_capacity(QUEUE),
                in_hand: Vec::with_capacity(3),
                replies: VecDeque::with_capacity(QUEUE),
                worker: 0,
                era: 0,
                is_alive: false,
                strain: Strain::new(high_water_bytes),
            }),
            news: Condvar::new(),
            gate,
            pending: AtomicUsize::new(0),
            is_inline: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    // --- the shard ---

    /// Queues a request, or gives it back when the list is full. Tells when the steward falls
    /// behind by it.
    pub(super) fn submit(&self, request: Request) -> Result<Option<Change>, Request> {
        let mut state = self.state();
        if state.waiting.len() + state.in_hand.len() + state.replies.len() >= QUEUE {
            return Err(request);
        }
        let removes = matches!(request, Request::Remove { .. });
        let (begun, era) = (false, state.era);
        let task = Task {
            request,
            begun,
            era,
        };
        state.waiting.push_back(task);
        let change = if removes {
            let unreclaimed = state.unreclaimed();
            state.strain.added(unreclaimed)
        } else {
            None
        };
        self.note_pending(&state);
        drop(state);
        self.news.notify_one();
        Ok(change)
    }

    /// Whether an answer waits, or work while the shard does it.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire) > 0
    }

    /// The next answer.
    pub(super) fn reply(&self) -> Option<Reply> {
        if !self.is_pending() {
            return None;
        }
        let mut state = self.state();
        let reply = state.replies.pop_front();
        self.note_pending(&state);
        reply
    }

    /// The shard begins again: whatever it was to be told is forgotten, and whatever it asked for,
    /// but for files that are of no more use to anybody.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.era += 1;
        state.waiting.retain(Task::is_nobodys);
        let replies = std::mem::take(&mut state.replies);
        let unreclaimed = state.unreclaimed();
        let _ = state.strain.done(unreclaimed);
        self.note_pending(&state);
        drop(state);
        // They may hold the last handles of files.
        drop(replies);
    }

    // --- the worker, or who does its work ---

    /// A worker begins; the ones before it are not heard any more.
    pub(super) fn hire(&self) -> WorkerId {
        let mut state = self.state();
        state.worker += 1;
        state.is_alive = true;
        state.worker
    }

    /// Waits for the next task of `worker`, which it then has in hand. `None`: it is to end.
    pub(super) fn take(&self, worker: WorkerId) -> Option<Task> {
        let mut state = self.state();
        loop {
            if state.worker != worker {
                return None;
            }
            if let Some(task) = state.next() {
                state.in_hand.push(task.clone());
                return Some(task);
            }
            if self.is_stopping() {
                return None;
            }
            let woken = self.news.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next task of `worker` that is no spare, if one waits: for between two pieces of one.
    pub(super) fn take_short(&self, worker: WorkerId) -> Option<Task> {
        let mut state = self.state();
        if state.worker != worker {
            return None;
        }
        let task = state.next_short()?;
        state.in_hand.push(task.clone());
        Some(task)
    }

    /// The next file to be opened or closed by `worker`, if one waits: for between two removals.
    /// Whoever reads waits for it.
    pub(super) fn take_file(&self, worker: WorkerId) -> Option<Task> {
        let mut state = self.state();
        if state.worker != worker {
            return None;
        }
        let task = state.next_file()?;
        state.in_hand.push(task.clone());
        Some(task)
    }

    /// The innermost task in hand of `worker` is done. Tells how the steward keeps up.
    pub(super) fn finish(&self, worker: WorkerId, reply: Reply) -> Option<Change> {
        let mut state = self.state();
        if state.worker != worker {
            return None;
        }
        // Dropped behind the lock: it may hold the last handle of a removed file.
        let done = state.in_hand.pop();
        let unreclaimed = state.unreclaimed();
        let change = state.strain.done(unreclaimed);
        if done.as_ref().is_some_and(|task| task.era == state.era) {
            state.replies.push_back(reply);
        }
        self.note_pending(&state);
        drop(state);
        self.gate.knock();
        change
    }

    /// `worker` has ended: what it had in hand waits again.
    pub(super) fn ended(&self, worker: WorkerId) {
        let mut state = self.state();
        if state.worker != worker {
            return;
        }
        state.is_alive = false;
        while let Some(task) = state.in_hand.pop() {
            if task.era == state.era || task.is_nobodys() {
                let begun = true;
                state.waiting.push_front(Task { begun, ..task });
            }
        }
        self.note_pending(&state);
        drop(state);
        self.news.notify_all();
    }

    // --- the shard in place of the worker ---

    /// From now on the shard does the work.
    pub(super) fn fall_back(&self) {
        self.is_inline.store(true, Ordering::Release);
        self.note_pending(&self.state());
        self.gate.knock();
    }

    /// See [`fall_back`](Self::fall_back).
    pub(super) fn is_inline(&self) -> bool {
        self.is_inline.load(Ordering::Acquire)
    }

    /// What is to be removed, all of it; else the oldest task. For who does the work in place of a
    /// worker.
    pub(super) fn take_over(&self) -> Option<Task> {
        let mut state = self.state();
        let task = state
            .take_removals()
            .or_else(|| state.waiting.pop_front())?;
        self.note_pending(&state);
        Some(task)
    }

    // --- the closer ---

    /// The engine stops: spares are not made any more, the rest is.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        let mut state = self.state();
        state.waiting.retain(|task| !is_ahead(&task.request));
        drop(state);
        self.news.notify_all();
    }

    /// See [`stop`](Self::stop).
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Waits until no worker is alive; `false` when `limit` passes. From then on the one that is
    /// left is not heard any more, and gets nothing more to do.
    pub(super) fn wait_for_end(&self, limit: Duration) -> bool {
        let waited = self
            .news
            .wait_timeout_while(self.state(), limit, |state| state.is_alive);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_alive {
            state.worker += 1;
        }
        !state.is_alive
    }

    fn note_pending(&self, state: &State) {
        let work = if self.is_inline() {
            state.waiting.len()
        } else {
            0
        };
        self.pending
            .store(state.replies.len() + work, Ordering::Release);
    }
}

impl Task {
    /// Whether it matters whichever shard asked for it, and its answer to none.
    fn is_nobodys(&self) -> bool {
        matches!(self.request, Request::RemoveRing(_) | Request::Close { .. })
    }
}

impl State {
    fn next(&mut self) -> Option<Task> {
        self.removals_if_escalated()
            .or_else(|| self.next_file())
            .or_else(|| self.waiting.pop_front())
    }

    /// In the order in which they were asked for: files that were read are closed before others are
    /// opened in their place, so that the number of open ones has a bound.
    fn next_file(&mut self) -> Option<Task> {
        let file =
            |task: &Task| matches!(task.request, Request::Open { .. } | Request::Close { .. });
        let index = self.waiting.iter().position(file)?;
        self.waiting.remove(index)
    }

    fn removals_if_escalated(&mut self) -> Option<Task> {
        if self.strain.is_escalated() {
            self.take_removals()
        } else {
            None
        }
    }

    fn next_short(&mut self) -> Option<Task> {
        let removals = self.removals_if_escalated();
        if removals.is_some() {
            return removals;
        }
        let short = |task: &Task| !is_ahead(&task.request);
        let index = self.waiting.iter().position(short)?;
        self.waiting.remove(index)
    }

    /// Everything that is to be removed from the slot of the oldest such request, as one task: one
    /// directory sync.
    fn take_removals(&mut self) -> Option<Task> {
        let first = self
            .waiting
            .iter()
            .position(|task| matches!(task.request, Request::Remove { .. }))?;
        let mut all = self.waiting.remove(first)?;
        let Request::Remove { dir, files, .. } = &mut all.request else {
            return Some(all);
        };
        self.waiting.retain_mut(|task| match &mut task.request {
            Request::Remove {
                dir: same,
                files: more,
                ..
            } if same == dir => {
                files.append(more);
                all.begun |= task.begun;
                false
            }
            _ => true,
        });
        Some(all)
    }

    /// Bytes that wait to be removed.
    fn unreclaimed(&self) -> u64 {
        let tasks = self.waiting.iter().chain(&self.in_hand);
        let bytes = tasks.map(|task| match &task.request {
            Request::Remove { files, .. } => files.iter().map(|file: &Doomed| file.bytes).sum(),
            _ => 0,
        });
        bytes.sum()
    }
}

/// Whether it is work ahead of need, which takes long and which nobody misses at the end.
fn is_ahead(request: &Request) -> bool {
    matches!(request, Request::MakeSpare { .. } | Request::Memory { .. })
}

#[cfg(test)]
mod tests;
