//! `forebay-bench limits handoff`: what it costs a producer to hand a batch of one row to a shard
//! that is awake, and whether more producers stand in the way of the first.

mod beside;
mod crowd;
mod single;

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;

use self::single::Place;
use super::figures::Spread;
use super::json::{self, JsonRow};
use super::table;
use crate::busy::Busy;

/// Options of the measurement.
#[derive(Debug, Clone, Args)]
pub struct HandoffOptions {
    /// Measurements of a hand-over; the median counts.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Alternations of one producer and several; the median counts.
    #[arg(long, default_value_t = 31)]
    pub turns: usize,
    /// Rows of a measurement of throughput in batches of 1,000; a tenth of it in batches of one.
    #[arg(long, default_value_t = 2_000_000)]
    pub rows: u64,
    /// Shards in measurements of throughput; more than one go to cores that the engine chooses.
    #[arg(long, default_value_t = 1)]
    pub shards: u64,
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

/// Runs the measurement; answers what it found and whether the targets were met.
pub fn run(options: &HandoffOptions) -> Result<(String, bool), Box<dyn Error>> {
    let parent = options.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let only = options.only.as_deref().unwrap_or_default();
    let busy = Busy::now();
    let mut rows = Vec::new();
    for (name, place) in SINGLES.iter().filter(|row| row.0.contains(only)) {
        rows.push(hand_over(options, &parent, name, *place)?);
    }
    rows.extend(beside::rows(options, &parent)?);
    if let Some(path) = &options.json {
        json::write(path, "handoff", &rows)?;
    }
    let others = busy.others();
    let said = format!(
        "{} runs, of throughput {} alternations; others kept {others:.2} cores busy\n\n{}",
        options.rounds,
        options.turns,
        table::markdown(&rows)
    );
    Ok((said, rows.iter().all(|row| row.met != Some(false))))
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
