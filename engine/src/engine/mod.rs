//! The engine handle: opens the slots, starts the shards, gives out producers, closes.

mod close;
mod doorway;
#[cfg(test)]
mod failed_open;
mod family;
mod fork;
mod held;
mod intake;
mod open;
mod reconfigure;
mod reopen;
#[cfg(any(test, feature = "internals"))]
pub mod settle;
mod status;
mod succeed;

#[cfg(feature = "internals")]
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::builder::EngineBuilder;
use crate::config::{Config, RouteBy};
use crate::error::Error;
use crate::io::sys::Home;
use crate::observe::{LatencyHistogram, Notifier, SenderError, Stats, TableRows};
use crate::orphan::{Orphans, Successor};
use crate::producer::Producer;
use crate::router::gate::Gate;
use crate::router::hall::Hall;
use crate::router::lane::Stage;
use crate::slot::SetAside;
use crate::units::millis;

use self::doorway::{Doorway, Started};
use self::held::HeldLock;

pub(crate) use intake::OpenedIntake;

pub(crate) use close::hand_back;
#[cfg(any(test, feature = "internals"))]
pub(crate) use open::open_slot;
pub(crate) use open::{Outfit, hand_over, new_producer};
pub(crate) use reopen::reopen_slot;

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
    hall: Arc<Hall>,
    /// By number of the shard.
    doors: Vec<Doorway>,
    /// Names of their slots.
    names: Vec<String>,
    /// Where the next producer goes that is bound to one shard.
    next: AtomicUsize,
    running: Mutex<Option<Running>>,
    home: Home,
}

#[derive(Debug)]
struct Running {
    shards: Vec<Started>,
    /// Delivers what an earlier number of shards left.
    successor: Option<Successor>,
    /// The drainers of `drain_orphans`.
    orphans: Option<Orphans>,
    /// Last: it reports what the others leave.
    notifier: Notifier,
}

impl Engine {
    /// Opens the slots (recovering what they hold), starts the shards and, as `initial_connect_retry`
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

    /// The shards' gates, by number.
    fn gates(&self) -> impl Iterator<Item = &Gate> {
        self.doors.iter().map(|door| &*door.gate)
    }

    /// A handle for one application thread, with a ring of `intake_ring_bytes` of its own into
    /// every shard that its rows may go to: a file with `intake=file`, whose making takes some
    /// milliseconds. [`Error::Config`] when the rings of all producers would exceed
    /// `intake_total_bytes`.
    pub fn producer(&self) -> Result<Producer, Error> {
        self.home.check()?;
        let doors = match self.config.shards.route_by {
            RouteBy::Producer => {
                let next = self.next.fetch_add(1, Ordering::Relaxed) % self.doors.len();
                &self.doors[next..=next]
            }
            RouteBy::Table | RouteBy::Key => &self.doors[..],
        };
        // A producer is of use while one shard takes its rows.
        let refusals: Vec<Error> = doors.iter().filter_map(|d| d.gate.refusal()).collect();
        if refusals.len() == doors.len()
            && let Some(error) = refusals.into_iter().next()
        {
            return Err(error);
        }
        if doors.iter().any(|door| door.gate.lanes() >= PRODUCERS_MAX) {
            return Err(Error::Misuse(
                "an engine has at most 1,024 producers: drop some",
            ));
        }
        let used = self.gates().map(Gate::ring_bytes).sum();
        intake::check_room(&self.config, used, doors.len())?;
        let doors: Vec<_> = doors
            .iter()
            .map(|door| (&door.gate, door.intake.as_ref()))
            .collect();
        new_producer(&self.config, &doors)
    }

    /// A snapshot of the counters: those of all shards together.
    pub fn stats(&self) -> Stats {
        if !self.home.is_here() {
            return Stats::default();
        }
        let shards: Vec<Stats> = self.gates().map(|gate| gate.counters.stats()).collect();
        Stats::of_engine(self.hall.stats(), &shards)
    }

    /// Rows per table, by name: accepted, acked, refused. Exact for the last 4,096 batches of a
    /// producer and shard; older ones count as acked together.
    pub fn tables(&self) -> Vec<TableRows> {
        if !self.home.is_here() {
            return Vec::new();
        }
        self.gates().for_each(Gate::settle_tables);
        self.hall.tables.rows()
    }

    /// The last errors (16 at most), oldest first, whether or not a handler was told.
    pub fn recent_errors(&self) -> Vec<SenderError> {
        if !self.home.is_here() {
            return Vec::new();
        }
        self.hall.events.recent()
    }

    /// The damaged slot that this start put aside, if there was one: its frames are not delivered,
    /// every byte of it is kept, and this engine began with an empty slot. Of several, the first.
    pub fn set_aside(&self) -> Option<&SetAside> {
        self.sets_aside().next()
    }

    /// Every damaged slot that this start put aside, at most one a shard.
    pub fn sets_aside(&self) -> impl Iterator<Item = &SetAside> {
        self.doors.iter().filter_map(|door| door.set_aside.as_ref())
    }

    /// Why the last connection, attempt or spare segment of a shard failed; `None` if nothing has
    /// yet. What happened is over or being tried again: terminal errors come out of the calls
    /// themselves.
    pub fn last_failure(&self) -> Option<String> {
        if let Err(error) = self.home.check() {
            return Some(error.to_string());
        }
        let mut causes = self.gates().map(|gate| gate.failures().1);
        causes.find(|cause| !cause.is_empty())
    }

    /// A snapshot of a latency histogram, of all shards together.
    pub fn histogram(&self, which: Latency) -> LatencyHistogram {
        let of = |gate: &Gate| match which {
            Latency::AcceptToWritten => gate.counters.accept_to_written.snapshot(),
            Latency::AcceptToStable => gate.counters.accept_to_stable.snapshot(),
            Latency::AcceptToAcked => gate.counters.accept_to_acked.snapshot(),
        };
        let shards = self.gates().map(of);
        let all = shards.reduce(|all, shard| all.merge(&shard));
        all.expect("an engine has a shard")
    }

    /// Waits until everything that was published or recovered so far is acked.
    pub fn wait_acked(&self, timeout: Duration) -> Result<(), Error> {
        self.home.check()?;
        let start = Instant::now();
        loop {
            let mut open = self.gates().filter(|gate| !gate.is_acked()).peekable();
            if open.peek().is_none() {
                return Ok(());
            }
            if let Some(error) = open.find_map(Gate::ending) {
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
