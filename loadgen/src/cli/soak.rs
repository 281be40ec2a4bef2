//! `forebay-loadgen soak`: a writer, a server and random faults, with an account at the end.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::signals::StopFlag;
use crate::soak::{SoakOptions, WriterOptions, soak, write};

use super::client::failed;

/// Let random faults happen to a writer process and its server, then account for every row.
#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    /// How long, in minutes.
    #[arg(long, default_value_t = 3.0)]
    minutes: f64,
    /// The faults and their times follow from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the temporary directory goes.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl SoakArgs {
    /// Runs the command to its exit status: 0 when the account holds, else 1.
    pub(crate) fn execute(&self, stop: &StopFlag) -> ExitCode {
        let Ok(time) = Duration::try_from_secs_f64(self.minutes * 60.0) else {
            eprintln!("forebay-loadgen: --minutes: {} is no time", self.minutes);
            return ExitCode::from(2);
        };
        let options = SoakOptions {
            time,
            seed: self.seed,
            parent: self.dir.clone(),
        };
        match soak(&options, stop) {
            Ok(account) => {
                println!("{account}");
                if account.holds() {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                }
            }
            Err(error) => failed(&error),
        }
    }
}

/// The process that `soak` starts and kills.
#[derive(Debug, Args)]
pub(crate) struct WriterArgs {
    /// Connect string.
    #[arg(long)]
    conf: String,
    /// First numbers, by producer and table.
    #[arg(long, value_delimiter = ',')]
    from: Vec<u64>,
    /// Seed of the batches' shapes.
    #[arg(long)]
    seed: u64,
}

impl WriterArgs {
    /// Runs until stdin ends.
    pub(crate) fn execute(&self, stop: &StopFlag) -> ExitCode {
        write(
            &WriterOptions {
                conf: self.conf.clone(),
                from: self.from.clone(),
                seed: self.seed,
            },
            stop,
        )
    }
}
