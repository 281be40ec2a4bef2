//! `replay`: rows of a CSV file through the engine, in batches whose numbers mean something.
//!
//! Batch n holds the rows (n-1)*B+1 to n*B of the file, whatever was sent before and however fast,
//! so a confirm log of one process tells the next where to go on. A batch is read, parsed and, by
//! the data's clock, waited for as a whole; only then does it enter the producer. A stop or a bad
//! row therefore never leaves half a batch behind.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay::{Producer, TimestampMicros, TimestampNanos};
use jiff::Timestamp;

use crate::confirm::{ConfirmLog, ConfirmStage, last_confirmed};
use crate::cpu;
use crate::csv_source::{CsvOptions, CsvSource, Row, Schema, Value};
use crate::error::Error;
use crate::pace::{DataClock, Speed, wait_until};
use crate::pin::pin_current;
use crate::progress::{self, Goal};
use crate::publish::WholeBatches;
use crate::report::{Detail, Latencies, Report};
use crate::session::{Session, SessionOptions};
use crate::signals::StopFlag;

/// What to replay and how.
#[derive(Debug, Clone)]
pub struct ReplayOptions {
    /// The file.
    pub csv: CsvOptions,
    /// Table the rows go to.
    pub table: String,
    /// How fast.
    pub speed: Speed,
    /// Whether all timestamps are shifted so that the first row sent is stamped now.
    pub rebase_now: bool,
    /// Rows in a batch, at least 1.
    pub batch_rows: u64,
    /// Confirm log of an earlier process: start after its last batch.
    pub resume: Option<PathBuf>,
    /// Where to log confirmed batches, and from which stage on a batch is confirmed.
    pub confirm: Option<(PathBuf, ConfirmStage)>,
    /// Where to connect.
    pub session: SessionOptions,
}

/// Replays the file and waits until all is acked.
///
/// # Errors
/// Everything but rows left unacked: the report tells those.
pub fn replay(options: &ReplayOptions, stop: &StopFlag) -> Result<Report, Error> {
    if options.batch_rows == 0 {
        return Err(Error::config("--batch", "a batch holds at least 1 row"));
    }
    let mut source = CsvSource::open(&options.csv)?;
    let last = options.resume.as_deref().map_or(Ok(0), last_confirmed)?;
    let skipped = source.skip(last.saturating_mul(options.batch_rows))?;
    let confirm = match &options.confirm {
        Some((path, stage)) => Some(ConfirmLog::open(path, *stage)?),
        None => None,
    };
    let rows_total = source.rows_total() - skipped;
    let session = Session::open(&options.session)?;
    let started = Instant::now();
    let mut feed = Feed {
        options,
        stop,
        producer: WholeBatches::new(session.engine().producer()?),
        confirm,
        batch: Vec::new(),
        clock: None,
        shift_ns: 0,
        number: last,
        sent: Sent::default(),
    };
    progress::watch(session.engine(), Goal::Rows(rows_total), || {
        feed.on_its_own_thread(&mut source)?;
        feed.sent.publish_time = started.elapsed();
        let (rows, confirm) = (feed.sent.rows, &mut feed.confirm);
        session.wait_acked(rows, || confirm.as_mut().map_or(Ok(()), ConfirmLog::poll))
    })?;
    let [accept_to_written, accept_to_stable, accept_to_acked] = session.latencies();
    let report = Report {
        command: "replay",
        rows_sent: feed.sent.rows,
        batches_sent: feed.sent.batches,
        batch_confirmed: feed.confirm.as_ref().and_then(ConfirmLog::confirmed),
        stats: session.engine().stats(),
        publish_time: feed.sent.publish_time,
        total_time: started.elapsed(),
        publish: feed.sent.publish.clone(),
        flush: Latencies::default(),
        publish_service: feed.sent.publish_service.clone(),
        flush_service: Latencies::default(),
        accept_to_written,
        accept_to_stable,
        accept_to_acked,
        cpu: session.cpu(feed.sent.cpu_ns),
        sink: session.sink_totals(),
        stopped: stop.is_set(),
        detail: Detail::of(&session),
    };
    drop(feed);
    session.close()?;
    Ok(report)
}

/// Opens the slot, waits until all in it is acked, closes; returns the frames left unacked.
///
/// # Errors
/// The engine's.
pub fn drain(options: &SessionOptions, stop: &StopFlag) -> Result<u64, Error> {
    let session = Session::open(options)?;
    let backlog = Goal::Backlog(session.engine().stats().unacked_frames);
    progress::watch(session.engine(), backlog, || session.drain(stop))?;
    let left = session.engine().stats().unacked_frames;
    session.close()?;
    Ok(left)
}

#[derive(Debug, Default)]
struct Sent {
    rows: u64,
    batches: u64,
    publish: Latencies,
    publish_service: Latencies,
    publish_time: Duration,
    cpu_ns: u64,
}

/// The way of the rows from the file into the engine.
struct Feed<'a> {
    options: &'a ReplayOptions,
    stop: &'a StopFlag,
    producer: WholeBatches,
    confirm: Option<ConfirmLog>,
    /// Rows of the batch under construction; kept between batches for their buffers.
    batch: Vec<Row>,
    /// Set by the first row: it is due at once, or now.
    clock: Option<DataClock>,
    shift_ns: i64,
    number: u64,
    sent: Sent,
}

impl Feed<'_> {
    /// Sends all rows from a thread that may be pinned while the engine's threads are not.
    fn on_its_own_thread(&mut self, source: &mut CsvSource) -> Result<(), Error> {
        std::thread::scope(|scope| {
            let named = std::thread::Builder::new().name("producer-0".to_owned());
            let spawned = named.spawn_scoped(scope, || {
                self.options.session.pin.map_or(Ok(()), pin_current)?;
                self.send_all(source)?;
                self.sent.cpu_ns = cpu::thread_cpu_ns();
                Ok(())
            });
            let thread = spawned
                .map_err(|error| Error::Internal(format!("no thread for the producer: {error}")))?;
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(Error::Internal("the producer panicked".to_owned())))
        })
    }

    fn send_all(&mut self, source: &mut CsvSource) -> Result<(), Error> {
        while !self.stop.is_set() {
            let rows = self.read_batch(source)?;
            if rows == 0 {
                break;
            }
            let Some(due) = self.wait_for(rows, source.schema())? else {
                break;
            };
            self.number += 1;
            for index in 0..rows {
                self.put(index, source)?;
            }
            let called = Instant::now();
            let sent = self.producer.patiently(self.stop, Producer::publish)?;
            let Some(receipt) = sent else { break };
            let end = Instant::now();
            if self.options.speed == Speed::Max {
                self.sent.publish.record(end - called);
            } else {
                self.sent.publish.record(end - due);
                self.sent.publish_service.record(end - called);
            }
            self.sent.rows += rows as u64;
            self.sent.batches += 1;
            if let Some(confirm) = &mut self.confirm {
                confirm.push(self.number, receipt);
                confirm.poll()?;
            }
        }
        Ok(())
    }

    /// Reads the rows of the next batch; fewer at the end of the file, 0 behind it.
    fn read_batch(&mut self, source: &mut CsvSource) -> Result<usize, Error> {
        let wanted = usize::try_from(self.options.batch_rows).unwrap_or(usize::MAX);
        let mut rows = 0;
        while rows < wanted {
            if rows == self.batch.len() {
                self.batch.push(Row::default());
            }
            if !source.read(&mut self.batch[rows])? {
                break;
            }
            rows += 1;
        }
        Ok(rows)
    }

    /// Waits until the last row of the batch is due and says when that was; `None` when a stop
    /// came first.
    fn wait_for(&mut self, rows: usize, schema: &Schema) -> Result<Option<Instant>, Error> {
        let first_ns = nanos(&self.batch[0], schema);
        let clock = *self.clock.get_or_insert_with(|| {
            if self.options.rebase_now {
                let now_ns = i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX);
                self.shift_ns = now_ns.saturating_sub(first_ns);
            }
            let factor = match self.options.speed {
                Speed::Max => f64::INFINITY,
                Speed::Times(factor) => factor,
            };
            DataClock::new(Instant::now(), first_ns, factor)
        });
        let due = clock.due(nanos(&self.batch[rows - 1], schema));
        let confirm = &mut self.confirm;
        let reached = wait_until(due, self.stop, || {
            confirm.as_mut().map_or(Ok(()), ConfirmLog::poll)
        })?;
        Ok(reached.then_some(due))
    }

    /// Adds one row of the batch to the producer.
    fn put(&mut self, index: usize, source: &CsvSource) -> Result<(), Error> {
        let (row, schema) = (&self.batch[index], source.schema());
        let put = put_row(
            self.producer.get(),
            &self.options.table,
            row,
            schema,
            self.shift_ns,
        );
        put.map_err(|error| match error {
            forebay::Error::Row { column, reason, .. } => Error::Csv {
                path: self.options.csv.path.clone(),
                line: row.line(),
                column,
                reason,
            },
            other => other.into(),
        })
    }
}

fn put_row(
    producer: &mut Producer,
    table: &str,
    row: &Row,
    schema: &Schema,
    shift_ns: i64,
) -> Result<(), forebay::Error> {
    producer.table(table)?;
    for &index in &schema.send_order {
        let name = schema.columns[index].name.as_str();
        match row.value(index) {
            Value::Null => continue,
            Value::Symbol => producer.symbol(name, row.text(index))?,
            Value::Text => producer.column_str(name, row.text(index))?,
            Value::Bool(value) => producer.column_bool(name, value)?,
            Value::I8(value) => producer.column_i8(name, value)?,
            Value::I16(value) => producer.column_i16(name, value)?,
            Value::I32(value) => producer.column_i32(name, value)?,
            Value::I64(value) => producer.column_i64(name, value)?,
            Value::F32(value) => producer.column_f32(name, value)?,
            Value::F64(value) => producer.column_f64(name, value)?,
            Value::Char(unit) => producer.column_char(name, unit)?,
            Value::Date(millis) => producer.column_date(name, millis)?,
            Value::Micros(micros) => producer.column_ts_micros(name, micros)?,
            Value::Nanos(nanos) => producer.column_ts_nanos(name, nanos)?,
            Value::Uuid(hi, lo) => producer.column_uuid(name, hi, lo)?,
            Value::Ipv4(address) => producer.column_ipv4(name, address)?,
        };
    }
    match row.value(schema.timestamp) {
        Value::Nanos(nanos) => producer.at(TimestampNanos(nanos.saturating_add(shift_ns))),
        Value::Micros(micros) => {
            producer.at(TimestampMicros(micros.saturating_add(shift_ns / 1_000)))
        }
        _ => Err(forebay::Error::Misuse(
            "a row without its designated timestamp",
        )),
    }
}

/// The row's designated timestamp in nanoseconds since the epoch.
fn nanos(row: &Row, schema: &Schema) -> i64 {
    match row.value(schema.timestamp) {
        Value::Nanos(nanos) => nanos,
        Value::Micros(micros) => micros.saturating_mul(1_000),
        _ => 0,
    }
}
