//! `run`: generated quotes through the engine, as fast as it takes them or at a fixed rate.

mod produce;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::allocations;
use crate::confirm::{ConfirmLog, ConfirmStage};
use crate::error::Error;
use crate::feed::Way;
use crate::progress::{self, Goal};
use crate::quotes::{NAMES_COUNT, Quotes, ROWS_COUNT};
use crate::report::{Detail, Report};
use crate::series;
use crate::session::{Session, SessionOptions};
use crate::signals::StopFlag;
use crate::usage::Usage;
use produce::{Job, Sent};

/// How much to send and how.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Rows in all.
    pub rows: u64,
    /// Rows in a batch, at least 1.
    pub batch_rows: u64,
    /// How rows are given.
    pub way: Way,
    /// Tables, at least 1; batches go to them in turns.
    pub tables_count: u64,
    /// Distinct symbols, at least 1.
    pub symbols_count: usize,
    /// Rows before those, sent in the same way and left out of every figure.
    pub warm_rows: u64,
    /// Rows of a producer that are due at once, where there is a rate; 1 is steady.
    pub burst_rows: u64,
    /// How long to watch the idle engine at the end.
    pub idle: Duration,
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

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            rows: 10_000_000,
            batch_rows: 1_000,
            way: Way::Row,
            tables_count: 1,
            symbols_count: NAMES_COUNT,
            warm_rows: 0,
            burst_rows: 1,
            idle: Duration::ZERO,
            rows_per_second: None,
            producers_count: 1,
            flush_each: false,
            confirm: None,
            session: SessionOptions::default(),
        }
    }
}

impl RunOptions {
    fn check(&self) -> Result<(), Error> {
        if self.batch_rows == 0 {
            return Err(Error::config("--batch", "a batch holds at least 1 row"));
        }
        if self.way == Way::Chunk && self.batch_rows > ROWS_COUNT as u64 {
            let reason = format!("a chunk has at most {ROWS_COUNT} rows");
            return Err(Error::config("--batch", reason));
        }
        if self.tables_count == 0 || self.symbols_count == 0 {
            let reason = "there is at least 1 of --tables and --symbols";
            return Err(Error::config("--tables", reason));
        }
        if self.burst_rows > 1 && self.rows_per_second.is_none() {
            return Err(Error::config("--burst", "bursts need a --rate"));
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
}

/// Sends the rows and waits until all is acked.
///
/// # Errors
/// Everything but rows left unacked: the report tells those.
pub fn run(options: &RunOptions, stop: &StopFlag) -> Result<Report, Error> {
    options.check()?;
    let now_ns = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(0);
    let quotes = Quotes::with_names(now_ns, options.symbols_count);
    let mut confirm = match &options.confirm {
        Some((path, stage)) => Some(ConfirmLog::open(path, *stage)?),
        None => None,
    };
    let mut session = Session::open(&options.session)?;
    warm_up(options, &quotes, stop, &session)?;
    let shards = allocations::shard_threads();
    let before = session.engine().stats();
    let latencies_before = session.latencies();
    session.restart_clocks();
    let usage_before = Usage::now();
    let started = Instant::now();
    let mut publish_time = Duration::ZERO;
    let work = || {
        let job = Job {
            options,
            shards: &shards,
            quotes: &quotes,
            stop,
            started,
            first_row: options.warm_rows,
            rows: options.rows,
        };
        let sent = job.all_producers(session.engine(), &mut confirm)?;
        publish_time = started.elapsed();
        session.wait_acked(before.rows_acked + sent.rows, || {
            confirm.as_mut().map_or(Ok(()), ConfirmLog::poll)
        })?;
        Ok::<Sent, Error>(sent)
    };
    let (sent, samples) = series::watch(session.engine(), || {
        progress::watch(session.engine(), Goal::Rows(options.rows), work)
    });
    let (sent, total_time) = (sent?, started.elapsed());
    let [accept_to_written, accept_to_stable, accept_to_acked] =
        session.latencies_since(&latencies_before);
    let cpu = session.cpu(sent.cpu_ns);
    let usage = Usage::now().since(usage_before, sent.switches);
    let detail = Detail {
        before,
        usage: Some(usage),
        allocations: allocations::is_counting().then_some(sent.allocations),
        idle_cpu_percent: idle(&session, options.idle),
        samples,
        ..describe(options, &session)
    };
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
        cpu,
        sink: session.sink_totals(),
        stopped: stop.is_set(),
        detail,
    };
    session.close()?;
    Ok(report)
}

/// Sends the rows that do not count and waits until they are acked.
fn warm_up(
    options: &RunOptions,
    quotes: &Quotes,
    stop: &StopFlag,
    session: &Session,
) -> Result<(), Error> {
    if options.warm_rows == 0 {
        return Ok(());
    }
    let job = Job {
        options,
        shards: &[],
        quotes,
        stop,
        started: Instant::now(),
        first_row: 0,
        rows: options.warm_rows,
    };
    let sent = job.all_producers(session.engine(), &mut None)?;
    session.wait_acked(sent.rows, || Ok(())).map(|_| ())
}

/// Percent of a core that the shard used while nothing was sent.
fn idle(session: &Session, length: Duration) -> Option<f64> {
    if length.is_zero() {
        return None;
    }
    // What follows the last acknowledgement, trimming above all, is work and not idleness.
    std::thread::sleep(Duration::from_millis(200));
    let (start, before) = (Instant::now(), session.shard_cpu_ns()?);
    std::thread::sleep(length);
    let used = Duration::from_nanos(session.shard_cpu_ns()?.saturating_sub(before));
    Some(100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64())
}

/// What was run, in words.
fn describe(options: &RunOptions, session: &Session) -> Detail {
    let promise = session.promise();
    let pace = match (options.rows_per_second, options.burst_rows) {
        (None, _) => "closed loop".to_owned(),
        (Some(rate), 1) => format!("open loop, {rate} rows/s"),
        (Some(rate), burst) => format!("open loop, {rate} rows/s in bursts of {burst}"),
    };
    let call = if options.flush_each {
        format!("flush() to {}", promise.flush_stage)
    } else {
        format!("publish() to {}", promise.publish_stage)
    };
    let lines = [
        ("call", call.clone()),
        ("sf_durability", promise.durability.clone()),
        ("pace", pace.clone()),
        ("rows given as", options.way.name().to_owned()),
        ("rows a batch", options.batch_rows.to_string()),
        ("rows of the warm-up", options.warm_rows.to_string()),
        ("producers", options.producers_count.to_string()),
        ("tables", options.tables_count.to_string()),
        ("symbols", options.symbols_count.to_string()),
        ("connect string", session.connect_string()),
    ];
    Detail {
        title: format!(
            "{call}, sf_durability={}: {}, batches of {}, {pace}",
            promise.durability,
            options.way.name(),
            options.batch_rows
        ),
        configuration: lines.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        promise: Some(promise),
        ..Detail::default()
    }
}

#[cfg(test)]
mod tests {
    use super::RunOptions;
    use crate::confirm::ConfirmStage;
    use crate::feed::Way;

    #[test]
    fn options_that_cannot_be_met_are_refused_by_name() {
        let refused = |change: fn(&mut RunOptions), name: &str| {
            let mut options = RunOptions::default();
            change(&mut options);
            let error = options.check().unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        };
        refused(|options| options.batch_rows = 0, "--batch");
        refused(|options| options.producers_count = 0, "--producers");
        refused(|options| options.rows_per_second = Some(0.0), "--rate");
        refused(|options| options.tables_count = 0, "--tables");
        refused(|options| options.burst_rows = 10, "--burst");
        refused(
            |options| (options.way, options.batch_rows) = (Way::Chunk, 100_000),
            "--batch",
        );
        refused(
            |options| {
                options.producers_count = 2;
                options.confirm = Some(("log".into(), ConfirmStage::Acked));
            },
            "--confirm-log",
        );
    }
}
