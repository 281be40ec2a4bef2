//! `forebay-loadgen`: a QWP server to send to, and load to send.

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use forebay_loadgen::signals::StopFlag;

/// Load for Forebay and a server to take it.
#[derive(Debug, Parser)]
#[command(name = "forebay-loadgen", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sink(cli::sink::SinkArgs),
    Replay(cli::replay::ReplayArgs),
    Run(cli::run::RunArgs),
}

fn main() -> ExitCode {
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
    }
}
