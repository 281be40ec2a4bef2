//! `forebay-bench limits handoff`: what it costs a producer to hand a batch of one row to a shard
//! that is awake, and whether a second producer stands in the way of the first.

mod crowd;
mod single;

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use self::single::Place;
use super::figures::Spread;
use super::json::{self, JsonRow};

/// Options of the measurement.
#[derive(Debug, Clone, Args)]
pub struct HandoffOptions {
    /// Alternations; the median counts.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Rows of a measurement of throughput in batches of 1,000; a tenth of it in batches of one.
    #[arg(long, default_value_t = 6_000_000)]
    pub rows: u64,
    /// Core of the shard.
    #[arg(long, default_value_t = 1)]
    pub shard_core: usize,
    /// Core of the single producer; several go where the kernel puts them.
    #[arg(long, default_value_t = 0)]
    pub load_core: usize,
    /// Only rows whose name contains this.
    #[arg(long)]
    pub only: Option<String>,
    /// Where the slots go instead of here.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Write the rows to this file as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Most nanoseconds of a hand-over.
const HAND_OVER_NS: f64 = 150.0;

const SINGLES: [(&str, Place); 2] = [
    (
        "try_flush() of a row, awake, ring in memory: p50",
        Place::Memory,
    ),
    ("flush() of a row, awake, ring in a file: p50", Place::File),
];
const CROWDS: [(&str, usize); 2] = [("1,000 rows", 1_000), ("a row", 1)];

/// Runs the measurement; answers what it found and whether the targets were met.
pub fn run(options: &HandoffOptions) -> Result<(String, bool), Box<dyn Error>> {
    let parent = options.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let only = options.only.as_deref().unwrap_or_default();
    let mut rows = Vec::new();
    for (name, place) in SINGLES.iter().filter(|row| row.0.contains(only)) {
        rows.push(hand_over(options, &parent, name, *place)?);
    }
    for (size, batch) in CROWDS {
        let names = ["accepted", "acked"]
            .map(|stage| format!("two producers over one, batches of {size}, {stage}"));
        if names.iter().any(|name| name.contains(only)) {
            let both = crowds(options, &parent, names, batch)?;
            rows.extend(both.into_iter().filter(|row| row.name.contains(only)));
        }
    }
    if let Some(path) = &options.json {
        json::write(path, "handoff", &rows)?;
    }
    let mut out = String::new();
    writeln!(
        out,
        "least / median / most of {} alternations",
        options.rounds
    )?;
    for row in &rows {
        writeln!(out, "{}", line(row))?;
    }
    Ok((out, rows.iter().all(|row| row.met != Some(false))))
}

fn hand_over(
    options: &HandoffOptions,
    parent: &Path,
    name: &str,
    place: Place,
) -> Result<JsonRow, Box<dyn Error>> {
    let mut medians = Vec::new();
    for _ in 0..options.rounds {
        let dir = tempfile::tempdir_in(parent)?;
        medians.push(single::median_ns(options, dir.path(), place)?);
    }
    let spread = Spread::of(medians.into_iter());
    Ok(JsonRow {
        name: name.to_owned(),
        unit: "ns",
        spread,
        is_ratio: false,
        target: Some((HAND_OVER_NS, "ours_at_most")),
        met: Some(spread.median <= HAND_OVER_NS),
        of: None,
    })
}

/// Rows of accepted and of acked: two producers over one.
fn crowds(
    options: &HandoffOptions,
    parent: &Path,
    names: [String; 2],
    batch: usize,
) -> Result<Vec<JsonRow>, Box<dyn Error>> {
    let rows = if batch == 1 {
        options.rows / 10
    } else {
        options.rows
    };
    let mut rates = Vec::new();
    for _ in 0..options.rounds {
        let [one, two] = [1, 2].map(|producers| {
            let dir = tempfile::tempdir_in(parent)?;
            crowd::rates(options.shard_core, dir.path(), (producers, rows, batch))
        });
        rates.push([one?, two?]);
    }
    let row = |(stage, name): (usize, String)| {
        let of = |index: usize| Spread::of(rates.iter().map(move |pair| pair[index][stage] / 1e6));
        let spread = Spread::of(rates.iter().map(|[one, two]| two[stage] / one[stage]));
        JsonRow {
            name,
            unit: "M rows/s",
            spread,
            is_ratio: true,
            target: Some((1.0, "ratio_at_least")),
            met: Some(spread.median >= 1.0),
            of: Some([of(1), of(0)]),
        }
    };
    Ok(names.into_iter().enumerate().map(row).collect())
}

fn line(row: &JsonRow) -> String {
    let missed = if row.met == Some(false) {
        ": MISSED"
    } else {
        ""
    };
    let target = row.target.map_or(0.0, |target| target.0);
    let (name, unit) = (&row.name, row.unit);
    if let Some([two, one]) = row.of {
        let [one, two, ratio] = [one, two, row.spread].map(|spread| spread.text(2));
        return format!(
            "{name:56} {unit} one {one}, two {two}; ratio {ratio}, at least {target}{missed}"
        );
    }
    let figures = row.spread.text(0);
    format!("{name:56} {unit} {figures}, at most {target}{missed}")
}
