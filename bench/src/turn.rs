//! `forebay-bench turn`: the executor decision, measured (design.md section 4).
//!
//! The shard sits on one core, the producer and the server share the other. First the knee is
//! found (as fast as the ring takes), then batches go in open loop at a share of it. An OK's wait
//! runs from the server's write to the shard's read: what the shard's turn, its executor and the
//! intake make it wait.

use std::fmt;
use std::time::{Duration, Instant};

use clap::Args;
use forebay::{Engine, Latency, LatencyHistogram, Stats};
use forebay_loadgen::quotes::Quotes;
use hdrhistogram::Histogram;

use crate::ok_probe::OkProbe;

/// Length of the search for the knee.
const KNEE_LENGTH: Duration = Duration::from_secs(4);
const FIRST_NANOS: i64 = 1_700_000_000_000_000_000;

/// Options of `forebay-bench turn`.
#[derive(Debug, Clone, Args)]
pub struct TurnOptions {
    /// Length of the measurement.
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Rows of a batch.
    #[arg(long, default_value_t = 1000)]
    pub batch: u64,
    /// Percent of the knee to run at.
    #[arg(long, default_value_t = 70)]
    pub percent: u64,
    /// Core of the shard.
    #[arg(long, default_value_t = 1)]
    pub shard_core: usize,
    /// Core of the producer and the sink.
    #[arg(long, default_value_t = 0)]
    pub load_core: usize,
    /// Exit with 1 if the p99 reaches this many microseconds.
    #[arg(long)]
    pub p99_below_us: Option<u64>,
}

/// What was measured.
#[derive(Debug)]
pub struct TurnReport {
    options: TurnOptions,
    knee_rows_per_second: u64,
    sent_rows: u64,
    elapsed: Duration,
    /// Nanoseconds from the server's write of an OK to the shard's read.
    pub ok_wait: Histogram<u64>,
    accept_to_acked: LatencyHistogram,
    stats: Stats,
}

impl TurnReport {
    /// Whether the p99 is as it was asked for.
    pub fn holds(&self) -> bool {
        let p99 = self.ok_wait.value_at_quantile(0.99);
        let limit = self.options.p99_below_us;
        limit.is_none_or(|micros| p99 < micros * 1000)
    }
}

/// Runs the measurement.
pub fn run(options: &TurnOptions) -> Result<TurnReport, Box<dyn std::error::Error>> {
    core_affinity::set_for_current(core_affinity::CoreId {
        id: options.load_core,
    });
    let quotes = Quotes::new(FIRST_NANOS);
    let knee = {
        let (engine, _probe, _dir) = start(options)?;
        let rows = drive(&engine, &quotes, options.batch, KNEE_LENGTH, None)?;
        engine.close()?;
        rows * 1000 / u64::try_from(KNEE_LENGTH.as_millis())?
    };
    let rate = knee * options.percent / 100;
    let (engine, probe, _dir) = start(options)?;
    drive(
        &engine,
        &quotes,
        options.batch,
        Duration::from_secs(1),
        Some(rate),
    )?;
    probe.take();
    let began = Instant::now();
    let length = Duration::from_secs(options.seconds);
    let sent_rows = drive(&engine, &quotes, options.batch, length, Some(rate))?;
    let elapsed = began.elapsed();
    let ok_wait = probe.take();
    let accept_to_acked = engine.histogram(Latency::AcceptToAcked);
    let stats = engine.stats();
    engine.close()?;
    Ok(TurnReport {
        options: options.clone(),
        knee_rows_per_second: knee,
        sent_rows,
        elapsed,
        ok_wait,
        accept_to_acked,
        stats,
    })
}

fn start(
    options: &TurnOptions,
) -> Result<(Engine, OkProbe, tempfile::TempDir), Box<dyn std::error::Error>> {
    let probe = OkProbe::start(options.load_core)?;
    let dir = tempfile::tempdir()?;
    let connect = format!(
        "ws::addr={};sf_dir={};sf_max_segment_bytes=64m;cores={};initial_connect_retry=async;\
         close_flush_timeout_millis=60000;",
        probe.address(),
        dir.path().display(),
        options.shard_core
    );
    let engine = Engine::connect_tapped(&connect, probe.tap())?;
    Ok((engine, probe, dir))
}

/// Publishes batches for `length`: at `rate` rows per second by intended start, or as fast as the
/// ring takes. Returns the rows.
fn drive(
    engine: &Engine,
    quotes: &Quotes,
    batch: u64,
    length: Duration,
    rate: Option<u64>,
) -> Result<u64, forebay::Error> {
    let mut producer = engine.producer()?;
    let start = Instant::now();
    let mut rows = 0;
    while start.elapsed() < length {
        if let Some(rate) = rate {
            let due = Duration::from_nanos(rows * 1_000_000_000 / rate.max(1));
            if let Some(early) = due.checked_sub(start.elapsed()) {
                std::thread::sleep(early);
            }
        }
        for number in rows..rows + batch {
            quotes.put(&mut producer, number)?;
        }
        producer.publish()?;
        rows += batch;
    }
    engine.wait_acked(Duration::from_mins(1))?;
    Ok(rows)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
impl fmt::Display for TurnReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let seconds = self.elapsed.as_secs_f64();
        writeln!(
            f,
            "shard on core {}, producer and server on core {}, {} rows a batch, sf_durability=memory",
            self.options.shard_core, self.options.load_core, self.options.batch
        )?;
        writeln!(
            f,
            "knee: {} rows/s (as fast as the ring takes)",
            self.knee_rows_per_second
        )?;
        writeln!(
            f,
            "load: {:.0} rows/s for {seconds:.1} s ({} % of the knee)",
            self.sent_rows as f64 / seconds,
            self.options.percent
        )?;
        let q = |q: f64| micros(self.ok_wait.value_at_quantile(q));
        writeln!(
            f,
            "OK latency (server's write to shard's read), {} OKs: p50 {:.1} us, p99 {:.1} us, \
             p99.9 {:.1} us, max {:.1} us",
            self.ok_wait.len(),
            q(0.5),
            q(0.99),
            q(0.999),
            micros(self.ok_wait.max())
        )?;
        let a = |q: f64| micros(self.accept_to_acked.quantile(q));
        writeln!(
            f,
            "accepted to acked: p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us",
            a(0.5),
            a(0.99),
            a(0.999)
        )?;
        writeln!(
            f,
            "turns {}, parks {}, commits {}, OKs {}",
            self.stats.turns, self.stats.parks, self.stats.commits, self.stats.oks_received
        )
    }
}
