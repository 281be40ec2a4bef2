//! What all producers of one shard share with it: the doorbell, the list of lanes that join, the
//! state that refusals quote, and the request to stop.

mod down;
mod ending;
mod lanes;
mod news;
mod pressure;
mod settings;
mod view;
mod wishes;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use self::down::Down;
pub(crate) use self::ending::Terminal;
use self::settings::Settings;
use self::view::{Gone, Told};
use super::doorbell::{Bell, Doorbell};
use super::hall::Hall;
use super::lane::{Lane, LaneEnd};
use crate::io::sys::EventFd;
use crate::observe::{Counters, FillRate};

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
    /// Whoever published without seeing it has its entry in the ring, for the shard to see.
    closing_shown: AtomicBool,
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
    stable_waiters: AtomicI32,
    told: Told,
    /// A producer refused a symbol for want of room since the shard looked last.
    lacks_symbols: AtomicBool,
    symbols_max: AtomicU32,
    server_cap: AtomicU64,
    symbol_epoch: AtomicU64,
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
            closing_shown: AtomicBool::new(false),
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
            stable_waiters: AtomicI32::new(0),
            told: Told::default(),
            lacks_symbols: AtomicBool::new(false),
            symbols_max: AtomicU32::new(0),
            server_cap: AtomicU64::new(0),
            symbol_epoch: AtomicU64::new(0),
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
