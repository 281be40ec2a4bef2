//! One engine for the length of a command, with the embedded sink beside it where there is one.
//!
//! `replay` and `run` differ in where rows come from. What surrounds the rows is the same and is
//! here: open, wait for the last acknowledgements, take the figures, close.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay::{Engine, Latency};

use crate::conf::{self, Conf, Promise};
use crate::cpu;
use crate::embedded::Embedded;
use crate::error::Error;
use crate::report::{CpuUse, Latencies};
use crate::signals::StopFlag;
use crate::sink::Totals;

/// How long one wait for acknowledgements lasts before the confirm log is looked at again.
const WAIT_STEP: Duration = Duration::from_millis(20);
/// Names of the sink's threads start with this.
const SINK_THREADS: &str = "sink";

/// Where to connect and where to keep the slot.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Connect string; `None` starts an embedded sink and makes a temporary slot.
    pub conf: Option<String>,
    /// Where the temporary slot goes; the system's directory for temporary files by default.
    pub dir: Option<PathBuf>,
    /// Core of the embedded sink and of the first producer.
    pub pin: Option<usize>,
    /// Shards of the engine, where no connect string says it; 1 by default.
    pub shards: Option<u64>,
}

/// An open engine.
#[derive(Debug)]
pub struct Session {
    engine: Engine,
    close_timeout: Option<Duration>,
    connect_string: String,
    cpu_before_ns: u64,
    shard_before_ns: u64,
    sink_before_ns: u64,
    // Declared last: the server outlives the engine that talks to it.
    embedded: Option<Embedded>,
}

impl Session {
    /// Opens the engine, after the embedded sink where no connect string is given.
    ///
    /// # Errors
    /// [`Error::Engine`] for the connect string or the slot, [`Error::Sink`], [`Error::Config`]
    /// for the core.
    pub fn open(options: &SessionOptions) -> Result<Self, Error> {
        let cpu_before_ns = process_ns();
        let (conf, embedded) = if let Some(text) = &options.conf {
            (Conf::new(text), None)
        } else {
            let embedded = Embedded::start(options.dir.as_deref(), options.pin)?;
            let text = conf::embedded(embedded.addr(), embedded.sf_dir(), options.shards);
            (Conf::new(&text), Some(embedded))
        };
        let engine = Engine::connect(&conf.connect_string)?;
        Ok(Self {
            engine,
            close_timeout: conf.close_timeout,
            connect_string: conf.connect_string,
            cpu_before_ns,
            shard_before_ns: 0,
            sink_before_ns: 0,
            embedded,
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The connect string the engine was opened with, without its credentials.
    pub fn connect_string(&self) -> String {
        conf::without_secrets(&self.connect_string)
    }

    /// What is promised when a call returns.
    pub fn promise(&self) -> Promise {
        conf::promise(&self.connect_string)
    }

    /// CPU time of the shard's thread so far, nanoseconds.
    pub fn shard_cpu_ns(&self) -> Option<u64> {
        shards_ns(&cpu::threads())
    }

    /// Waits until `rows_sent` rows of this process, and all that was in the slot before, are
    /// acked, as long as `close_flush_timeout_millis` allows, and tells whether they are. `each`
    /// runs at least every 20 ms and once at the end.
    ///
    /// # Errors
    /// What the engine reports instead of an acknowledgement, or `each` returns.
    pub fn wait_acked(
        &self,
        rows_sent: u64,
        mut each: impl FnMut() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let deadline = self.close_timeout.map(|wait| Instant::now() + wait);
        let go_on = || deadline.is_some_and(|end| Instant::now() < end);
        let acked = self.wait(rows_sent, go_on, &mut each)?;
        each()?;
        Ok(acked)
    }

    /// Waits until nothing is left in the slot, without a time limit; false when a stop was asked
    /// for first.
    ///
    /// # Errors
    /// What the engine reports instead of an acknowledgement.
    pub fn drain(&self, stop: &StopFlag) -> Result<bool, Error> {
        self.wait(0, || !stop.is_set(), || Ok(()))
    }

    fn wait(
        &self,
        rows_sent: u64,
        go_on: impl Fn() -> bool,
        mut each: impl FnMut() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        loop {
            match self.engine.wait_acked(WAIT_STEP) {
                // The engine waits for what its shard has taken; rows may be on their way to it.
                Ok(()) if self.engine.stats().rows_acked >= rows_sent => return Ok(true),
                Ok(()) => std::thread::sleep(Duration::from_millis(1)),
                Err(forebay::Error::Timeout { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if !go_on() {
                return Ok(false);
            }
            each()?;
        }
    }

    /// The latencies that the engine measured: to written, to stable, to acked.
    pub fn latencies(&self) -> [Latencies; 3] {
        [
            Latency::AcceptToWritten,
            Latency::AcceptToStable,
            Latency::AcceptToAcked,
        ]
        .map(|which| Latencies::from_engine(&self.engine.histogram(which)))
    }

    /// What came after `before`.
    pub fn latencies_since(&self, before: &[Latencies; 3]) -> [Latencies; 3] {
        let mut now = self.latencies();
        for (now, before) in now.iter_mut().zip(before) {
            now.subtract(before);
        }
        now
    }

    /// Lets CPU time count from now on. No producer is at work.
    pub fn restart_clocks(&mut self) {
        let threads = cpu::threads();
        self.cpu_before_ns = threads.iter().map(|thread| thread.cpu_ns).sum();
        self.shard_before_ns = shards_ns(&threads).unwrap_or(0);
        self.sink_before_ns = cpu::sum_ns(&threads, SINK_THREADS).unwrap_or(0);
    }

    /// CPU time since the session was opened or the clocks were set back; `producer_ns` is what the producers, which have
    /// ended, used.
    pub fn cpu(&self, producer_ns: u64) -> CpuUse {
        let threads = cpu::threads();
        let living_ns: u64 = threads.iter().map(|thread| thread.cpu_ns).sum();
        let process_ns = (living_ns + producer_ns).saturating_sub(self.cpu_before_ns);
        CpuUse {
            process_ns: Some(process_ns),
            producer_ns: Some(producer_ns),
            shard_ns: shards_ns(&threads).map(|ns| ns.saturating_sub(self.shard_before_ns)),
            sink_ns: cpu::sum_ns(&threads, SINK_THREADS)
                .filter(|_| self.embedded.is_some())
                .map(|ns| ns.saturating_sub(self.sink_before_ns)),
        }
    }

    /// What the embedded sink counted, where there is one.
    pub fn sink_totals(&self) -> Option<Totals> {
        self.embedded.as_ref().map(Embedded::totals)
    }

    /// Closes the engine, then the embedded sink.
    ///
    /// # Errors
    /// The engine's. That frames are left unacked is not one: [`Session::wait_acked`] told.
    pub fn close(self) -> Result<(), Error> {
        match self.engine.close() {
            Ok(()) | Err(forebay::Error::NotDrained { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// CPU time of all shards.
fn shards_ns(threads: &[cpu::ThreadCpu]) -> Option<u64> {
    let mut shards = threads.iter().filter(|thread| thread.is_shard()).peekable();
    shards.peek()?;
    Some(shards.map(|thread| thread.cpu_ns).sum())
}

fn process_ns() -> u64 {
    cpu::threads().iter().map(|thread| thread.cpu_ns).sum()
}

#[cfg(test)]
mod tests {
    use super::shards_ns;
    use crate::cpu::ThreadCpu;

    #[test]
    fn all_shards_count_and_the_steward_does_not() {
        let thread = |name: &str, cpu_ns| ThreadCpu {
            tid: 1,
            name: name.to_owned(),
            cpu_ns,
        };
        let threads = [
            thread("forebay-s0", 5),
            thread("forebay-s1", 6),
            thread("forebay-stw", 100),
            thread("main", 7),
        ];
        assert_eq!(shards_ns(&threads), Some(11));
        assert_eq!(shards_ns(&threads[2..]), None);
    }
}
