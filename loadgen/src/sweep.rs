//! `sweep`: the same load at growing rates, to the knee.
//!
//! The knee is the highest rate that was kept: the rows were acked at 95 % of it or more, and a
//! batch was handed over, at the p99 from its intended start, within the limit. Rates grow by a
//! factor until one is not kept.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::error::Error;
use crate::report::{Latencies, Report};
use crate::run::{RunOptions, run};
use crate::signals::StopFlag;

/// Share of the rate that has to be acked.
const KEPT_SHARE: f64 = 0.95;
/// Most steps of a sweep.
const STEPS_MAX: usize = 64;

/// Rates to try.
#[derive(Debug, Clone)]
pub struct SweepOptions {
    /// The load; its rows and its rate are set by the sweep.
    pub load: RunOptions,
    /// First rate, rows a second.
    pub from: f64,
    /// What each rate is multiplied by for the next; above 1.
    pub factor: f64,
    /// Time at each rate.
    pub length: Duration,
    /// Longest p99 of a batch from its intended start.
    pub p99_limit: Duration,
}

/// One rate.
#[derive(Debug, Clone)]
pub struct Step {
    /// Rows a second that were due.
    pub rate: f64,
    /// Rows a second that were acked.
    pub acked: f64,
    /// Whether it was kept.
    pub kept: bool,
    /// The report of the run.
    pub report: Report,
}

/// All rates that were tried.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// In their order; all but the last were kept.
    pub steps: Vec<Step>,
}

/// Runs the load at growing rates until one is not kept.
///
/// # Errors
/// Those of [`run`], and [`Error::Config`] for a factor that does not grow.
pub fn sweep(options: &SweepOptions, stop: &StopFlag) -> Result<Sweep, Error> {
    if !(options.factor > 1.0 && options.factor.is_finite()) {
        return Err(Error::config("--factor", "rates have to grow: more than 1"));
    }
    let mut steps = Vec::new();
    let mut rate = options.from;
    while steps.len() < STEPS_MAX && !stop.is_set() {
        let rows = rate * options.length.as_secs_f64();
        let load = RunOptions {
            rows: whole(rows)
                .max(1)
                .next_multiple_of(options.load.batch_rows.max(1)),
            rows_per_second: Some(rate),
            ..options.load.clone()
        };
        let report = run(&load, stop)?;
        let acked = report.rows_per_second();
        let kept = acked >= KEPT_SHARE * rate && within(&report, options.p99_limit);
        steps.push(Step {
            rate,
            acked,
            kept,
            report,
        });
        if !kept {
            break;
        }
        rate *= options.factor;
    }
    Ok(Sweep { steps })
}

impl Sweep {
    /// The highest rate that was kept.
    pub fn knee(&self) -> Option<f64> {
        let kept = self.steps.iter().filter(|step| step.kept);
        kept.map(|step| step.rate).next_back()
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        let header = [
            "rows/s due",
            "acked",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "max us",
            "kept",
        ];
        table
            .load_preset(presets::UTF8_BORDERS_ONLY)
            .set_header(header);
        for column in table.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for step in &self.steps {
            let response = response(&step.report);
            let micros = |percent| {
                format!(
                    "{:.1}",
                    Duration::from_nanos(response.at(percent)).as_secs_f64() * 1e6
                )
            };
            table.add_row([
                format!("{:.0}", step.rate),
                format!("{:.0}", step.acked),
                micros(50.0),
                micros(99.0),
                micros(99.9),
                micros(100.0),
                if step.kept { "yes" } else { "no" }.to_owned(),
            ]);
        }
        let title = self
            .steps
            .first()
            .map_or("", |step| step.report.detail.title.as_str());
        let knee = self.knee().map_or_else(
            || "no rate was kept".to_owned(),
            |knee| format!("the knee is at {knee:.0} rows/s or above, below the next rate"),
        );
        format!("sweep: {title}\ntimes from the intended start of a batch\n{table}\n{knee}")
    }

    /// Keys as in docs/loadgen.md.
    pub fn json(&self) -> Value {
        let steps = self.steps.iter().map(|step| {
            json!({
                "rate": step.rate,
                "acked_per_second": step.acked,
                "kept": step.kept,
                "report": step.report.json(),
            })
        });
        json!({ "knee": self.knee(), "steps": steps.collect::<Vec<_>>() })
    }
}

/// Times from the intended start.
fn response(report: &Report) -> &Latencies {
    if report.publish.is_empty() {
        &report.flush
    } else {
        &report.publish
    }
}

fn within(report: &Report, limit: Duration) -> bool {
    Duration::from_nanos(response(report).at(99.0)) <= limit
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number of rows"
)]
fn whole(rows: f64) -> u64 {
    rows.ceil() as u64
}
