//! The engine handle: opens the slot, starts the shard, gives out producers, closes.

mod close;
mod open;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::error::Error;
use crate::io::uring::Hosted;
#[cfg(feature = "internals")]
use crate::io::uring::Tap;
use crate::observe::{LatencyHistogram, Stats};
use crate::producer::Producer;
use crate::router::gate::Gate;
use crate::router::lane::Stage;
use crate::slot::SetAside;
use crate::steward::StewardThreads;

pub(crate) use close::hand_back;
pub(crate) use open::{new_producer, open_slot};

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
    set_aside: Option<SetAside>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    shard: Hosted,
    steward: StewardThreads,
}

impl Engine {
    /// Opens the slot (recovering what it holds), starts the shard and, as `initial_connect_retry`
    /// says, waits for the first connection.
    ///
    /// Every error comes before a row was accepted: an unknown key ([`Error::Config`], before any
    /// file is touched), a held slot ([`Error::Locked`]), a machine that forbids io_uring
    /// ([`Error::Unsupported`]), a disk that fails ([`Error::Disk`]).
    pub fn connect(connect_string: &str) -> Result<Self, Error> {
        Self::start(Config::parse(connect_string)?, None)
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
        Self::start(Config::parse(connect_string)?, Some(tap))
    }

    /// A handle for one application thread, with a ring of `intake_ring_bytes` of its own.
    pub fn producer(&self) -> Result<Producer, Error> {
        if let Some(error) = self.gate.refusal() {
            return Err(error);
        }
        if self.gate.lanes() >= PRODUCERS_MAX {
            return Err(Error::Misuse(
                "an engine has at most 1,024 producers: drop some",
            ));
        }
        Ok(new_producer(&self.config, &self.gate))
    }

    /// A snapshot of the counters.
    pub fn stats(&self) -> Stats {
        self.gate.counters.stats()
    }

    /// The damaged slot that this start put aside, if there was one: its frames are not delivered,
    /// every byte of it is kept, and this engine began with an empty slot.
    pub fn set_aside(&self) -> Option<&SetAside> {
        self.set_aside.as_ref()
    }

    /// Why the last connection, attempt or spare segment failed; `None` if nothing has yet. What
    /// happened is over or being tried again: terminal errors come out of the calls themselves.
    pub fn last_failure(&self) -> Option<String> {
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

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
