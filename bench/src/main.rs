//! `forebay-bench`: measurements that need a whole running engine.

use std::error::Error;
use std::path::PathBuf;

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
    Turn(TurnOptions),
    /// What the machine can do, beside what the engine does with it.
    #[command(subcommand)]
    Limits(Limits),
    /// The same work by the official client and by other logs, by turns: ratios and targets.
    Versus(Strict<VersusOptions>),
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

#[derive(Debug, Subcommand)]
enum Limits {
    /// Opening a slot with a backlog: our scan, a direct read of the same files, the official
    /// client opening its own slot.
    Recovery(RecoveryOptions),
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
        Command::Versus(Strict { options, strict }) => {
            versus::run(&options).map(|outcome| told(outcome, strict))
        }
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
        Command::Limits(Limits::Recovery(options)) => recovery(&options),
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
fn turn(options: &TurnOptions) -> Result<bool, Box<dyn Error>> {
    let report = turn::run(options)?;
    print!("{report}");
    if !report.holds() {
        eprintln!("forebay-bench: the p99 is not below the limit");
    }
    Ok(report.holds())
}

/// Whether the limits held.
fn recovery(options: &RecoveryOptions) -> Result<bool, Box<dyn Error>> {
    let (said, holds) = recovery::run(options)?;
    print!("{said}");
    if !holds {
        eprintln!("forebay-bench: a limit does not hold");
    }
    Ok(holds)
}

/// Prints what was found; whether the targets were met, if that is asked.
fn told((said, met): (String, bool), strict: bool) -> bool {
    print!("{said}");
    met || !strict
}
