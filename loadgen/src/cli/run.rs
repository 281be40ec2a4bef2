//! `forebay-loadgen run`: generated quotes.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::error::Error;
use crate::report::Report;
use crate::run::{RunOptions, run};
use crate::signals::StopFlag;
use clap::{Args, ValueEnum};

use super::client::{ClientArgs, failed, finish};

/// Generate L1 quotes and send them through the engine.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Rows in all.
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Rows in a batch.
    #[arg(long, default_value_t = 1_000)]
    batch: u64,
    /// Rows a second in all; without it, as fast as the engine takes them.
    #[arg(long)]
    rate: Option<f64>,
    /// Threads that produce.
    #[arg(long, default_value_t = 1)]
    producers: u64,
    /// What is done with every batch.
    #[arg(long, value_enum, default_value_t = Each::Publish)]
    each: Each,
    #[command(flatten)]
    client: ClientArgs,
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Each {
    /// Publish it and go on.
    Publish,
    /// Flush it: wait until it is written.
    Flush,
}

impl RunArgs {
    /// Runs the command to its exit status.
    pub(crate) fn execute(&self, stop: &StopFlag) -> ExitCode {
        match self.send(stop) {
            Ok(report) => finish(&report),
            Err(error) => failed(&error),
        }
    }

    fn send(&self, stop: &StopFlag) -> Result<Report, Error> {
        let options = RunOptions {
            rows: self.rows,
            batch_rows: self.batch,
            rows_per_second: self.rate,
            producers_count: self.producers,
            flush_each: self.each == Each::Flush,
            confirm: self.client.confirm(),
            session: self.client.session(),
        };
        let report = run(&options, stop)?;
        if let Some(path) = &self.json {
            report.write_json(path)?;
        }
        Ok(report)
    }
}
