//! One producer's way into one shard: the ring, and how far its entries have come.
//!
//! Entries of a lane are numbered from 0. For each stage a counter says how many entries have
//! reached it: all entries below the counter have. Receipts compare their number with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::task::Waker;
use std::time::Duration;

use super::herald::Herald;
use super::marks::Marks;
use super::region::Region;
use super::ring::{self, Reader, Writer};
use super::room::{Room, Waited, Wanted};
use super::waiters::Waiters;
use crate::intake::{LeftRing, RingFile};
use crate::observe::Ledger;

pub(super) const STAGES: [Stage; 5] = [
    Stage::Accepted,
    Stage::Written,
    Stage::Stable,
    Stage::Acked,
    Stage::Durable,
];

/// Stages of a frame on its way (ARCHITECTURE.md, glossary).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// In the shard's intake ring.
    Accepted,
    /// In its segment file: survives the death of the process.
    Written,
    /// Covered by an fdatasync: survives power loss.
    Stable,
    /// Confirmed by the server: survives loss of this host.
    Acked,
    /// Confirmed by a durable acknowledgement: survives loss of the server.
    Durable,
}

impl Stage {
    /// The stage's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Written => "written",
            Self::Stable => "stable",
            Self::Acked => "acked",
            Self::Durable => "durable",
        }
    }
}

/// What the shard writes at every commit, on cache lines of its own: the producer writes beside it as
/// often, and each would have to fetch the line from the other's core.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Progress {
    taken: AtomicU64,
    written: AtomicU64,
    stable: AtomicU64,
    acked: AtomicU64,
    /// Counts only where durable acknowledgements are asked for.
    durable: AtomicU64,
}

/// What the producer writes at every hand-over, likewise.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Accepted(AtomicU64);

/// State shared by the two ends.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Entries that the producer put into the ring.
    accepted: Accepted,
    progress: Progress,
    /// Who waits, by stage; for accepted nobody has to.
    waiters: [Waiters; STAGES.len()],
    /// Wakes the tasks among them.
    herald: Arc<Herald>,
    /// The herald has no thread: whoever notifies wakes tasks.
    unheralded: AtomicBool,
    /// The producer while its ring is full.
    room: Room,
    producer_gone: AtomicBool,
    /// Bytes of the ring.
    pub ring_bytes: u64,
    /// Rows per table of the entries that are not acked.
    pub ledger: Ledger,
    /// The application's positions, and the entries that complete them.
    pub marks: Marks,
}

/// The shard's end.
#[derive(Debug)]
pub(crate) struct LaneEnd {
    /// The ring's consuming end.
    pub reader: Reader,
    /// Shared state.
    pub lane: Arc<Lane>,
    /// The ring's file, in an intake that survives a kill.
    pub file: Option<RingFile>,
    /// An earlier process filled the ring, or a producer that was gone when the next one came: it
    /// goes before all others.
    pub left: bool,
}

/// Makes a lane over a new ring; `file` is where that lies, if anywhere, and `herald` wakes the
/// tasks that wait on it.
pub(crate) fn lane(
    region: Region,
    file: Option<RingFile>,
    herald: &Arc<Herald>,
) -> (Writer, LaneEnd, Arc<Lane>) {
    let (writer, reader) = ring::over(region);
    let lane = Arc::new(Lane {
        herald: Arc::clone(herald),
        ring_bytes: writer.capacity(),
        ..Lane::default()
    });
    let end = LaneEnd {
        reader,
        lane: Arc::clone(&lane),
        file,
        left: false,
    };
    (writer, end, lane)
}

/// A lane for what an earlier process accepted: its producer is gone, so nobody waits on it.
pub(crate) fn left_lane(ring: LeftRing, file: RingFile) -> (LaneEnd, Arc<Lane>) {
    let lane = Arc::new(Lane {
        ring_bytes: ring.capacity,
        ..Lane::default()
    });
    lane.advance(Stage::Accepted, ring.entries);
    lane.leave();
    let end = LaneEnd {
        reader: ring.reader,
        lane: Arc::clone(&lane),
        file: Some(file),
        left: true,
    };
    (end, lane)
}

impl Lane {
    /// How many entries have reached `stage`.
    #[inline]
    pub(crate) fn reached(&self, stage: Stage) -> u64 {
        self.counter(stage).load(Ordering::Acquire)
    }

    fn counter(&self, stage: Stage) -> &AtomicU64 {
        match stage {
            Stage::Accepted => &self.accepted.0,
            Stage::Written => &self.progress.written,
            Stage::Stable => &self.progress.stable,
            Stage::Acked => &self.progress.acked,
            Stage::Durable => &self.progress.durable,
        }
    }

    /// The shard reports that all entries below `count` have reached `stage`; waiters are woken
    /// by [`notify`](Self::notify).
    #[inline]
    pub(crate) fn advance(&self, stage: Stage, count: u64) {
        self.counter(stage).store(count, Ordering::Release);
    }

    /// The shard took all entries below `count` from the ring: their room is free.
    #[inline]
    pub(crate) fn take(&self, count: u64) {
        self.progress.taken.store(count, Ordering::Release);
    }

    /// How many entries the shard took. What its symbols added to the dictionary was counted
    /// before.
    pub(crate) fn taken(&self) -> u64 {
        self.progress.taken.load(Ordering::Acquire)
    }

    /// Whether everything accepted so far has reached `stage`.
    pub(crate) fn is_all(&self, stage: Stage) -> bool {
        self.reached(stage) >= self.reached(Stage::Accepted)
    }

    fn waiters(&self, stage: Stage) -> &Waiters {
        &self.waiters[stage as usize]
    }

    /// Wakes whoever waits on this lane for `stage`, if anybody.
    #[inline]
    pub(crate) fn notify(&self, stage: Stage) {
        if self.waiters(stage).notify(self.reached(stage)) {
            self.call_herald();
        }
    }

    #[cold]
    fn call_herald(&self) {
        if self.unheralded.load(Ordering::Relaxed) {
            self.run_wakers();
        } else {
            self.herald.call();
        }
    }

    /// Wakes the tasks whose stage was reached. The herald's work.
    pub(super) fn run_wakers(&self) {
        for stage in STAGES {
            self.waiters(stage).run_wakers(self.reached(stage));
        }
    }

    /// Whether tasks wait.
    pub(super) fn has_wakers(&self) -> bool {
        self.waiters.iter().any(Waiters::has_wakers)
    }

    /// The shard gave room back, up to this position of the ring: wakes the producer if that is what
    /// it waits for. `true` if it was woken.
    #[inline]
    pub(crate) fn freed(&self, released: u64) -> bool {
        self.room.freed(released)
    }

    /// The producer waits for room until `done` holds or `limit` has passed.
    pub(crate) fn wait_for_room(
        &self,
        wanted: Wanted,
        limit: Duration,
        done: impl FnMut() -> bool,
    ) -> Waited {
        self.room.wait(wanted, limit, done)
    }

    /// Ends every wait: the waiters look at the gate's state.
    pub(crate) fn wake_everybody(&self) {
        self.room.wake();
        self.waiters.iter().for_each(Waiters::wake_everybody);
        self.call_herald();
    }

    /// Waits until `done`, which follows from `stage`, holds or `limit` has passed.
    pub(crate) fn wait(&self, stage: Stage, limit: Duration, done: impl FnMut() -> bool) -> bool {
        self.waiters(stage).wait(limit, done)
    }

    /// Registers `waker` for "at least `count` entries at `stage`", instead of what `ticket`
    /// registered before; returns the ticket (0 asks for a new one). The caller looks again
    /// afterwards.
    pub(crate) fn watch(
        self: &Arc<Self>,
        stage: Stage,
        count: u64,
        ticket: u64,
        waker: &Waker,
    ) -> u64 {
        let (ticket, first) = self.waiters(stage).watch(count, ticket, waker);
        if first {
            let alone = !self.herald.enlist(self);
            self.unheralded.store(alone, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        ticket
    }

    /// Forgets what `ticket` registered: its receipt is gone.
    pub(crate) fn unwatch(&self, stage: Stage, count: u64, ticket: u64) {
        self.waiters(stage).unwatch(count, ticket);
    }

    #[cfg(test)]
    pub(super) fn herald(&self) -> &Herald {
        &self.herald
    }

    /// The producer was dropped: the shard frees the lane when its ring is empty.
    pub(crate) fn leave(&self) {
        self.producer_gone.store(true, Ordering::Release);
    }

    /// Whether the producer was dropped.
    pub(crate) fn is_left(&self) -> bool {
        self.producer_gone.load(Ordering::Acquire)
    }
}
