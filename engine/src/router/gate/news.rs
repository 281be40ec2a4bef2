//! The state of a shard's thread and of its connection, for who waits for a change of it and for
//! who is told.

use std::sync::atomic::Ordering;

use super::{Gate, lock};
use crate::io::sys::{futex_wait, futex_wake, monotonic_nanos};
use crate::observe::{ConnectionChange, ConnectionEvent, Event, SenderError};

impl Gate {
    /// Waits until `done` holds or `deadline` (monotonic nanoseconds) passes; looks again at
    /// every change of the connection's state, and every 100 ms.
    pub(crate) fn wait_for(&self, deadline: u64, mut done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            let seen = self.news.load(Ordering::Acquire);
            if done(self) {
                return true;
            }
            let now = monotonic_nanos();
            if now >= deadline {
                return false;
            }
            let limit = std::time::Duration::from_nanos((deadline - now).min(100_000_000));
            futex_wait(&self.news, seen, limit);
        }
    }

    pub(super) fn publish_news(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
        futex_wake(&self.news);
    }

    /// The shard's thread runs.
    pub(crate) fn started(&self) {
        self.started.store(true, Ordering::Release);
        self.publish_news();
    }

    /// Whether the shard's thread runs.
    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Records that the connection is up or down; `now` is monotonic.
    pub(crate) fn connection(&self, up: bool, now: u64) {
        if up {
            self.ever_connected.store(true, Ordering::Release);
            self.outage_since.store(0, Ordering::Relaxed);
            self.outage_attempts.store(0, Ordering::Relaxed);
        } else if self.outage_since.load(Ordering::Relaxed) == 0 {
            self.outage_since.store(now.max(1), Ordering::Relaxed);
        }
        self.counters.connected.set(u64::from(up));
        self.publish_news();
    }

    /// Counts a connection attempt of the present outage.
    pub(crate) fn attempt(&self) {
        self.outage_attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// Records why a connection or an attempt ended; `exhausted` when no server is left to try
    /// in this round.
    pub(crate) fn failed(&self, cause: &str, exhausted: bool) {
        cause.clone_into(&mut lock(&self.last_failure));
        if exhausted {
            self.rounds_failed.fetch_add(1, Ordering::AcqRel);
        }
        self.publish_news();
    }

    /// Exhausted connection rounds so far, and the last cause.
    pub(crate) fn failures(&self) -> (u32, String) {
        (
            self.rounds_failed.load(Ordering::Acquire),
            lock(&self.last_failure).clone(),
        )
    }

    /// Whether a server was ever connected.
    pub(crate) fn was_connected(&self) -> bool {
        self.ever_connected.load(Ordering::Acquire)
    }

    /// Reports an error of this shard.
    pub(crate) fn tell(&self, mut error: SenderError) {
        error.shard = self.shard;
        self.hall.events.push(Event::Error(error));
    }

    /// Reports a change of the shard's connection.
    pub(crate) fn tell_change(&self, change: ConnectionChange) {
        match &change {
            ConnectionChange::Connected { endpoint }
            | ConnectionChange::Reconnected { endpoint }
            | ConnectionChange::FailedOver { to: endpoint, .. } => {
                *lock(&self.endpoint) = Some(endpoint.clone());
            }
            ConnectionChange::Disconnected { .. } => *lock(&self.endpoint) = None,
            _ => {}
        }
        let shard = self.shard;
        let event = ConnectionEvent { shard, change };
        self.hall.events.push(Event::Connection(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sys::EventFd;

    #[test]
    fn the_connected_server_follows_from_the_changes() {
        let gate = Gate::new(EventFd::new().expect("a descriptor"));
        assert_eq!(gate.endpoint(), None);
        let connected = |endpoint: &str| ConnectionChange::Connected {
            endpoint: endpoint.to_owned(),
        };
        gate.tell_change(connected("a:1"));
        assert_eq!(gate.endpoint().as_deref(), Some("a:1"));
        gate.tell_change(ConnectionChange::Disconnected {
            endpoint: "a:1".to_owned(),
            cause: String::new(),
        });
        assert_eq!(gate.endpoint(), None);
        gate.tell_change(ConnectionChange::FailedOver {
            from: "a:1".to_owned(),
            to: "b:1".to_owned(),
        });
        assert_eq!(gate.endpoint().as_deref(), Some("b:1"));
    }
}
