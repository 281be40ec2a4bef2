//! `forebay-loadgen replay`: a CSV file.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::csv_source::{ColumnType, CsvOptions};
use crate::error::Error;
use crate::pace::Speed;
use crate::replay::{ReplayOptions, drain, replay};
use crate::report::Report;
use crate::signals::StopFlag;
use clap::{Args, ValueEnum};

use super::client::{ClientArgs, drained, failed, finish};

/// Send the rows of a CSV file through the engine.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The file; its first line names the columns.
    #[arg(required_unless_present = "drain_only")]
    file: Option<PathBuf>,
    /// Table the rows go to.
    #[arg(long, required_unless_present = "drain_only")]
    table: Option<String>,
    /// Columns sent as SYMBOL.
    #[arg(long, value_delimiter = ',', value_name = "C1,C2")]
    symbols: Vec<String>,
    /// Column with the designated timestamp.
    #[arg(long, value_name = "C", required_unless_present = "drain_only")]
    timestamp: Option<String>,
    /// Types instead of the inferred ones, such as size=double,note=varchar.
    #[arg(long, value_delimiter = ',', value_name = "COL=TYPE", value_parser = column_type)]
    types: Vec<(String, ColumnType)>,
    /// `max`, or how many seconds of the data pass in one: 1x, 60x.
    #[arg(long, default_value = "max")]
    speed: Speed,
    /// Shift all timestamps so that the first row sent is stamped now.
    #[arg(long, value_enum)]
    rebase: Option<Rebase>,
    /// Rows in a batch: batch n holds the rows (n-1)*B+1 to n*B of the file.
    #[arg(long, default_value_t = 1_000)]
    batch: u64,
    /// Start after the last batch in this confirm log.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Send nothing: open the slot, wait until all in it is acked, close.
    #[arg(long, requires = "conf")]
    drain_only: bool,
    #[command(flatten)]
    client: ClientArgs,
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rebase {
    /// To the time of the call.
    Now,
}

impl ReplayArgs {
    /// Runs the command to its exit status.
    pub(crate) fn execute(self, stop: &StopFlag) -> ExitCode {
        if self.drain_only {
            return drained(drain(&self.client.session(), stop));
        }
        match self.send(stop) {
            Ok(report) => finish(&report),
            Err(error) => failed(&error),
        }
    }

    fn send(self, stop: &StopFlag) -> Result<Report, Error> {
        let options = ReplayOptions {
            csv: CsvOptions {
                path: self.file.unwrap_or_default(),
                symbols: self.symbols,
                timestamp: self.timestamp.unwrap_or_default(),
                types: self.types,
            },
            table: self.table.unwrap_or_default(),
            speed: self.speed,
            rebase_now: self.rebase == Some(Rebase::Now),
            batch_rows: self.batch,
            resume: self.resume,
            confirm: self.client.confirm(),
            session: self.client.session(),
        };
        let report = replay(&options, stop)?;
        if let Some(path) = &self.json {
            report.write_json(path)?;
        }
        Ok(report)
    }
}

fn column_type(text: &str) -> Result<(String, ColumnType), String> {
    let (name, column_type) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is not COLUMN=TYPE"))?;
    Ok((name.to_owned(), column_type.parse()?))
}
