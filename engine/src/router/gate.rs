//! What all producers of one shard share with it: the doorbell, the list of lanes that join, the
//! state that refusals quote, and the request to stop.

mod down;
mod settings;
mod view;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use self::down::Down;
use self::settings::Settings;
use self::view::Gone;
use super::doorbell::{Bell, Doorbell};
use super::hall::Hall;
use super::lane::{Lane, LaneEnd, Stage};
use crate::error::{Error, Pressure};
use crate::fsn::Fsn;
use crate::io::sys::{EventFd, futex_wait, futex_wake, monotonic_nanos};
use crate::observe::{
    Category, ConnectionChange, ConnectionEvent, Counters, Event, FillRate, Policy, SenderError,
};

/// Why an engine takes no more rows: latched once, delivered once through `close` too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// `host:port` of the server, empty where the cause is local.
    pub endpoint: String,
    /// What happened.
    pub reason: String,
}

impl Terminal {
    /// An error that no server has to do with; the reason names the way out.
    pub(crate) fn local(reason: String) -> Self {
        Self {
            endpoint: String::new(),
            reason,
        }
    }

    /// The error that callers get.
    pub(crate) fn to_error(&self) -> Error {
        if self.endpoint.is_empty() {
            return Error::Poisoned {
                cause: self.reason.clone(),
            };
        }
        Error::Peer {
            endpoint: self.endpoint.clone(),
            reason: self.reason.clone(),
            retryable: false,
        }
    }
}

/// Who does the steward's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upkeep {
    /// The steward.
    Kept,
    /// Nobody at the moment: it died, and is started again after a pause.
    Dead,
    /// The shard: the steward was given up.
    Inline,
}

/// The doorway of one shard.
#[derive(Debug)]
pub(crate) struct Gate {
    /// What it shares with the other shards of its engine.
    pub hall: Arc<Hall>,
    /// Number of the shard, from 0.
    pub shard: u32,
    door: Doorbell<EventFd>,
    joining: Mutex<Vec<LaneEnd>>,
    has_joining: AtomicBool,
    lanes: Mutex<Vec<Arc<Lane>>>,
    gone: Mutex<Gone>,
    /// Deadline of `close` on the monotonic clock; `u64::MAX` while open.
    closing: AtomicU64,
    terminal: OnceLock<Terminal>,
    /// Some call has returned the terminal error.
    delivered: AtomicBool,
    /// Durable acknowledgements are asked for.
    durable: AtomicBool,
    started: AtomicBool,
    ever_connected: AtomicBool,
    closed: AtomicBool,
    panicked: AtomicBool,
    lacks_durable: AtomicBool,
    /// Bumped and woken at every change of connection state; `connect` and `close` wait on it.
    news: AtomicU32,
    rounds_failed: AtomicU32,
    last_failure: Mutex<String>,
    outage_since: AtomicU64,
    outage_attempts: AtomicU64,
    /// When the oldest unacked frame was accepted (monotonic); 0 if all is acked.
    oldest_unacked: AtomicU64,
    stable_waiters: AtomicI32,
    full: AtomicBool,
    /// A producer refused a symbol for want of room since the shard looked last.
    lacks_symbols: AtomicBool,
    symbols_max: AtomicU32,
    server_cap: AtomicU64,
    /// Frames from here on are not sent yet.
    fence: AtomicU64,
    upkeep: AtomicU8,
    down: Down,
    settings: Settings,
    /// The disk operation that failed, until the journal is repaired.
    disk_failure: Mutex<Option<String>>,
    has_disk_failure: AtomicBool,
    /// `host:port` of the server that is connected.
    endpoint: Mutex<Option<String>>,
    /// Counters of the shard.
    pub counters: Box<Counters>,
    /// How fast the journal fills.
    pub fill: FillRate,
}

impl Gate {
    /// The gate of a shard that is alone in its hall. `bell` is the descriptor that wakes it.
    pub(crate) fn new(bell: EventFd) -> Self {
        Self::of(Arc::default(), 0, bell)
    }

    /// The gate of shard number `shard`, which has not started yet. `bell` is the descriptor that
    /// wakes it.
    pub(crate) fn of(hall: Arc<Hall>, shard: u32, bell: EventFd) -> Self {
        Self {
            hall,
            shard,
            door: Doorbell::new(bell),
            joining: Mutex::default(),
            has_joining: AtomicBool::new(false),
            lanes: Mutex::default(),
            gone: Mutex::default(),
            closing: AtomicU64::new(u64::MAX),
            terminal: OnceLock::new(),
            delivered: AtomicBool::new(false),
            durable: AtomicBool::new(false),
            started: AtomicBool::new(false),
            ever_connected: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            lacks_durable: AtomicBool::new(false),
            news: AtomicU32::new(0),
            rounds_failed: AtomicU32::new(0),
            last_failure: Mutex::default(),
            outage_since: AtomicU64::new(0),
            outage_attempts: AtomicU64::new(0),
            oldest_unacked: AtomicU64::new(0),
            stable_waiters: AtomicI32::new(0),
            full: AtomicBool::new(false),
            lacks_symbols: AtomicBool::new(false),
            symbols_max: AtomicU32::new(0),
            server_cap: AtomicU64::new(0),
            fence: AtomicU64::new(u64::MAX),
            upkeep: AtomicU8::new(Upkeep::Kept as u8),
            down: Down::default(),
            settings: Settings::default(),
            disk_failure: Mutex::default(),
            has_disk_failure: AtomicBool::new(false),
            endpoint: Mutex::default(),
            counters: Box::default(),
            fill: FillRate::default(),
        }
    }

    /// The bell's descriptor, for the host of the shard.
    pub(crate) fn bell(&self) -> &EventFd {
        self.door.bell()
    }

    // --- producers ---

    /// Tells the shard that there is work; a system call only if it is parked.
    #[inline]
    pub(crate) fn knock(&self) {
        self.door.knock();
    }

    /// Hands a new lane's consuming end to the shard.
    pub(crate) fn join(&self, lane: Arc<Lane>, end: LaneEnd) {
        lock(&self.lanes).push(lane);
        lock(&self.joining).push(end);
        self.has_joining.store(true, Ordering::Release);
        self.knock();
    }

    /// Somebody begins (1) or ends (-1) waiting for stable.
    pub(crate) fn stable_waiters(&self, change: i32) {
        self.stable_waiters.fetch_add(change, Ordering::AcqRel);
    }

    /// A symbol found no room in the dictionary: the shard makes some when it can.
    #[cold]
    pub(crate) fn lack_symbols(&self) {
        self.lacks_symbols.store(true, Ordering::Release);
        self.knock();
    }

    /// Whether `sf_max_total_bytes` is used up.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Whether nothing further will happen: a terminal error, or the shard is gone.
    pub(crate) fn is_over(&self) -> bool {
        self.terminal.get().is_some() || self.closed.load(Ordering::Acquire)
    }

    /// The error of a wait that ended because nothing further will happen.
    pub(crate) fn ending(&self) -> Option<Error> {
        let closed = || self.closed.load(Ordering::Acquire).then_some(Error::Closed);
        self.latched().or_else(closed)
    }

    /// Why no batch is accepted any more.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<Error> {
        let closed = || self.is_closed().then_some(Error::Closed);
        self.latched().or_else(closed)
    }

    #[inline]
    fn latched(&self) -> Option<Error> {
        let terminal = self.terminal.get()?;
        self.delivered.store(true, Ordering::Release);
        Some(terminal.to_error())
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

    /// The latched terminal error.
    pub(crate) fn terminal(&self) -> Option<&Terminal> {
        self.terminal.get()
    }

    /// The latched terminal error if no call has returned it yet: `close` must (operations.md
    /// O22).
    pub(crate) fn take_undelivered(&self) -> Option<Error> {
        let first = !self.delivered.swap(true, Ordering::AcqRel);
        self.terminal
            .get()
            .filter(|_| first)
            .map(Terminal::to_error)
    }

    /// Durable acknowledgements are asked for: [`Stage::Durable`](super::lane::Stage) can be
    /// reached.
    pub(crate) fn expect_durable(&self) {
        self.durable.store(true, Ordering::Release);
    }

    /// See [`expect_durable`](Self::expect_durable).
    pub(crate) fn expects_durable(&self) -> bool {
        self.durable.load(Ordering::Acquire)
    }

    /// Whether the shard is gone or going.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) || self.closing.load(Ordering::Acquire) != u64::MAX
    }

    // --- the engine handle ---

    /// Asks the shard to stop when everything is acked, at `deadline` (monotonic) at the latest.
    pub(crate) fn close(&self, deadline: u64) {
        self.closing
            .fetch_min(deadline.min(u64::MAX - 1), Ordering::AcqRel);
        self.wake_all();
        self.door.ring();
    }

    /// Frames from `fsn` on wait until the fence is set further back.
    pub(crate) fn set_fence(&self, fsn: Fsn) {
        self.fence.store(fsn.0, Ordering::Release);
        self.door.ring();
    }

    /// The same, if frames up to there were fenced.
    pub(crate) fn raise_fence(&self, fsn: Fsn) {
        self.fence.fetch_max(fsn.0, Ordering::AcqRel);
        self.door.ring();
    }

    /// First frame that is not sent yet.
    #[inline]
    pub(crate) fn fence(&self) -> Fsn {
        Fsn(self.fence.load(Ordering::Acquire))
    }

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

    /// Whether the shard's thread runs.
    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Whether a server was ever connected.
    pub(crate) fn was_connected(&self) -> bool {
        self.ever_connected.load(Ordering::Acquire)
    }

    /// Exhausted connection rounds so far, and the last cause.
    pub(crate) fn failures(&self) -> (u32, String) {
        (
            self.rounds_failed.load(Ordering::Acquire),
            lock(&self.last_failure).clone(),
        )
    }

    // --- the shard ---

    /// Announces that the shard is about to sleep; it must look at all its inputs once more
    /// afterwards.
    pub(crate) fn park(&self) {
        self.door.park();
    }

    /// The shard is running again.
    pub(crate) fn unpark(&self) {
        self.door.unpark();
    }

    /// The shard's thread runs.
    pub(crate) fn started(&self) {
        self.started.store(true, Ordering::Release);
        self.publish_news();
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

    /// Deadline of `close`, if it was called. Rings that are found empty afterwards stay empty:
    /// whoever publishes later sees the closing (the fence pairs with the one in
    /// [`knock`](Self::knock)) and is refused.
    #[inline]
    pub(crate) fn closing(&self) -> Option<u64> {
        match self.closing.load(Ordering::Acquire) {
            u64::MAX => None,
            deadline => {
                fence(Ordering::SeqCst);
                Some(deadline)
            }
        }
    }

    /// Whether a symbol found no room since [`saw_lack`](Self::saw_lack).
    #[inline]
    pub(crate) fn is_lacking_symbols(&self) -> bool {
        self.lacks_symbols.load(Ordering::Acquire)
    }

    /// The shard has taken note.
    pub(crate) fn saw_lack(&self) {
        self.lacks_symbols.store(false, Ordering::Release);
    }

    /// Most symbols of the slot, for whoever looks at the gauge.
    pub(crate) fn set_symbols_max(&self, count: u32) {
        self.symbols_max.store(count, Ordering::Relaxed);
    }

    /// See [`set_symbols_max`](Self::set_symbols_max); 0 before.
    pub(crate) fn symbols_max(&self) -> u64 {
        self.symbols_max.load(Ordering::Relaxed).into()
    }

    /// Whether somebody waits for stable.
    #[inline]
    pub(crate) fn wants_stable(&self) -> bool {
        self.stable_waiters.load(Ordering::Relaxed) > 0
    }

    /// The shard tells whether the cap is reached.
    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
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

    /// The server's cap on a message in bytes, 0 while it has told none.
    pub(crate) fn set_server_cap(&self, bytes: u64) {
        self.server_cap.store(bytes, Ordering::Relaxed);
    }

    /// See [`set_server_cap`](Self::set_server_cap).
    pub(crate) fn server_cap(&self) -> Option<u64> {
        Some(self.server_cap.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
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

    /// The steward's supervisor tells who does its work.
    pub(crate) fn set_upkeep(&self, upkeep: Upkeep) {
        self.upkeep.store(upkeep as u8, Ordering::Relaxed);
    }

    /// See [`set_upkeep`](Self::set_upkeep).
    pub(crate) fn upkeep(&self) -> Upkeep {
        match self.upkeep.load(Ordering::Relaxed) {
            0 => Upkeep::Kept,
            1 => Upkeep::Dead,
            _ => Upkeep::Inline,
        }
    }

    /// Latches a terminal error under this category (the first one stays and is told) and wakes
    /// every waiter.
    pub(crate) fn fail_as(&self, category: Category, terminal: Terminal) {
        let mut error = SenderError::new(category, Policy::Terminal, terminal.reason.clone());
        error.endpoint.clone_from(&terminal.endpoint);
        self.fail_with(terminal, error);
    }

    /// As [`fail_as`](Self::fail_as), told as this error.
    pub(crate) fn fail_with(&self, terminal: Terminal, error: SenderError) {
        if self.terminal.set(terminal).is_ok() {
            self.tell(error);
        }
        self.wake_all();
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

    /// The terminal error that follows is that no server grants durable acknowledgements.
    pub(crate) fn lacks_durable(&self) {
        self.lacks_durable.store(true, Ordering::Release);
    }

    /// See [`lacks_durable`](Self::lacks_durable).
    pub(crate) fn is_lacking_durable(&self) -> bool {
        self.lacks_durable.load(Ordering::Acquire)
    }

    /// The shard's thread ended in a panic.
    pub(crate) fn panicked(&self, terminal: Terminal) {
        self.panicked.store(true, Ordering::Release);
        self.fail_as(Category::Fault, terminal);
        self.shut();
    }

    /// The shard is gone: every wait ends.
    pub(crate) fn shut(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake_all();
    }

    fn wake_all(&self) {
        for lane in lock(&self.lanes).iter() {
            lane.wake_everybody();
        }
        self.publish_news();
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

    /// Number of lanes in use.
    pub(crate) fn lanes(&self) -> usize {
        lock(&self.lanes).len()
    }

    /// Bytes of their rings.
    pub(crate) fn ring_bytes(&self) -> u64 {
        let lanes = lock(&self.lanes);
        lanes.iter().map(|lane| lane.ring_bytes).sum()
    }

    pub(super) fn publish_news(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
        futex_wake(&self.news);
    }
}

impl Bell for EventFd {
    fn ring(&self) {
        Self::ring(self);
    }
}

/// A lock whose holder panicked still guards sound data here: lists of handles.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

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
