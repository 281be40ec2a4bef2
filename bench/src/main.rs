//! `forebay-bench`: measurements that need a whole running engine.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use forebay_bench::limits::durable::{self, DurableOptions};
use forebay_bench::limits::handoff::{self, HandoffOptions};
use forebay_bench::limits::machine::{self, MachineOptions};
use forebay_bench::limits::recovery::{self, RecoveryOptions};
use forebay_bench::turn::{self, TurnOptions};
use forebay_bench::versus::rings::RingsOptions;
use forebay_bench::versus::{self, Job, OnDisk, VersusOptions};
use forebay_loadgen::allocations::Counting;

/// Measurements tell what each side asks for; a count is an increment on a line of the thread's
/// own.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Debug, Parser)]
#[command(
    version,
    about = "Measurements of Forebay that need a whole running engine"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// How long an OK waits in the socket while a producer keeps the shard's intake busy.
    Turn(Turn),
    /// What the machine can do, beside what the engine does with it.
    #[command(subcommand)]
    Limits(Limits),
    /// The same work by the official client and by other logs, by turns: ratios and targets.
    Versus(Versus),
    /// What `intake_ring_bytes` buys and costs.
    Rings(RingsOptions),
    /// One measurement of `versus`; prints JSON.
    #[command(hide = true)]
    VersusChild(Job),
    /// The same on a disk of its own.
    #[command(hide = true)]
    VersusDisk(OnDisk),
    /// The server of one.
    #[command(hide = true)]
    VersusSink { ok_every: u64, core: Option<usize> },
}

#[derive(Debug, Args)]
struct Versus {
    /// Alternations; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only bouts whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Rows of a throughput measurement; chunks take 10/3 as many.
    #[arg(long, default_value_t = 6_000_000)]
    rows: u64,
    /// Length of a latency measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Shards of our engine in the bout of 8 producers.
    #[arg(long, default_value_t = 1)]
    shards: u64,
    /// One short round, for trying: a tenth of the rows and of the time, figures for nobody.
    #[arg(long, conflicts_with_all = ["rounds", "rows", "seconds"])]
    quick: bool,
    /// Where slots go (must be on a disk) instead of here.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Write the lines to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Exit with 1 if a target is missed.
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Args)]
struct Turn {
    /// Length of the measurement.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Rows of a batch.
    #[arg(long, default_value_t = 1000)]
    batch: u64,
    /// Percent of the knee to run at.
    #[arg(long, default_value_t = 70)]
    percent: u64,
    /// Core of the shard.
    #[arg(long, default_value_t = 1)]
    shard_core: usize,
    /// Core of the producer and the sink.
    #[arg(long, default_value_t = 0)]
    load_core: usize,
    /// Exit with 1 if the p99 reaches this many microseconds.
    #[arg(long)]
    p99_below_us: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum Limits {
    /// Opening a slot with a backlog: our scan, a direct read of the same files, the official
    /// client opening its own slot.
    Recovery(Recovery),
    /// Commits with and without fdatasync, beside loops that only write: latency and throughput.
    Durable(Strict<DurableOptions>),
    /// What disk, loopback and cores do without any engine.
    Machine(MachineOptions),
    /// A producer's part of handing over a batch, and two producers beside one.
    Handoff(Strict<HandoffOptions>),
    /// One measurement of `recovery`; prints nanoseconds, those of the scan, bytes, peak KiB.
    #[command(hide = true)]
    RecoveryChild {
        what: String,
        dir: PathBuf,
        bytes: u64,
        segment_bytes: u64,
    },
}

#[derive(Debug, Args)]
struct Recovery {
    /// Backlog in MB.
    #[arg(long, default_value_t = 600)]
    mb: u64,
    /// Frames of one short row instead of 1 to 32 KiB.
    #[arg(long)]
    one_row: bool,
    /// KiB of a segment file.
    #[arg(long, default_value_t = 4096)]
    segment_kib: u64,
    /// Alternations; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Leave the official client out.
    #[arg(long)]
    ours_only: bool,
    /// Also drain the backlog at the end.
    #[arg(long)]
    drain: bool,
    /// Where the slots go (must be on a disk) instead of here.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Exit with 1 if the cold scan is below this share of the raw read.
    #[arg(long)]
    percent_at_least: Option<u64>,
    /// Exit with 1 if an opening of ours takes this many MiB of memory.
    #[arg(long)]
    peak_mib_below: Option<u64>,
    /// Write the rows to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Options of a measurement that has targets.
#[derive(Debug, Args)]
struct Strict<T: Args> {
    #[command(flatten)]
    options: T,
    /// Exit with 1 if a target is missed.
    #[arg(long)]
    strict: bool,
}

fn main() -> std::process::ExitCode {
    let outcome = match Cli::parse().command {
        Command::Turn(options) => turn(&options),
        Command::Versus(options) => versus(options),
        Command::Rings(options) => {
            versus::rings::run(&options).map(|said| told((said, true), false))
        }
        Command::VersusChild(job) => job.run().map(|line| {
            println!("{line}");
            true
        }),
        Command::VersusDisk(on_disk) => on_disk.run().map(|line| {
            println!("{line}");
            true
        }),
        Command::VersusSink { ok_every, core } => versus::serve(ok_every, core).map(|()| true),
        Command::Limits(Limits::Recovery(options)) => recovery(options),
        Command::Limits(Limits::Durable(Strict { options, strict })) => {
            durable::run(&options).map(|outcome| told(outcome, strict))
        }
        Command::Limits(Limits::Machine(options)) => {
            machine::run(&options).map(|said| told((said, true), false))
        }
        Command::Limits(Limits::Handoff(Strict { options, strict })) => {
            handoff::run(&options).map(|outcome| told(outcome, strict))
        }
        Command::Limits(Limits::RecoveryChild {
            what,
            dir,
            bytes,
            segment_bytes,
        }) => recovery::run_child(&what, &dir, bytes, segment_bytes).map(|line| {
            println!("{line}");
            true
        }),
    };
    match outcome {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(error) => {
            eprintln!("forebay-bench: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// Whether the limits held.
fn turn(options: &Turn) -> Result<bool, Box<dyn Error>> {
    let report = turn::run(&TurnOptions {
        length: Duration::from_secs(options.seconds),
        batch: options.batch,
        percent: options.percent,
        shard_core: options.shard_core,
        load_core: options.load_core,
    })?;
    print!("{report}");
    let limit = options
        .p99_below_us
        .map_or(u64::MAX, |micros| micros * 1000);
    let holds = report.ok_wait.value_at_quantile(0.99) < limit;
    if !holds {
        eprintln!("forebay-bench: the p99 is not below the limit of {limit} ns");
    }
    Ok(holds)
}

/// Whether the limits held.
fn recovery(options: Recovery) -> Result<bool, Box<dyn Error>> {
    let (said, holds) = recovery::run(&RecoveryOptions {
        mb: options.mb,
        one_row: options.one_row,
        segment_bytes: options.segment_kib * 1024,
        rounds: options.rounds,
        ours_only: options.ours_only,
        drain: options.drain,
        dir: options.dir,
        percent_at_least: options.percent_at_least,
        peak_mib_below: options.peak_mib_below,
        json: options.json,
    })?;
    print!("{said}");
    if !holds {
        eprintln!("forebay-bench: a limit does not hold");
    }
    Ok(holds)
}

/// Whether the targets were met, if that is asked.
fn versus(options: Versus) -> Result<bool, Box<dyn Error>> {
    let (rounds, rows, seconds) = if options.quick {
        (1, options.rows / 10, options.seconds / 5.0)
    } else {
        (options.rounds, options.rows, options.seconds)
    };
    let (said, met) = versus::run(&VersusOptions {
        rounds,
        only: options.only,
        rows,
        seconds,
        shards: options.shards,
        quick: options.quick,
        dir: options.dir,
        json: options.json,
    })?;
    Ok(told((said, met), options.strict))
}

/// Prints what was found; whether the targets were met, if that is asked.
fn told((said, met): (String, bool), strict: bool) -> bool {
    print!("{said}");
    met || !strict
}
