//! What is asked of a contender, and driving it: as fast as it takes batches, or by the clock.

use std::convert::Infallible;
use std::error::Error;
use std::ops::Range;
use std::time::{Duration, Instant};

use forebay_loadgen::allocations;
use forebay_loadgen::cpu;
use forebay_loadgen::pace::{OpenLoop, wait_until};
use forebay_loadgen::signals::StopFlag;
use forebay_loadgen::usage::Usage;
use hdrhistogram::Histogram;

use super::disk::MARK;
use super::figures::Figures;
use crate::limits::figures::float;

/// Somebody who takes batches of generated quotes and delivers them.
pub(super) trait Contender {
    /// Builds the batch with the rows of these numbers.
    fn fill(&mut self, rows: Range<u64>) -> Result<(), Box<dyn Error>>;
    /// Hands it over, as far as it is safe against the death of the process, or published.
    fn hand_over(&mut self, rows: Range<u64>) -> Result<(), Box<dyn Error>>;
    /// Waits until the server has confirmed everything.
    fn wait_acked(&mut self, limit: Duration) -> Result<(), Box<dyn Error>>;
}

const ACK_LIMIT: Duration = Duration::from_mins(1);
/// Longest time a histogram tells apart.
const LONGEST_NS: u64 = 60_000_000_000;

/// How much, and how fast.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) batch: u64,
    pub(super) rows: u64,
    /// Rows before the clock starts, where there is no rate.
    pub(super) warm_rows: u64,
    /// Batches a second by intended start; as fast as they are taken if there is none.
    pub(super) rate: Option<f64>,
}

/// Times by batch, in nanoseconds.
struct Times {
    /// The call that hands over.
    call: Histogram<u64>,
    /// From the intended start, building included.
    response: Histogram<u64>,
}

/// Warms up, then measures.
pub(super) fn drive(contender: &mut dyn Contender, load: Load) -> Result<Figures, Box<dyn Error>> {
    let warm = match load.rate {
        Some(rate) => Load {
            rows: batches_of(rate, 0.3) * load.batch,
            ..load
        },
        None => Load {
            rows: load.warm_rows.next_multiple_of(load.batch),
            ..load
        },
    };
    let mut times = Times::new()?;
    send(contender, 0, warm, &mut times)?;
    contender.wait_acked(ACK_LIMIT)?;
    let mut times = Times::new()?;
    let threads = io_threads();
    if let Some(mark) = std::env::var_os(MARK) {
        std::fs::write(mark, "")?;
    }
    let before = (cpu::thread_cpu_ns(), all_cpu_ns(), Usage::now());
    let start = Instant::now();
    let sent = send_counted(contender, warm.rows, load, &mut times, &threads)?;
    let published = start.elapsed();
    let producer_ns = cpu::thread_cpu_ns() - before.0;
    contender.wait_acked(ACK_LIMIT)?;
    let acked = start.elapsed();
    let waiting_ns = cpu::thread_cpu_ns() - before.0 - producer_ns;
    let others_ns = all_cpu_ns().saturating_sub(before.1 + producer_ns + waiting_ns);
    let usage = Usage::now();

    let rows = float(sent.rows);
    let mut figures = Figures::default();
    figures.set("rows_s", rows / acked.as_secs_f64());
    figures.set("published_rows_s", rows / published.as_secs_f64());
    figures.set("producer_ns_row", float(producer_ns) / rows);
    figures.set("io_ns_row", float(others_ns) / rows);
    let whole = float(producer_ns + others_ns) / rows;
    figures.set("whole_ns_row", whole);
    // Without idle turns, where somebody counts them.
    figures.set("busy_whole_ns_row", whole);
    figures.set("seconds", acked.as_secs_f64());
    figures.set("peak_mib", float(usage.peak_rss_kib) / 1024.0);
    let written = usage
        .disk_write_bytes
        .saturating_sub(before.2.disk_write_bytes);
    figures.set("disk_bytes_row", float(written) / rows);
    let switches = usage.switches.since(before.2.switches);
    let switches = float(switches.voluntary + switches.involuntary);
    figures.set("switches_batch", switches * float(load.batch) / rows);
    figures.set("producer_allocs_frame", sent.producer_allocations);
    figures.set("io_allocs_frame", sent.io_allocations);
    times.tell(&mut figures);
    Ok(figures)
}

/// What was sent, and what both sides asked for meanwhile, by frame.
struct Sent {
    rows: u64,
    producer_allocations: f64,
    io_allocations: f64,
}

/// Sends the load. Buffers still grow in the first tenth: allocations are counted after it, but for
/// a schedule, which is one piece.
fn send_counted(
    contender: &mut dyn Contender,
    first: u64,
    load: Load,
    times: &mut Times,
    io: &[u32],
) -> Result<Sent, Box<dyn Error>> {
    let tenth = Load {
        rows: match load.rate {
            None => (load.rows / 10).next_multiple_of(load.batch),
            Some(_) => 0,
        },
        ..load
    };
    let rest = Load {
        rows: load.rows.saturating_sub(tenth.rows),
        ..load
    };
    let grown = send(contender, first, tenth, times)?;
    let before = (allocations::own(), allocations::of(io));
    let steady = send(contender, first + grown, rest, times)?;
    let frames = float(steady.div_ceil(load.batch).max(1));
    Ok(Sent {
        rows: grown + steady,
        producer_allocations: float(allocations::own() - before.0) / frames,
        io_allocations: float(allocations::of(io) - before.1) / frames,
    })
}

/// The threads that do the I/O: the shards, or everybody but the caller.
fn io_threads() -> Vec<u32> {
    let shards = allocations::shard_threads();
    if !shards.is_empty() {
        return shards;
    }
    // The first thread of a process has its id; it is the one that drives.
    let own = std::process::id();
    let others = cpu::threads()
        .into_iter()
        .filter(|thread| thread.tid != own);
    others.map(|thread| thread.tid).collect()
}

/// Sends the load from row number `first` on; answers the rows.
fn send(
    contender: &mut dyn Contender,
    first: u64,
    load: Load,
    times: &mut Times,
) -> Result<u64, Box<dyn Error>> {
    let stop = StopFlag::new();
    let pace = load
        .rate
        .map(|rate| OpenLoop::new(Instant::now(), rate * float(load.batch)));
    let mut sent = 0;
    while sent < load.rows {
        let due = pace.map(|pace| pace.due(sent));
        if let Some(due) = due {
            let Ok(_) = wait_until(due, &stop, || Ok::<(), Infallible>(()));
        }
        let begun = due.unwrap_or_else(Instant::now);
        let rows = first + sent..first + sent + load.batch;
        contender.fill(rows.clone())?;
        let called = Instant::now();
        contender.hand_over(rows)?;
        let end = Instant::now();
        times.call.saturating_record(nanos(end - called));
        times.response.saturating_record(nanos(end - begun));
        sent += load.batch;
    }
    Ok(sent)
}

impl Times {
    fn new() -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self {
            call: Histogram::new_with_bounds(1, LONGEST_NS, 3)?,
            response: Histogram::new_with_bounds(1, LONGEST_NS, 3)?,
        })
    }

    /// In microseconds.
    fn tell(&self, figures: &mut Figures) {
        for (times, name) in [(&self.call, "flush"), (&self.response, "response")] {
            for (share, quantile) in [
                (0.5, "p50"),
                (0.99, "p99"),
                (0.999, "p999"),
                (0.9999, "p9999"),
            ] {
                let value = float(times.value_at_quantile(share)) / 1e3;
                figures.set(&format!("{name}_{quantile}_us"), value);
            }
            figures.set(&format!("{name}_max_us"), float(times.max()) / 1e3);
        }
    }
}

/// How many rows these are.
pub(super) fn count(rows: &Range<u64>) -> u64 {
    rows.end - rows.start
}

/// How many batches come in so many seconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
fn batches_of(rate: f64, seconds: f64) -> u64 {
    (rate * seconds).ceil() as u64
}

fn all_cpu_ns() -> u64 {
    cpu::threads().iter().map(|thread| thread.cpu_ns).sum()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}
