//! The engine handle: opens the slot, starts the shard, gives out producers, closes.

mod close;
#[cfg(test)]
mod failed_open;
mod fork;
mod held;
mod intake;
mod open;
#[cfg(any(test, feature = "internals"))]
pub mod settle;
mod status;

#[cfg(feature = "internals")]
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::builder::EngineBuilder;
use crate::config::Config;
use crate::error::Error;
use crate::intake::Store;
use crate::io::sys::Home;
use crate::io::uring::Hosted;
use crate::observe::{LatencyHistogram, Notifier, SenderError, Stats, TableRows};
use crate::orphan::Orphans;
use crate::producer::Producer;
use crate::router::gate::Gate;
use crate::router::lane::Stage;
use crate::slot::SetAside;
use crate::steward::StewardThreads;
use crate::units::millis;

use held::HeldLock;

pub(crate) use intake::OpenedIntake;

pub(crate) use close::hand_back;
#[cfg(any(test, feature = "internals"))]
pub(crate) use open::open_slot;
pub(crate) use open::{Outfit, hand_over, new_producer, slot_options};

/// Where [`Engine::from_env`] looks.
const ENV: &str = "QDB_CLIENT_CONF";
/// Most producers of an engine.
const PRODUCERS_MAX: usize = 1024;

/// Which latency a histogram shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Latency {
    /// From accepted to written.
    AcceptToWritten,
    /// From accepted to stable.
    AcceptToStable,
    /// From accepted to acked.
    AcceptToAcked,
}

/// A running engine. See the crate documentation for an example.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    gate: Arc<Gate>,
    /// Where the rings of new producers are made; `None` for memory.
    intake: Option<Arc<Store>>,
    set_aside: Option<SetAside>,
    running: Mutex<Option<Running>>,
    home: Home,
}

#[derive(Debug)]
struct Running {
    shard: Hosted,
    steward: StewardThreads,
    /// Released at the latest when this goes, whatever became of the shard.
    lock: HeldLock,
    /// The drainers of `drain_orphans`.
    orphans: Option<Orphans>,
    /// Last: it reports what the others leave.
    notifier: Notifier,
}

impl Engine {
    /// Opens the slot (recovering what it holds), starts the shard and, as `initial_connect_retry`
    /// says, waits for the first connection.
    ///
    /// Every error comes before a row was accepted: an unknown key ([`Error::Config`], before any
    /// file is touched), a held slot ([`Error::Locked`]), a machine that forbids io_uring
    /// ([`Error::Unsupported`]), a disk that fails ([`Error::Disk`]).
    pub fn connect(connect_string: &str) -> Result<Self, Error> {
        Self::start(Config::parse(connect_string)?, Outfit::default())
    }

    /// As [`connect`](Self::connect), with the connect string of the environment variable
    /// `QDB_CLIENT_CONF`.
    pub fn from_env() -> Result<Self, Error> {
        let text = std::env::var(ENV).map_err(|error| {
            let reason = format!("the environment variable is not usable: {error}");
            Error::config(ENV, reason)
        })?;
        Self::connect(&text)
    }

    /// An engine with handlers for its events.
    pub fn builder(connect_string: &str) -> EngineBuilder {
        EngineBuilder::new(connect_string)
    }

    /// As [`connect`](Self::connect), with another resolver of names. It may block.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn connect_resolving(
        connect_string: &str,
        resolver: impl Fn(&str, u16) -> std::io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let outfit = Outfit {
            resolver: Arc::new(resolver),
            ..Outfit::default()
        };
        Self::start(Config::parse(connect_string)?, outfit)
    }

    /// As [`connect`](Self::connect), with a look at every piece of bytes received, on the
    /// shard's thread.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[expect(
        clippy::type_complexity,
        reason = "an alias would be public for this alone"
    )]
    pub fn connect_tapped(
        connect_string: &str,
        tap: Box<dyn FnMut(&[u8]) + Send>,
    ) -> Result<Self, Error> {
        let outfit = Outfit {
            tap: Some(tap),
            ..Outfit::default()
        };
        Self::start(Config::parse(connect_string)?, outfit)
    }

    /// A handle for one application thread, with a ring of `intake_ring_bytes` of its own: a file
    /// with `intake=file`, whose making takes some milliseconds. [`Error::Config`] when the rings
    /// of all producers would exceed `intake_total_bytes`.
    pub fn producer(&self) -> Result<Producer, Error> {
        self.home.check()?;
        if let Some(error) = self.gate.refusal() {
            return Err(error);
        }
        if self.gate.lanes() >= PRODUCERS_MAX {
            return Err(Error::Misuse(
                "an engine has at most 1,024 producers: drop some",
            ));
        }
        new_producer(&self.config, &self.gate, self.intake.as_ref())
    }

    /// A snapshot of the counters.
    pub fn stats(&self) -> Stats {
        if !self.home.is_here() {
            return Stats::default();
        }
        self.gate.stats()
    }

    /// Rows per table, by name: accepted, acked, refused. Exact for the last 4,096 batches of a
    /// producer; older ones count as acked together.
    pub fn tables(&self) -> Vec<TableRows> {
        if !self.home.is_here() {
            return Vec::new();
        }
        self.gate.settle_tables();
        self.gate.tables.rows()
    }

    /// The last errors (16 at most), oldest first, whether or not a handler was told.
    pub fn recent_errors(&self) -> Vec<SenderError> {
        if !self.home.is_here() {
            return Vec::new();
        }
        self.gate.events.recent()
    }

    /// The damaged slot that this start put aside, if there was one: its frames are not delivered,
    /// every byte of it is kept, and this engine began with an empty slot.
    pub fn set_aside(&self) -> Option<&SetAside> {
        self.set_aside.as_ref()
    }

    /// Why the last connection, attempt or spare segment failed; `None` if nothing has yet. What
    /// happened is over or being tried again: terminal errors come out of the calls themselves.
    pub fn last_failure(&self) -> Option<String> {
        if let Err(error) = self.home.check() {
            return Some(error.to_string());
        }
        Some(self.gate.failures().1).filter(|cause| !cause.is_empty())
    }

    /// A snapshot of a latency histogram.
    pub fn histogram(&self, which: Latency) -> LatencyHistogram {
        let counters = &self.gate.counters;
        match which {
            Latency::AcceptToWritten => counters.accept_to_written.snapshot(),
            Latency::AcceptToStable => counters.accept_to_stable.snapshot(),
            Latency::AcceptToAcked => counters.accept_to_acked.snapshot(),
        }
    }

    /// Waits until everything that was published or recovered so far is acked.
    pub fn wait_acked(&self, timeout: Duration) -> Result<(), Error> {
        self.home.check()?;
        let start = Instant::now();
        loop {
            if self.gate.is_acked() {
                return Ok(());
            }
            if let Some(error) = self.gate.ending() {
                return Err(error);
            }
            if start.elapsed() >= timeout {
                return Err(Error::Timeout {
                    stage: Stage::Acked.name(),
                    waited_millis: millis(start.elapsed()),
                });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
