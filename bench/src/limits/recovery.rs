//! `forebay-bench limits recovery`: opening a slot with a backlog, beside reading the same files
//! and beside the official client opening its own.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::backlog::{Client, Shape, cache, segments, write};
use super::figures::{Spread, float};
use super::json::{self, JsonRow};
use super::opening::{Measured, What, in_a_child, measure};

/// Options of the measurement.
#[derive(Debug, Clone, Args)]
pub struct RecoveryOptions {
    /// Backlog in MB.
    #[arg(long, default_value_t = 600)]
    pub mb: u64,
    /// Frames of one short row instead of 1 to 32 KiB.
    #[arg(long)]
    pub one_row: bool,
    /// KiB of a segment file.
    #[arg(long, default_value_t = 4096)]
    pub segment_kib: u64,
    /// Alternations; the median counts.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Leave the official client out.
    #[arg(long)]
    pub ours_only: bool,
    /// Also drain the backlog at the end.
    #[arg(long)]
    pub drain: bool,
    /// Where the slots go (must be on a disk) instead of here.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Exit with 1 if the cold scan is below this share of the raw read.
    #[arg(long)]
    pub percent_at_least: Option<u64>,
    /// Exit with 1 if an opening of ours takes this many MiB of memory.
    #[arg(long)]
    pub peak_mib_below: Option<u64>,
    /// Write the rows to this file as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Runs the measurement; answers what it found and whether the limits held.
pub fn run(options: &RecoveryOptions) -> Result<(String, bool), Box<dyn Error>> {
    let dir = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir_in(".")?,
    };
    let shape = options.shape();
    let clients: &[Client] = if options.ours_only {
        &[Client::Ours]
    } else {
        &[Client::Ours, Client::Official]
    };
    let slot = |client: Client| dir.path().join(client.name());
    let mut out = String::new();
    for client in clients {
        let frames = write(*client, &slot(*client), shape)?;
        let files = segments(&slot(*client))?;
        let name = client.name();
        writeln!(out, "{name}: {frames} frames in {} segments", files.len())?;
    }
    let mut table = Table::default();
    for _ in 0..options.rounds {
        for client in clients {
            let path = slot(*client);
            cache(&path, false)?;
            table.add(*client, "raw", &path, What::Raw(*client), shape)?;
            cache(&path, false)?;
            table.add(*client, "cold", &path, What::Open(*client), shape)?;
            cache(&path, true)?;
            table.add(*client, "warm", &path, What::Open(*client), shape)?;
        }
    }
    if options.drain {
        cache(&slot(Client::Ours), false)?;
        let drained = in_a_child(What::Drain, &slot(Client::Ours), shape)?;
        writeln!(
            out,
            "opened cold and drained: {:.2} s ({:.2} s of it opening), {:.2} GB/s from the start, \
             {:.2} GB/s from the opening on",
            seconds(drained.nanos),
            seconds(drained.scan_nanos),
            gb_per_second(drained.bytes, drained.nanos),
            gb_per_second(drained.bytes, drained.nanos - drained.scan_nanos),
        )?;
    }
    table.print(&mut out)?;
    let rows = table.rows();
    if let Some(path) = &options.json {
        json::write(path, "recovery", &rows)?;
    }
    let (percent, peak_mib) = table.judged();
    writeln!(
        out,
        "our scan, cold: {percent} % of the raw read; our peak memory: {peak_mib} MiB\n\n{}",
        super::table::markdown(&rows)
    )?;
    let holds = options
        .percent_at_least
        .is_none_or(|least| percent >= least)
        && options.peak_mib_below.is_none_or(|most| peak_mib < most);
    Ok((out, holds))
}

/// One measurement, for [`run`], in a process of its own.
pub fn run_child(
    what: &str,
    dir: &Path,
    bytes: u64,
    segment_bytes: u64,
) -> Result<String, Box<dyn Error>> {
    let shape = Shape {
        bytes,
        segment_bytes,
        narrow: false,
    };
    Ok(measure(what, dir, shape)?.to_string())
}

impl RecoveryOptions {
    fn shape(&self) -> Shape {
        Shape {
            bytes: self.mb * 1_000_000,
            segment_bytes: self.segment_kib * 1024,
            narrow: self.one_row,
        }
    }
}

/// All measurements, by who and how.
#[derive(Debug, Default)]
struct Table(Vec<(Client, &'static str, Vec<Measured>)>);

impl Table {
    fn add(
        &mut self,
        client: Client,
        how: &'static str,
        dir: &Path,
        what: What,
        shape: Shape,
    ) -> Result<(), Box<dyn Error>> {
        let measured = in_a_child(what, dir, shape)?;
        let row = self
            .0
            .iter_mut()
            .find(|row| (row.0, row.1) == (client, how));
        match row {
            Some((_, _, all)) => all.push(measured),
            None => self.0.push((client, how, vec![measured])),
        }
        Ok(())
    }

    fn of(&self, client: Client, how: &str) -> &[Measured] {
        let row = self.0.iter().find(|row| (row.0, row.1) == (client, how));
        row.map_or(&[], |row| row.2.as_slice())
    }

    /// What design and operators ask of an opening.
    fn rows(&self) -> Vec<JsonRow> {
        let pairs = |ours: &'static str, of: Client, theirs: &'static str| {
            let pairs = self.of(Client::Ours, ours).iter();
            pairs.zip(self.of(of, theirs))
        };
        let rate = |m: &Measured, nanos| gb_per_second(m.bytes, nanos);
        let scan = pairs("cold", Client::Ours, "raw")
            .map(|(ours, raw)| rate(ours, ours.scan_nanos) / rate(raw, raw.nanos));
        let warm = pairs("warm", Client::Official, "warm")
            .map(|(ours, theirs)| seconds(ours.nanos) / seconds(theirs.nanos));
        let opened = [self.of(Client::Ours, "cold"), self.of(Client::Ours, "warm")].concat();
        let peak = opened.iter().map(|m| float(m.peak_kib) / 1024.0);
        let mut rows = vec![
            row(
                "scan of a cold slot over a direct read of it",
                (Spread::of(scan), 0.8),
                true,
            ),
            row(
                "peak memory of an opening, MiB",
                (Spread::of(peak), 128.0),
                false,
            ),
        ];
        let warm = Spread::of(warm);
        if warm.median.is_finite() {
            rows.push(row(
                "opening a warm slot over the official client's",
                (warm, 1.0),
                false,
            ));
        }
        rows
    }

    fn print(&self, out: &mut String) -> std::fmt::Result {
        for (client, how, all) in &self.0 {
            let whole = text(Spread::of(all.iter().map(|m| seconds(m.nanos))));
            let peak_kib = all.iter().map(|m| m.peak_kib).max().unwrap_or(0);
            let what = if *how == "raw" { "direct read" } else { "open" };
            write!(
                out,
                "{:8} {how:4} {what:11} {whole} s, peak {} MiB",
                client.name(),
                peak_kib.div_ceil(1024)
            )?;
            let bytes = all.iter().all(|m| m.bytes > 0);
            if bytes && *how == "raw" {
                let rate = all.iter().map(|m| gb_per_second(m.bytes, m.nanos));
                let rate = text(Spread::of(rate));
                write!(out, ", {rate} GB/s")?;
            } else if bytes {
                let rate = all.iter().map(|m| gb_per_second(m.bytes, m.scan_nanos));
                let rate = text(Spread::of(rate));
                write!(out, ", scan {rate} GB/s")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// The cold scan in percent of the raw read, by medians, and the highest peak of ours in MiB.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a percentage"
    )]
    fn judged(&self) -> (u64, u64) {
        let raw = self.of(Client::Ours, "raw").iter();
        let raw = Spread::of(raw.map(|m| gb_per_second(m.bytes, m.nanos)));
        let scan = self.of(Client::Ours, "cold").iter();
        let scan = Spread::of(scan.map(|m| gb_per_second(m.bytes, m.scan_nanos)));
        let ours = ["cold", "warm"].map(|how| self.of(Client::Ours, how));
        let peak = ours.iter().flat_map(|all| all.iter()).map(|m| m.peak_kib);
        let percent = (scan.median / raw.median * 100.0).round();
        (percent as u64, peak.max().unwrap_or(0).div_ceil(1024))
    }
}

/// A row that must reach its limit (`is_floor`), or stay at or below it.
fn row(name: &str, (spread, limit): (Spread, f64), is_floor: bool) -> JsonRow {
    let is_ratio = !name.contains("MiB");
    let (kind, met) = match (is_floor, is_ratio) {
        (true, _) => ("ratio_at_least", spread.median >= limit),
        (false, true) => ("ratio_at_most", spread.median <= limit),
        (false, false) => ("ours_at_most", spread.median <= limit),
    };
    JsonRow {
        name: name.to_owned(),
        unit: if is_ratio { "" } else { "MiB" },
        spread,
        is_ratio,
        target: Some((limit, kind)),
        met: Some(met),
        of: None,
    }
}

fn text(spread: Spread) -> String {
    let Spread {
        least,
        median,
        most,
    } = spread;
    format!("{median:.3} ({least:.3}-{most:.3})")
}

fn seconds(nanos: u64) -> f64 {
    float(nanos) / 1e9
}

fn gb_per_second(bytes: u64, nanos: u64) -> f64 {
    float(bytes) / float(nanos)
}
