//! `forebay-bench`: measurements that need a whole running engine.

use std::time::Duration;

use clap::{Parser, Subcommand};
use forebay_bench::turn::{TurnOptions, run};

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
    Turn {
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
    },
}

fn main() -> std::process::ExitCode {
    let Command::Turn {
        seconds,
        batch,
        percent,
        shard_core,
        load_core,
        p99_below_us,
    } = Cli::parse().command;
    let options = TurnOptions {
        length: Duration::from_secs(seconds),
        batch,
        percent,
        shard_core,
        load_core,
    };
    match run(&options) {
        Ok(report) => {
            print!("{report}");
            let limit = p99_below_us.map_or(u64::MAX, |micros| micros * 1000);
            if report.ok_wait.value_at_quantile(0.99) >= limit {
                eprintln!("forebay-bench: the p99 is not below the limit of {limit} ns");
                return std::process::ExitCode::FAILURE;
            }
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("forebay-bench: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
