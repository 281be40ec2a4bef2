//! The lanes of a shard, and the doorbell through which their producers call it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Gate, lock};
use crate::router::lane::{Lane, LaneEnd, Stage};

impl Gate {
    /// Tells the shard that there is work; a system call only if it is parked.
    #[inline]
    pub(crate) fn knock(&self) {
        self.door.knock();
    }

    /// Announces that the shard is about to sleep; it must look at all its inputs once more
    /// afterwards.
    pub(crate) fn park(&self) {
        self.door.park();
    }

    /// The shard is running again.
    pub(crate) fn unpark(&self) {
        self.door.unpark();
    }

    /// Hands a new lane's consuming end to the shard.
    pub(crate) fn join(&self, lane: Arc<Lane>, end: LaneEnd) {
        lock(&self.lanes).push(lane);
        lock(&self.joining).push(end);
        self.has_joining.store(true, Ordering::Release);
        self.knock();
    }

    /// Lanes that joined since the last call.
    #[inline]
    pub(crate) fn joined(&self) -> Vec<LaneEnd> {
        if !self.has_joining.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.has_joining.store(false, Ordering::Release);
        std::mem::take(&mut *lock(&self.joining))
    }

    /// Whether a lane waits to be taken up.
    pub(crate) fn has_joining(&self) -> bool {
        self.has_joining.load(Ordering::Acquire)
    }

    /// Number of lanes in use.
    pub(crate) fn lanes(&self) -> usize {
        lock(&self.lanes).len()
    }

    /// Bytes of their rings.
    pub(crate) fn ring_bytes(&self) -> u64 {
        let lanes = lock(&self.lanes);
        lanes.iter().map(|lane| lane.ring_bytes).sum()
    }

    /// Whether everything that producers published so far has the acknowledgement that is asked
    /// for, and everything recovered too.
    pub(crate) fn is_acked(&self) -> bool {
        let stage = if self.expects_durable() {
            Stage::Durable
        } else {
            Stage::Acked
        };
        lock(&self.lanes).iter().all(|lane| lane.is_all(stage))
            && self.counters.unacked_frames.get() == 0
    }
}
