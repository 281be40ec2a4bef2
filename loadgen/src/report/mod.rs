//! What a replay or a run did: as a table for people and as JSON for programs.
//!
//! Both come from one [`Report`]. The keys of the JSON are a contract (docs/loadgen.md); a test
//! below holds them fixed.

mod detail;
mod hlog;
mod html;
mod latencies;

use std::path::Path;
use std::time::Duration;

use comfy_table::{Table, presets};
use forebay::Stats;
use serde_json::{Value, json};

pub use detail::Detail;
pub use hlog::{Merged, merge};
pub use latencies::Latencies;

use crate::error::Error;
use crate::sink::Totals;

/// CPU time by who used it, in nanoseconds. `None`: not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuUse {
    /// The whole process, from before the engine was opened until all was acked.
    pub process_ns: Option<u64>,
    /// The threads that produce, from their first row to their last publish.
    pub producer_ns: Option<u64>,
    /// The shard's thread.
    pub shard_ns: Option<u64>,
    /// The embedded sink's threads.
    pub sink_ns: Option<u64>,
}

/// What a replay or a run did.
#[derive(Debug, Clone)]
pub struct Report {
    /// `replay` or `run`.
    pub command: &'static str,
    /// Rows handed to the engine in published batches.
    pub rows_sent: u64,
    /// Batches published.
    pub batches_sent: u64,
    /// Last batch in the confirm log, if one is kept and it got a line.
    pub batch_confirmed: Option<u64>,
    /// The engine's counters at the end.
    pub stats: Stats,
    /// From the first row until the last publish returned.
    pub publish_time: Duration,
    /// From the first row until all was acked, or the wait for it ended.
    pub total_time: Duration,
    /// What each `publish()` took, from its intended start where there is a rate.
    pub publish: Latencies,
    /// What each `flush()` took, from its intended start where there is a rate.
    pub flush: Latencies,
    /// What the calls behind `publish` took alone, without the wait for their turn. Empty without
    /// a rate: both are the same then.
    pub publish_service: Latencies,
    /// The same of `flush`.
    pub flush_service: Latencies,
    /// From accepted to written, by frame.
    pub accept_to_written: Latencies,
    /// From accepted to stable, by frame.
    pub accept_to_stable: Latencies,
    /// From accepted to acked, by frame.
    pub accept_to_acked: Latencies,
    /// CPU time.
    pub cpu: CpuUse,
    /// What the embedded sink counted, where there is one.
    pub sink: Option<Totals>,
    /// Whether a signal ended it early.
    pub stopped: bool,
    /// What was run, and what it used besides.
    pub detail: Detail,
}

impl Report {
    /// Rows sent that the server has not confirmed.
    pub fn rows_unacked(&self) -> u64 {
        self.rows_sent.saturating_sub(self.rows_acked())
    }

    /// Rows of this process that the server confirmed.
    pub fn rows_acked(&self) -> u64 {
        self.counted(|stats| stats.rows_acked).min(self.rows_sent)
    }

    /// A counter of the engine, without what came before the clock started.
    fn counted(&self, counter: fn(&Stats) -> u64) -> u64 {
        counter(&self.stats).saturating_sub(counter(&self.detail.before))
    }

    /// Whether nothing is left in the slot, recovered frames included.
    pub fn all_acked(&self) -> bool {
        self.rows_unacked() == 0 && self.stats.unacked_frames == 0
    }

    /// 0 when all is acked, else 3. Errors (1) never get as far as a report.
    pub fn exit_code(&self) -> u8 {
        if self.all_acked() { 0 } else { 3 }
    }

    /// Rows acked a second, end to end: from the first row until all was acked.
    pub fn rows_per_second(&self) -> f64 {
        per_second(self.rows_acked(), self.total_time)
    }

    fn megabytes_per_second(&self) -> f64 {
        per_second(self.counted(|stats| stats.bytes_published), self.total_time) / 1e6
    }

    /// The report as one JSON object; docs/loadgen.md has the meaning of every key.
    pub fn json(&self) -> Value {
        let per_row = |cpu_ns: Option<u64>| match cpu_ns {
            Some(ns) if self.rows_sent > 0 => json!(round(ratio(ns, self.rows_sent))),
            _ => Value::Null,
        };
        let mut json = json!({
            "command": self.command,
            "title": self.detail.title,
            "exit_code": self.exit_code(),
            "stopped_by_signal": self.stopped,
            "rows_sent": self.rows_sent,
            "rows_acked": self.rows_acked(),
            "rows_unacked": self.rows_unacked(),
            "batches_sent": self.batches_sent,
            "batch_confirmed": self.batch_confirmed,
            "frames_published": self.counted(|stats| stats.frames_published),
            "frames_written": self.counted(|stats| stats.frames_written),
            "frames_acked": self.counted(|stats| stats.frames_acked),
            "frames_unacked": self.stats.unacked_frames,
            "frames_recovered": self.stats.frames_recovered,
            "frames_replayed": self.counted(|stats| stats.frames_replayed),
            "segments_written": self.counted(|stats| stats.segments_written),
            "bytes_published": self.counted(|stats| stats.bytes_published),
            "oks_received": self.counted(|stats| stats.oks_received),
            "server_errors": self.counted(|stats| stats.server_errors),
            "reconnects_succeeded": self.counted(|stats| stats.reconnects_succeeded),
            "backpressure_stalls": self.counted(|stats| stats.backpressure_stalls),
            "publish_seconds": self.publish_time.as_secs_f64(),
            "total_seconds": self.total_time.as_secs_f64(),
            "rows_per_second": round(self.rows_per_second()),
            "megabytes_per_second": round(self.megabytes_per_second()),
            "publish_ns": self.publish.json(),
            "flush_ns": self.flush.json(),
            "publish_service_ns": self.publish_service.json(),
            "flush_service_ns": self.flush_service.json(),
            "accept_to_written_ns": self.accept_to_written.json(),
            "accept_to_stable_ns": self.accept_to_stable.json(),
            "accept_to_acked_ns": self.accept_to_acked.json(),
            "cpu_ns_per_row": {
                "process": per_row(self.cpu.process_ns),
                "producer": per_row(self.cpu.producer_ns),
                "shard": per_row(self.cpu.shard_ns),
                "sink": per_row(self.cpu.sink_ns),
            },
            "sink": self.sink.as_ref().map(Totals::to_json),
        });
        if let (Some(all), Value::Object(more)) = (json.as_object_mut(), self.detail.json()) {
            all.extend(more);
        }
        json
    }

    /// Writes [`Report::json`] to a file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_json(&self, path: &Path) -> Result<(), Error> {
        let text = format!("{:#}\n", self.json());
        std::fs::write(path, text).map_err(|source| Error::io("write", path, source))
    }

    /// The report for people.
    pub fn table(&self) -> String {
        let title = match self.detail.title.as_str() {
            "" => self.command.to_owned(),
            title => format!("{}: {title}", self.command),
        };
        format!("{title}\n{}\n{}", self.totals(), self.latencies())
    }

    fn totals(&self) -> Table {
        let mut table = new_table(&["total", "value"]);
        let mut line = |name: &str, value: String| {
            table.add_row([name.to_owned(), value]);
        };
        line("rows sent", grouped(self.rows_sent));
        line("rows acked", grouped(self.rows_acked()));
        if !self.all_acked() {
            line("rows unacked", grouped(self.rows_unacked()));
            line("frames unacked", grouped(self.stats.unacked_frames));
        }
        line(
            "frames published",
            grouped(self.counted(|stats| stats.frames_published)),
        );
        if self.stats.frames_recovered > 0 {
            line("frames recovered", grouped(self.stats.frames_recovered));
        }
        line(
            "segments written",
            grouped(self.counted(|stats| stats.segments_written)),
        );
        line(
            "time to accepted",
            format!("{:.3} s", self.publish_time.as_secs_f64()),
        );
        line(
            "time to acked",
            format!("{:.3} s", self.total_time.as_secs_f64()),
        );
        line(
            "rate",
            format!("{} rows/s", grouped(whole(self.rows_per_second()))),
        );
        line(
            "frame bytes",
            format!("{:.1} MB/s", self.megabytes_per_second()),
        );
        let users = [
            ("CPU, process", self.cpu.process_ns),
            ("CPU, producer", self.cpu.producer_ns),
            ("CPU, shard", self.cpu.shard_ns),
            ("CPU, sink", self.cpu.sink_ns),
        ];
        for (name, cpu_ns) in users {
            if let Some(ns) = cpu_ns.filter(|_| self.rows_sent > 0) {
                line(name, format!("{:.1} ns/row", ratio(ns, self.rows_sent)));
            }
        }
        for (name, value) in self.detail.lines() {
            line(name, value);
        }
        table
    }

    /// The distributions by the names under which tables, logs and pictures show them. What was
    /// never counted is among them.
    fn named_latencies(&self) -> [(String, &Latencies); 7] {
        let (publish, flush) = self.detail.stages();
        [
            (format!("publish{publish}"), &self.publish),
            (format!("flush{flush}"), &self.flush),
            ("accept to written".to_owned(), &self.accept_to_written),
            ("accept to stable".to_owned(), &self.accept_to_stable),
            ("accept to acked".to_owned(), &self.accept_to_acked),
            (
                format!("publish{publish}, the call alone"),
                &self.publish_service,
            ),
            (format!("flush{flush}, the call alone"), &self.flush_service),
        ]
    }

    fn latencies(&self) -> Table {
        let mut table = latency_table();
        for (index, (name, latencies)) in self.named_latencies().iter().enumerate() {
            if index < 5 || !latencies.is_empty() {
                table.add_row(latencies.cells(name));
            }
        }
        table
    }
}

/// Without its rows, which are [`Latencies::cells`].
fn latency_table() -> Table {
    new_table(&["latency", "count", "p50", "p99", "p99.9", "p99.99", "max"])
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_BORDERS_ONLY)
        .set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    table
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures for people; 2^53 ns are 104 days"
)]
fn ratio(dividend: u64, divisor: u64) -> f64 {
    dividend as f64 / divisor as f64
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

/// Rounded to a whole number, for people.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are >= 0"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// To a tenth: more digits are noise.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// `1234567` as `1,234,567`.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
