//! The bounded queues between shards and the notifier: errors, connection events, and what
//! drainers tell.
//!
//! Shards push, the notifier takes. One mutex guards all queues, because it is held for a few
//! moves of pointers only: never while a handler runs, a line is logged or an entry is freed.
//! Events come with a broken connection, a refusal or a failed disk operation, not with rows, so
//! a lock-free queue would buy nothing; the worst case, a notifier that loses its core between
//! lock and unlock, costs the shard one time slice at such a moment. Room for every entry is made
//! beforehand. When a queue is full its oldest entry goes, counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::event::{ConnectionEvent, DrainerEvent, Event, SenderError};
use crate::config::EventKeys;
use crate::io::sys::{futex_wait, futex_wake};
use crate::router::gate::lock;

/// Steps of drainers that wait: a handful a second at most.
const DRAINER_EVENTS: usize = 256;
/// Errors that [`Inbox::recent`] shows.
const RECENT: usize = 16;

/// An event as the notifier takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// An error, shared with the list of recent ones.
    Error(Arc<SenderError>),
    /// A change of the connection.
    Connection(ConnectionEvent),
    /// A step of a drainer.
    Drainer(DrainerEvent),
}

/// Entries with the number of their push.
#[derive(Debug)]
struct Queue<T> {
    entries: VecDeque<(u64, T)>,
    capacity: usize,
    dropped: u64,
}

impl<T> Queue<T> {
    fn new(capacity: usize) -> Self {
        Self {
            entries: VecDeque::with_capacity(capacity),
            capacity,
            dropped: 0,
        }
    }

    /// Adds an entry; answers the oldest one if it had to go.
    fn push(&mut self, number: u64, entry: T) -> Option<T> {
        let gone = if self.entries.len() >= self.capacity {
            self.dropped += 1;
            self.entries.pop_front()
        } else {
            None
        };
        self.entries.push_back((number, entry));
        gone.map(|(_, entry)| entry)
    }

    /// Number of the oldest entry, beyond all numbers when there is none.
    fn head(&self) -> u64 {
        self.entries.front().map_or(u64::MAX, |(number, _)| *number)
    }

    fn pop(&mut self) -> Option<T> {
        self.entries.pop_front().map(|(_, entry)| entry)
    }
}

#[derive(Debug)]
struct State {
    errors: Queue<Arc<SenderError>>,
    connections: Queue<ConnectionEvent>,
    drainers: Queue<DrainerEvent>,
    recent: VecDeque<Arc<SenderError>>,
    pushed: u64,
    closed: bool,
}

/// Events on their way to the notifier.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// Bumped at every push; the notifier sleeps on it.
    bell: AtomicU32,
    sleeping: AtomicBool,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new(EventKeys::default())
    }
}

impl Inbox {
    /// An inbox with these capacities.
    pub(crate) fn new(keys: EventKeys) -> Self {
        Self {
            state: Mutex::new(State {
                errors: Queue::new(keys.errors),
                connections: Queue::new(keys.connections),
                drainers: Queue::new(DRAINER_EVENTS),
                recent: VecDeque::with_capacity(RECENT),
                pushed: 0,
                closed: false,
            }),
            bell: AtomicU32::new(0),
            sleeping: AtomicBool::new(false),
        }
    }

    /// Adds an event; never waits for whoever handles them.
    pub(crate) fn push(&self, event: Event) {
        // What has to go is freed behind the lock.
        let _gone = match event {
            Event::Error(error) => self.push_error(Arc::new(error)),
            Event::Connection(change) => self.push_connection(change),
            Event::Drainer(step) => self.push_drainer(step),
        };
        self.ring();
    }

    fn push_error(&self, error: Arc<SenderError>) -> Option<Notice> {
        let mut state = lock(&self.state);
        state.pushed += 1;
        let number = state.pushed;
        if state.recent.len() >= RECENT {
            state.recent.pop_front();
        }
        state.recent.push_back(Arc::clone(&error));
        state.errors.push(number, error).map(Notice::Error)
    }

    fn push_connection(&self, change: ConnectionEvent) -> Option<Notice> {
        let mut state = lock(&self.state);
        state.pushed += 1;
        let number = state.pushed;
        state
            .connections
            .push(number, change)
            .map(Notice::Connection)
    }

    fn push_drainer(&self, step: DrainerEvent) -> Option<Notice> {
        let mut state = lock(&self.state);
        state.pushed += 1;
        let number = state.pushed;
        state.drainers.push(number, step).map(Notice::Drainer)
    }

    /// The oldest event of all queues.
    pub(crate) fn take(&self) -> Option<Notice> {
        let mut state = lock(&self.state);
        let State {
            errors,
            connections,
            drainers,
            ..
        } = &mut *state;
        let heads = (errors.head(), connections.head(), drainers.head());
        let oldest = heads.0.min(heads.1).min(heads.2);
        if oldest == heads.0 {
            errors.pop().map(Notice::Error)
        } else if oldest == heads.1 {
            connections.pop().map(Notice::Connection)
        } else {
            drainers.pop().map(Notice::Drainer)
        }
    }

    /// Sleeps until something is pushed, for at most `limit`; at once if there is something or
    /// the inbox is closed.
    pub(crate) fn wait(&self, limit: Duration) {
        let seen = self.bell.load(Ordering::SeqCst);
        self.sleeping.store(true, Ordering::SeqCst);
        let idle = {
            let state = lock(&self.state);
            let heads = [state.connections.head(), state.drainers.head()];
            let empty = heads.into_iter().chain([state.errors.head()]);
            !state.closed && empty.into_iter().all(|head| head == u64::MAX)
        };
        if idle {
            futex_wait(&self.bell, seen, limit);
        }
        self.sleeping.store(false, Ordering::SeqCst);
    }

    fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) {
            futex_wake(&self.bell);
        }
    }

    /// Nothing further will come: whoever takes ends when the queues are empty.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.ring();
    }

    /// Whether [`close`](Self::close) was called.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Errors and connection events that had to go.
    pub(crate) fn dropped(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.errors.dropped, state.connections.dropped)
    }

    /// The last errors, oldest first, whether or not anybody was told.
    pub(crate) fn recent(&self) -> Vec<SenderError> {
        let recent: Vec<_> = lock(&self.state).recent.iter().cloned().collect();
        recent.iter().map(|error| (**error).clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::{Category, ConnectionChange, Policy};
    use super::*;

    fn error(n: usize) -> Event {
        let (category, policy) = (Category::WriteError, Policy::Retriable);
        Event::Error(SenderError::new(category, policy, n.to_string()))
    }

    fn connected(endpoint: &str) -> Event {
        let endpoint = endpoint.to_owned();
        let change = ConnectionChange::Connected { endpoint };
        Event::Connection(ConnectionEvent { shard: 0, change })
    }

    fn text(notice: &Notice) -> &str {
        match notice {
            Notice::Error(error) => &error.message,
            Notice::Connection(ConnectionEvent {
                change: ConnectionChange::Connected { endpoint },
                ..
            }) => endpoint,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_oldest_of_a_full_queue_goes_and_is_counted() {
        let inbox = Inbox::new(EventKeys {
            errors: 16,
            connections: 2,
        });
        for n in 0..20 {
            inbox.push(error(n));
        }
        for endpoint in ["a", "b", "c"] {
            inbox.push(connected(endpoint));
        }
        assert_eq!(inbox.dropped(), (4, 1));
        let all: Vec<_> = std::iter::from_fn(|| inbox.take()).collect();
        let texts: Vec<_> = all.iter().map(text).collect();
        let kept: Vec<_> = (4..20).map(|n| n.to_string()).collect();
        assert_eq!(texts[..16], kept);
        assert_eq!(texts[16..], ["b", "c"]);
        assert_eq!(inbox.recent().len(), RECENT);
        assert_eq!(inbox.recent()[15].message, "19");
    }

    #[test]
    fn both_queues_come_out_in_the_order_of_their_pushes() {
        let inbox = Inbox::default();
        inbox.push(connected("a"));
        inbox.push(error(1));
        inbox.push(error(2));
        inbox.push(connected("b"));
        inbox.push(error(3));
        let all: Vec<_> = std::iter::from_fn(|| inbox.take()).collect();
        let texts: Vec<_> = all.iter().map(text).collect();
        assert_eq!(texts, ["a", "1", "2", "b", "3"]);
    }

    #[test]
    fn a_push_wakes_who_waits_and_so_does_the_close() {
        let inbox = Inbox::default();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                while inbox.take().is_none() {
                    inbox.wait(Duration::from_secs(30));
                }
                while !inbox.is_closed() {
                    inbox.wait(Duration::from_secs(30));
                }
            });
            inbox.push(error(1));
            inbox.close();
            waiter.join().expect("no panic");
        });
    }
}
