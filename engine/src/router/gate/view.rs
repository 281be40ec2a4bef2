//! What a gate shows to those who look at an engine from outside, and what it keeps for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Gate, lock};
use crate::observe::Progress;
use crate::router::lane::{Lane, Stage};

/// Lanes that are gone and wait for their rows to be counted by another thread.
const GONE_MAX: usize = 64;

/// What is left of lanes that are no longer in use.
#[derive(Debug, Default)]
pub(super) struct Gone {
    lanes: Vec<Arc<Lane>>,
    /// Entries that they accepted.
    accepted: u64,
}

/// What the shard writes in every turn, on cache lines of its own: producers, who read the rest of
/// the gate at every hand-over, would have to fetch it from the shard's core each time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Told {
    /// `sf_max_total_bytes` is used up.
    pub(super) full: AtomicBool,
    /// When the oldest unacked frame was accepted (monotonic); 0 if all is acked.
    pub(super) oldest_unacked: AtomicU64,
}

impl Gone {
    fn settle(&mut self) {
        for lane in self.lanes.drain(..) {
            lane.ledger.settle(lane.reached(Stage::Acked));
        }
    }
}

impl Gate {
    /// Forgets a lane whose producer and shard are both done with it.
    pub(crate) fn forget(&self, lane: &Arc<Lane>) {
        let mut gone = lock(&self.gone);
        gone.accepted += lane.reached(Stage::Accepted);
        gone.lanes.push(Arc::clone(lane));
        // The notifier counts their rows. If it hangs in a handler, they are counted here.
        if gone.lanes.len() >= GONE_MAX {
            gone.settle();
        }
        drop(gone);
        lock(&self.lanes).retain(|other| !Arc::ptr_eq(lane, other));
    }

    /// Brings the rows per table up to date.
    pub(crate) fn settle_tables(&self) {
        let lanes = lock(&self.lanes).clone();
        for lane in lanes {
            lane.ledger.settle(lane.reached(Stage::Acked));
        }
        lock(&self.gone).settle();
    }

    /// Batches accepted so far, by all producers.
    pub(crate) fn accepted(&self) -> u64 {
        let gone = lock(&self.gone);
        let lanes = lock(&self.lanes);
        gone.accepted
            + lanes
                .iter()
                .map(|lane| lane.reached(Stage::Accepted))
                .sum::<u64>()
    }

    /// `host:port` of the server that is connected.
    pub(crate) fn endpoint(&self) -> Option<String> {
        lock(&self.endpoint).clone()
    }

    /// How far frames have come.
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            acked: self.counters.fsn_acked.get(),
            published: self.counters.fsn_next.get(),
        }
    }

    /// The shard tells when the oldest unacked frame was accepted; 0 if all is acked.
    pub(crate) fn set_oldest_unacked(&self, accepted_ns: u64) {
        self.told
            .oldest_unacked
            .store(accepted_ns, Ordering::Relaxed);
    }

    /// Age of the oldest unacked frame in nanoseconds.
    pub(crate) fn oldest_unacked(&self, now: u64) -> Option<u64> {
        let since = self.told.oldest_unacked.load(Ordering::Relaxed);
        (since > 0).then(|| now.saturating_sub(since))
    }

    /// Attempts and age in nanoseconds of the present outage; `None` while connected.
    pub(crate) fn outage(&self, now: u64) -> Option<(u64, u64)> {
        match self.outage_since.load(Ordering::Relaxed) {
            0 => None,
            since => Some((
                self.outage_attempts.load(Ordering::Relaxed),
                now.saturating_sub(since),
            )),
        }
    }

    /// Whether the shard sleeps.
    pub(crate) fn is_parked(&self) -> bool {
        self.door.is_parked()
    }

    /// Whether the shard's thread ended in a panic.
    pub(crate) fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::Acquire)
    }

    /// Whether the shard is gone.
    pub(crate) fn is_shut(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
