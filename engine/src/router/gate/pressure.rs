//! Why a batch may find no room: what a refusal quotes. And what producers look at with every batch
//! that the shard changes seldom.

use std::sync::atomic::Ordering;

use super::{Gate, lock};
use crate::error::Pressure;
use crate::io::sys::monotonic_nanos;
use crate::observe::{Category, Policy, SenderError};

impl Gate {
    /// Whether `sf_max_total_bytes` is used up.
    pub(crate) fn is_full(&self) -> bool {
        self.told.full.load(Ordering::Relaxed)
    }

    /// The shard tells whether the cap is reached.
    pub(crate) fn set_full(&self, full: bool) {
        self.told.full.store(full, Ordering::Relaxed);
    }

    /// Which state a full engine is in.
    pub(crate) fn pressure(&self) -> Pressure {
        if self.is_down() {
            return Pressure::Restarting;
        }
        if self.has_disk_failure.load(Ordering::Relaxed) {
            return Pressure::Repairing;
        }
        match self.outage_since.load(Ordering::Relaxed) {
            0 => Pressure::Publishing,
            since => Pressure::Reconnecting {
                attempts: self.outage_attempts.load(Ordering::Relaxed),
                outage_millis: monotonic_nanos().saturating_sub(since) / 1_000_000,
            },
        }
    }

    /// The server's cap on a message in bytes, 0 while it has told none.
    pub(crate) fn set_server_cap(&self, bytes: u64) {
        self.server_cap.store(bytes, Ordering::Relaxed);
    }

    /// See [`set_server_cap`](Self::set_server_cap).
    pub(crate) fn server_cap(&self) -> Option<u64> {
        Some(self.server_cap.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// The shard tells that so many dictionary epochs were begun. Producers look at it with every
    /// batch: apart from the counters, which the shard writes in every turn.
    pub(crate) fn set_symbol_epoch(&self, begun: u64) {
        self.symbol_epoch.store(begun, Ordering::Relaxed);
        self.counters.symbol_epochs.set(begun);
    }

    /// See [`set_symbol_epoch`](Self::set_symbol_epoch).
    #[inline]
    pub(crate) fn symbol_epoch(&self) -> u64 {
        self.symbol_epoch.load(Ordering::Relaxed)
    }

    /// The shard tells that a disk operation failed, or that the journal is repaired. A failure is
    /// told once.
    pub(crate) fn set_disk_failure(&self, cause: Option<&str>) {
        if self.has_disk_failure.load(Ordering::Relaxed) == cause.is_some() {
            return;
        }
        *lock(&self.disk_failure) = cause.map(str::to_owned);
        self.has_disk_failure
            .store(cause.is_some(), Ordering::Relaxed);
        if let Some(cause) = cause {
            let message = format!("{cause}; nothing is written until the journal is repaired");
            let error = SenderError::new(Category::Disk, Policy::Retriable, message);
            self.tell(error);
        }
        self.publish_news();
    }

    /// The disk operation that failed, until the journal is repaired.
    pub(crate) fn disk_failure(&self) -> Option<String> {
        lock(&self.disk_failure).clone()
    }
}
