//! The bounded queue between shards and the notifier.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Event;
use crate::router::gate::lock;

/// Events that wait at most; the oldest goes first, counted.
const CAPACITY: usize = 256;

/// Events on their way to the notifier.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    queue: Mutex<VecDeque<Event>>,
    dropped: AtomicU64,
}

impl Inbox {
    /// Adds an event; never waits for whoever handles them.
    pub(crate) fn push(&self, event: Event) {
        let mut queue = lock(&self.queue);
        if queue.len() >= CAPACITY {
            queue.pop_front();
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        queue.push_back(event);
    }
}
