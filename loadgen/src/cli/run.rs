//! `forebay-loadgen run`: generated quotes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::error::Error;
use crate::report::Report;
use crate::run::{RunOptions, run};
use crate::signals::StopFlag;
use clap::Args;

use super::client::{ClientArgs, LoadArgs, failed, finish};

/// Generate L1 quotes and send them through the engine.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Rows in all.
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Rows a second in all; without it, as fast as the engine takes them.
    #[arg(long)]
    rate: Option<f64>,
    /// One row every 10 ms, in place of --rate and --batch.
    #[arg(long, conflicts_with_all = ["rate", "batch", "burst"])]
    rare: bool,
    /// Rows of a producer that are due at once, with --rate.
    #[arg(long, value_name = "ROWS", default_value_t = 1, requires = "rate")]
    burst: u64,
    /// Seconds for which the idle engine is watched at the end.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle: u64,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    client: ClientArgs,
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the distributions to this file as a histogram log.
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Write a page with curves, throughput and configuration to this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Rows a second of `--rare`.
const RARE_RATE: f64 = 100.0;

impl RunArgs {
    /// Runs the command to its exit status.
    pub(crate) fn execute(&self, stop: &StopFlag) -> ExitCode {
        match self.send(stop) {
            Ok(report) => finish(&report),
            Err(error) => failed(&error),
        }
    }

    fn send(&self, stop: &StopFlag) -> Result<Report, Error> {
        let mut options = RunOptions {
            rows: self.rows,
            rows_per_second: self.rate,
            burst_rows: self.burst,
            idle: Duration::from_secs(self.idle),
            ..self.load.options(&self.client)
        };
        if self.rare {
            options.batch_rows = 1;
            options.rows_per_second = Some(RARE_RATE);
        }
        let report = run(&options, stop)?;
        if let Some(path) = &self.json {
            report.write_json(path)?;
        }
        if let Some(path) = &self.hlog {
            report.write_hlog(path)?;
        }
        if let Some(path) = &self.report {
            report.write_html(path)?;
        }
        Ok(report)
    }
}
