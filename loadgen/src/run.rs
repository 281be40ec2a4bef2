//! `run`: generated quotes through the engine, as fast as it takes them or at a fixed rate.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay::{Engine, Producer};
use jiff::Timestamp;

use crate::confirm::{ConfirmLog, ConfirmStage};
use crate::cpu;
use crate::error::Error;
use crate::pace::{OpenLoop, wait_until};
use crate::pin::pin_current;
use crate::progress::{self, Goal};
use crate::publish::WholeBatches;
use crate::quotes::Quotes;
use crate::report::{Latencies, Report};
use crate::session::{Session, SessionOptions};
use crate::signals::StopFlag;

/// How much to send and how.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Rows in all.
    pub rows: u64,
    /// Rows in a batch, at least 1.
    pub batch_rows: u64,
    /// Rows a second in all; `None` is as fast as the engine takes them.
    pub rows_per_second: Option<f64>,
    /// Producers, each on a thread of its own, at least 1. They share the rows evenly.
    pub producers_count: u64,
    /// Whether every batch is flushed instead of published.
    pub flush_each: bool,
    /// Where to log confirmed batches, and from which stage on a batch is confirmed. One producer
    /// only: batches of several have no common order.
    pub confirm: Option<(PathBuf, ConfirmStage)>,
    /// Where to connect.
    pub session: SessionOptions,
}

impl RunOptions {
    fn check(&self) -> Result<(), Error> {
        if self.batch_rows == 0 {
            return Err(Error::config("--batch", "a batch holds at least 1 row"));
        }
        if self.producers_count == 0 {
            return Err(Error::config("--producers", "there is at least 1"));
        }
        if self
            .rows_per_second
            .is_some_and(|rate| !rate.is_finite() || rate <= 0.0)
        {
            return Err(Error::config(
                "--rate",
                "rows a second are a positive number",
            ));
        }
        if self.confirm.is_some() && (self.producers_count > 1 || self.flush_each) {
            let reason = "needs one producer that publishes: no --producers, no --each flush";
            return Err(Error::config("--confirm-log", reason));
        }
        Ok(())
    }

    /// First row and number of rows of producer `index`.
    fn share(&self, index: u64) -> (u64, u64) {
        let start = |index: u64| {
            let part = u128::from(self.rows) * u128::from(index) / u128::from(self.producers_count);
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        (start(index), start(index + 1) - start(index))
    }
}

/// Sends the rows and waits until all is acked.
///
/// # Errors
/// Everything but rows left unacked: the report tells those.
pub fn run(options: &RunOptions, stop: &StopFlag) -> Result<Report, Error> {
    options.check()?;
    let now_ns = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(0);
    let quotes = Quotes::new(now_ns);
    let mut confirm = match &options.confirm {
        Some((path, stage)) => Some(ConfirmLog::open(path, *stage)?),
        None => None,
    };
    let session = Session::open(&options.session)?;
    let started = Instant::now();
    let mut publish_time = Duration::ZERO;
    let sent = progress::watch(session.engine(), Goal::Rows(options.rows), || {
        let job = Job {
            options,
            quotes: &quotes,
            stop,
            started,
        };
        let sent = job.all_producers(session.engine(), &mut confirm)?;
        publish_time = started.elapsed();
        session.wait_acked(sent.rows, || {
            confirm.as_mut().map_or(Ok(()), ConfirmLog::poll)
        })?;
        Ok::<Sent, Error>(sent)
    })?;
    let total_time = started.elapsed();
    let [accept_to_written, accept_to_stable, accept_to_acked] = session.latencies();
    let report = Report {
        command: "run",
        rows_sent: sent.rows,
        batches_sent: sent.batches,
        batch_confirmed: confirm.as_ref().and_then(ConfirmLog::confirmed),
        stats: session.engine().stats(),
        publish_time,
        total_time,
        publish: sent.publish,
        flush: sent.flush,
        publish_service: sent.publish_service,
        flush_service: sent.flush_service,
        accept_to_written,
        accept_to_stable,
        accept_to_acked,
        cpu: session.cpu(sent.cpu_ns),
        sink: session.sink_totals(),
        stopped: stop.is_set(),
    };
    session.close()?;
    Ok(report)
}

#[derive(Debug, Default)]
struct Sent {
    rows: u64,
    batches: u64,
    publish: Latencies,
    flush: Latencies,
    publish_service: Latencies,
    flush_service: Latencies,
    cpu_ns: u64,
}

impl Sent {
    fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.batches += other.batches;
        self.publish.add(&other.publish);
        self.flush.add(&other.flush);
        self.publish_service.add(&other.publish_service);
        self.flush_service.add(&other.flush_service);
        self.cpu_ns += other.cpu_ns;
    }
}

/// What all producers share.
#[derive(Clone, Copy)]
struct Job<'a> {
    options: &'a RunOptions,
    quotes: &'a Quotes,
    stop: &'a StopFlag,
    started: Instant,
}

impl Job<'_> {
    fn all_producers(
        self,
        engine: &Engine,
        confirm: &mut Option<ConfirmLog>,
    ) -> Result<Sent, Error> {
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            // There is a log only where there is one producer: the first takes it.
            let mut confirm = confirm.as_mut();
            for index in 0..self.options.producers_count {
                let log = confirm.take();
                let named = std::thread::Builder::new().name(format!("producer-{index}"));
                let spawned = named.spawn_scoped(scope, move || self.produce(engine, index, log));
                threads.push(spawned.map_err(|error| {
                    Error::Internal(format!("no thread for producer {index}: {error}"))
                })?);
            }
            let mut all = Sent::default();
            for thread in threads {
                let ended = thread.join();
                let sent = ended
                    .unwrap_or_else(|_| Err(Error::Internal("a producer panicked".to_owned())))?;
                all.add(&sent);
            }
            Ok(all)
        })
    }

    /// The share of producer `index`, on its own thread.
    fn produce(
        self,
        engine: &Engine,
        index: u64,
        mut confirm: Option<&mut ConfirmLog>,
    ) -> Result<Sent, Error> {
        if let Some(core) = self.options.session.pin.filter(|_| index == 0) {
            pin_current(core)?;
        }
        let (first_row, rows) = self.options.share(index);
        #[expect(clippy::cast_precision_loss, reason = "a number of threads")]
        let producers = self.options.producers_count as f64;
        let pace = self
            .options
            .rows_per_second
            .map(|rate| OpenLoop::new(self.started, rate / producers));
        let mut producer = WholeBatches::new(engine.producer()?);
        let mut sent = Sent::default();
        while sent.rows < rows {
            let mut due_at = None;
            if let Some(pace) = pace {
                let due = pace.due(sent.rows);
                let idle = || confirm.as_mut().map_or(Ok(()), |log| log.poll());
                if !wait_until(due, self.stop, idle)? {
                    break;
                }
                due_at = Some(due);
            }
            if self.stop.is_set() {
                break;
            }
            let batch = self.options.batch_rows.min(rows - sent.rows);
            let rows_to = producer.get();
            for row in 0..batch {
                self.quotes.put(rows_to, first_row + sent.rows + row)?;
            }
            let last = sent.rows + batch == rows;
            if !self.send(&mut producer, &mut sent, last, due_at, &mut confirm)? {
                break;
            }
            sent.rows += batch;
        }
        sent.cpu_ns = cpu::thread_cpu_ns();
        Ok(sent)
    }

    /// Publishes or flushes what is buffered; false when a stop came first. Times count from
    /// `due`, the intended start, where there is one; those of the call alone are kept beside
    /// them. Nothing else is added for a stall: every batch that it delayed says so itself.
    fn send(
        self,
        producer: &mut WholeBatches,
        sent: &mut Sent,
        last: bool,
        due: Option<Instant>,
        confirm: &mut Option<&mut ConfirmLog>,
    ) -> Result<bool, Error> {
        let called = Instant::now();
        let from = due.unwrap_or(called);
        if self.options.flush_each {
            if producer.patiently(self.stop, Producer::flush)?.is_none() {
                return Ok(false);
            }
            let end = Instant::now();
            sent.flush.record(end - from);
            if due.is_some() {
                sent.flush_service.record(end - called);
            }
        } else {
            let Some(receipt) = producer.patiently(self.stop, Producer::publish)? else {
                return Ok(false);
            };
            let end = Instant::now();
            sent.publish.record(end - from);
            if due.is_some() {
                sent.publish_service.record(end - called);
            }
            if let Some(log) = confirm {
                log.push(sent.batches + 1, receipt);
                log.poll()?;
            } else if last {
                producer.patiently(self.stop, Producer::flush)?;
                sent.flush.record(from.elapsed());
            }
        }
        sent.batches += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::RunOptions;
    use crate::confirm::ConfirmStage;
    use crate::session::SessionOptions;

    fn options(rows: u64, producers_count: u64) -> RunOptions {
        RunOptions {
            rows,
            batch_rows: 100,
            rows_per_second: None,
            producers_count,
            flush_each: false,
            confirm: None,
            session: SessionOptions::default(),
        }
    }

    #[test]
    fn shares_are_even_and_leave_no_row_out() {
        let options = options(10, 3);
        let shares: Vec<_> = (0..3).map(|index| options.share(index)).collect();
        assert_eq!(shares, [(0, 3), (3, 3), (6, 4)]);
        assert_eq!(self::options(u64::MAX, 1).share(0), (0, u64::MAX));
    }

    #[test]
    fn options_that_cannot_be_met_are_refused_by_name() {
        let refused = |change: fn(&mut RunOptions), name: &str| {
            let mut options = options(10, 1);
            change(&mut options);
            let error = options.check().unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        };
        refused(|options| options.batch_rows = 0, "--batch");
        refused(|options| options.producers_count = 0, "--producers");
        refused(|options| options.rows_per_second = Some(0.0), "--rate");
        refused(
            |options| {
                options.producers_count = 2;
                options.confirm = Some(("log".into(), ConfirmStage::Acked));
            },
            "--confirm-log",
        );
    }
}
