//! Settings that change while the engine runs: producers look them up when they wait, the shard at
//! the begin of each turn.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::{Gate, lock};
use crate::config::Changes;
use crate::units::nanos;

/// What was changed since the start.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Bumped at every change.
    version: AtomicU32,
    changes: Mutex<Changes>,
    /// `sf_append_deadline_millis` in nanoseconds, plus 1; 0 while it was not changed. Producers
    /// look at it in every `publish`.
    append_deadline: AtomicU64,
}

impl Gate {
    /// Takes new settings and lets the shard know at once.
    pub(crate) fn reconfigure(&self, changes: Changes) {
        if let Some(limit) = changes.append_deadline {
            let limit = nanos(limit).saturating_add(1);
            self.settings
                .append_deadline
                .store(limit, Ordering::Relaxed);
        }
        lock(&self.settings.changes).update(changes);
        self.settings.version.fetch_add(1, Ordering::Release);
        self.door.ring();
    }

    /// Everything that was changed, if there is something that `seen` has not.
    #[inline]
    pub(crate) fn changes_since(&self, seen: &mut u32) -> Option<Changes> {
        let version = self.settings.version.load(Ordering::Acquire);
        if version == *seen {
            return None;
        }
        *seen = version;
        Some(lock(&self.settings.changes).clone())
    }

    /// Whether [`changes_since`](Self::changes_since) has something new.
    pub(crate) fn has_changed_since(&self, seen: u32) -> bool {
        self.settings.version.load(Ordering::Acquire) != seen
    }

    /// How long `publish` waits for room, if that was changed.
    #[inline]
    pub(crate) fn append_deadline(&self) -> Option<Duration> {
        let limit = self.settings.append_deadline.load(Ordering::Relaxed);
        limit.checked_sub(1).map(Duration::from_nanos)
    }

    /// The cap on disk in bytes, if that was changed.
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        lock(&self.settings.changes).total_bytes
    }
}
