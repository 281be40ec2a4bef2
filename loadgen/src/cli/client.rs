//! Options that `replay`, `run` and `sweep` share, and how they end.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::confirm::ConfirmStage;
use crate::error::Error;
use crate::feed::Way;
use crate::quotes::NAMES_COUNT;
use crate::report::Report;
use crate::run::RunOptions;
use crate::session::SessionOptions;
use clap::{Args, ValueEnum};

/// Exit status for errors.
const EXIT_ERROR: u8 = 1;
/// Exit status for rows or frames that the server has not confirmed.
const EXIT_UNACKED: u8 = 3;

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Connect string; without it a sink is started inside this process, with a temporary slot.
    #[arg(long, value_name = "STRING")]
    conf: Option<String>,
    /// Where the temporary slot goes.
    #[arg(long, value_name = "DIR", conflicts_with = "conf")]
    dir: Option<PathBuf>,
    /// Core of the first producer and of the embedded sink.
    #[arg(long, value_name = "CORE")]
    pin: Option<usize>,
    /// Shards of the engine.
    #[arg(long, value_name = "N", conflicts_with = "conf")]
    shards: Option<u64>,
    /// Append the number of the last confirmed batch to this file, fsynced, a line each.
    #[arg(long, value_name = "FILE")]
    confirm_log: Option<PathBuf>,
    /// When a batch is confirmed: written, stable or acked.
    #[arg(
        long,
        value_name = "STAGE",
        default_value = "acked",
        requires = "confirm_log"
    )]
    confirm: ConfirmStage,
}

impl ClientArgs {
    pub(crate) fn confirm(&self) -> Option<(PathBuf, ConfirmStage)> {
        self.confirm_log.clone().map(|path| (path, self.confirm))
    }

    pub(crate) fn session(&self) -> SessionOptions {
        SessionOptions {
            conf: self.conf.clone(),
            dir: self.dir.clone(),
            pin: self.pin,
            shards: self.shards,
        }
    }
}

/// What generated load looks like.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Rows in a batch.
    #[arg(long, default_value_t = 1_000)]
    batch: u64,
    /// How rows are given: row (by name), prepared (by handles) or chunk (whole columns).
    #[arg(long, value_name = "WAY", default_value = "row")]
    way: Way,
    /// Threads that produce.
    #[arg(long, default_value_t = 1)]
    producers: u64,
    /// Tables; batches go to them in turns.
    #[arg(long, default_value_t = 1)]
    tables: u64,
    /// Distinct symbols.
    #[arg(long, default_value_t = NAMES_COUNT)]
    symbols: usize,
    /// What is done with every batch.
    #[arg(long, value_enum, default_value_t = Each::Publish)]
    each: Each,
    /// Rows before all others, sent the same way, waited for and left out of every figure.
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    warm_up: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Each {
    /// Publish it and go on.
    Publish,
    /// Flush it: wait for the stage that the connect string promises.
    Flush,
}

impl LoadArgs {
    /// The load without its length and its pace.
    pub(crate) fn options(&self, client: &ClientArgs) -> RunOptions {
        RunOptions {
            batch_rows: self.batch,
            way: self.way,
            producers_count: self.producers,
            tables_count: self.tables,
            symbols_count: self.symbols,
            warm_rows: self.warm_up,
            flush_each: self.each == Each::Flush,
            confirm: client.confirm(),
            session: client.session(),
            ..RunOptions::default()
        }
    }
}

/// Prints the report and returns the exit status.
pub(crate) fn finish(report: &Report) -> ExitCode {
    println!("{}", report.table());
    if !report.all_acked() {
        eprintln!(
            "forebay-loadgen: closed with {} rows ({} frames in the slot) unacked",
            report.rows_unacked(),
            report.stats.unacked_frames
        );
    }
    ExitCode::from(report.exit_code())
}

/// Says how many frames a drain left and returns the exit status.
pub(crate) fn drained(result: Result<u64, Error>) -> ExitCode {
    match result {
        Ok(0) => ExitCode::SUCCESS,
        Ok(frames) => {
            eprintln!("forebay-loadgen: closed with {frames} frames unacked");
            ExitCode::from(EXIT_UNACKED)
        }
        Err(error) => failed(&error),
    }
}

/// Prints the error and returns its exit status.
pub(crate) fn failed(error: &Error) -> ExitCode {
    eprintln!("forebay-loadgen: {error}");
    ExitCode::from(EXIT_ERROR)
}
