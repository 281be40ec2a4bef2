//! `forebay-loadgen sweep`: to the knee.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::client::{ClientArgs, LoadArgs, failed};
use crate::error::Error;
use crate::signals::StopFlag;
use crate::sweep::{Sweep, SweepOptions, sweep};

/// Send generated quotes at growing rates until one is not kept.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// First rate, rows a second.
    #[arg(long, default_value_t = 250_000.0)]
    from: f64,
    /// What each rate is multiplied by for the next.
    #[arg(long, default_value_t = 1.4)]
    factor: f64,
    /// Seconds at each rate.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Longest p99 of a batch from its intended start, milliseconds.
    #[arg(long, default_value_t = 10)]
    p99_ms: u64,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    client: ClientArgs,
    /// Write the figures of all rates to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl SweepArgs {
    /// Runs the command to its exit status.
    pub(crate) fn execute(&self, stop: &StopFlag) -> ExitCode {
        match self.measure(stop) {
            Ok(swept) => {
                println!("{}", swept.table());
                ExitCode::SUCCESS
            }
            Err(error) => failed(&error),
        }
    }

    fn measure(&self, stop: &StopFlag) -> Result<Sweep, Error> {
        let length = Duration::try_from_secs_f64(self.seconds)
            .map_err(|error| Error::config("--seconds", error.to_string()))?;
        let options = SweepOptions {
            load: self.load.options(&self.client),
            from: self.from,
            factor: self.factor,
            length,
            p99_limit: Duration::from_millis(self.p99_ms),
        };
        let swept = sweep(&options, stop)?;
        if let Some(path) = &self.json {
            std::fs::write(path, format!("{:#}\n", swept.json()))
                .map_err(|source| Error::io("write", path, source))?;
        }
        Ok(swept)
    }
}
