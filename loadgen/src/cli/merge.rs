//! `forebay-loadgen merge`: histogram logs of several runs as one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::client::failed;
use crate::error::Error;
use crate::report::merge;

/// Add up histogram logs (`--hlog`) by the names of their distributions and print the percentiles.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The logs.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the sums to this file, as such a log.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl MergeArgs {
    /// Runs the command to its exit status.
    pub(crate) fn execute(&self) -> ExitCode {
        match self.merge() {
            Ok(table) => {
                println!("{table}");
                ExitCode::SUCCESS
            }
            Err(error) => failed(&error),
        }
    }

    fn merge(&self) -> Result<String, Error> {
        let merged = merge(&self.files)?;
        if let Some(path) = &self.output {
            merged.write(path)?;
        }
        Ok(merged.table())
    }
}
