//! A shard that panicked and is started again: what producers and the status are told meanwhile.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Gate, lock};
use crate::observe::{Category, ConnectionChange, Policy, SenderError};

/// Why the shard is down, while it is.
#[derive(Debug, Default)]
pub(super) struct Down {
    is_down: AtomicBool,
    cause: Mutex<String>,
}

impl Gate {
    /// The shard panicked and is started again at this time (monotonic nanoseconds).
    pub(crate) fn went_down(&self, cause: &str, now: u64, pause_nanos: u64) {
        cause.clone_into(&mut lock(&self.down.cause));
        self.down.is_down.store(true, Ordering::Release);
        self.connection(false, now);
        if let Some(endpoint) = self.endpoint() {
            let cause = format!("the shard panicked: {cause}");
            self.tell_change(ConnectionChange::Disconnected { endpoint, cause });
        }
        let millis = pause_nanos / 1_000_000;
        let message = format!("the shard panicked, it is started again after {millis} ms: {cause}");
        self.tell(SenderError::new(
            Category::Fault,
            Policy::Retriable,
            message,
        ));
    }

    /// The shard is up again.
    pub(crate) fn came_up(&self) {
        self.down.is_down.store(false, Ordering::Release);
        self.counters.shard_restarts.add(1);
        self.publish_news();
    }

    /// Why the shard is down, while it waits to be started again.
    pub(crate) fn down(&self) -> Option<String> {
        self.is_down().then(|| lock(&self.down.cause).clone())
    }

    /// See [`down`](Self::down).
    pub(super) fn is_down(&self) -> bool {
        self.down.is_down.load(Ordering::Acquire)
    }
}
