//! The commands of `forebay-loadgen`, one file each: options, and the call into the library.
//!
//! The command line is part of the library, so that the tests of the workspace can have a binary
//! of their own that is the same program.

mod client;
mod merge;
mod replay;
mod run;
mod sink;
mod soak;
mod sweep;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::signals::StopFlag;

/// Load for Forebay and a server to take it.
#[derive(Debug, Parser)]
#[command(name = "forebay-loadgen", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sink(sink::SinkArgs),
    Replay(replay::ReplayArgs),
    Run(run::RunArgs),
    Sweep(sweep::SweepArgs),
    Merge(merge::MergeArgs),
    Soak(soak::SoakArgs),
    #[command(hide = true)]
    SoakWriter(soak::WriterArgs),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let stop = match StopFlag::on_signals() {
        Ok(stop) => stop,
        Err(error) => {
            eprintln!("forebay-loadgen: cannot handle signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    match cli.command {
        Command::Sink(args) => args.execute(&stop),
        Command::Replay(args) => args.execute(&stop),
        Command::Run(args) => args.execute(&stop),
        Command::Sweep(args) => args.execute(&stop),
        Command::Merge(args) => args.execute(),
        Command::Soak(args) => args.execute(&stop),
        Command::SoakWriter(args) => args.execute(&stop),
    }
}
