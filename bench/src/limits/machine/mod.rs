//! `forebay-bench limits machine`: what disk, loopback and cores do without any engine. Nothing of
//! it has a target: these are the figures that the others are held against.

mod cores;
mod cpu;
mod net;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::figures::{Spread, float, quantile_micros};
use super::json::{self, JsonRow};
use super::raw::{self, Completions, Extents, Target};
use super::raw_read;
use super::table;

const MIB: u64 = 1 << 20;
const FILE_BYTES: u64 = 64 * MIB;
const SINGLES: usize = 500;

/// Options of the measurement.
#[derive(Debug, Clone, Args)]
pub struct MachineOptions {
    /// Repetitions; the median counts.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// MB (2^20) of a write of the disk.
    #[arg(long, default_value_t = 256)]
    pub mb: u64,
    /// Only rows whose name contains this.
    #[arg(long)]
    pub only: Option<String>,
    /// Where the files go (must be on a disk) instead of here.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Write the rows to this file as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

type Outcome = Result<f64, Box<dyn Error>>;
type Measure = fn(&MachineOptions, &Path) -> Outcome;

/// Blocks that were written before, by a ring without flags.
const PLAIN: Target = Target {
    extents: Extents::Written,
    completions: Completions::Plain,
};

const MEASURES: [(&str, &str, Measure); 18] = [
    (
        "ring writes, none synced, fresh extents",
        "MB/s",
        |o, dir| groups(o, dir, Extents::Fresh, false),
    ),
    (
        "ring writes, none synced, written extents",
        "MB/s",
        |o, dir| groups(o, dir, Extents::Written, false),
    ),
    (
        "ring writes, none synced, zero-filled beside",
        "MB/s",
        |o, dir| groups(o, dir, Extents::FilledBeside, false),
    ),
    (
        "ring writes, none synced, written extents, plain ring",
        "MB/s",
        |o, dir| groups(o, dir, PLAIN, false),
    ),
    (
        "ring writes, groups of 512 KiB synced, fresh extents",
        "MB/s",
        |o, dir| groups(o, dir, Extents::Fresh, true),
    ),
    (
        "ring writes, groups of 512 KiB synced, written extents",
        "MB/s",
        |o, dir| groups(o, dir, Extents::Written, true),
    ),
    (
        "ring writes, groups of 512 KiB synced, zero-filled beside",
        "MB/s",
        |o, dir| groups(o, dir, Extents::FilledBeside, true),
    ),
    (
        "ring writes, groups of 512 KiB synced, written extents, plain ring",
        "MB/s",
        |o, dir| groups(o, dir, PLAIN, true),
    ),
    (
        "ring writes, each 4 KiB synced, fresh extents, p50",
        "us",
        |_, dir| each(dir, Extents::Fresh),
    ),
    (
        "ring writes, each 4 KiB synced, written extents, p50",
        "us",
        |_, dir| each(dir, Extents::Written),
    ),
    (
        "ring writes, each 4 KiB synced, written extents, plain ring, p50",
        "us",
        |_, dir| each(dir, PLAIN),
    ),
    ("sequential direct read", "GB/s", read),
    ("loopback TCP, messages of 32 KiB", "GB/s", |_, _| {
        net::loopback()
    }),
    (
        "a cache line from one core to another, one way",
        "ns",
        |_, _| Ok(cores::one_way_ns()),
    ),
    ("crc32c, 32 KiB", "GB/s", |_, _| Ok(cpu::crc(32 << 10))),
    ("memcpy, 32 KiB", "GB/s", |_, _| Ok(cpu::copy(32 << 10))),
    ("memcpy, 1 MiB", "GB/s", |_, _| Ok(cpu::copy(1 << 20))),
    ("memcpy, 64 MiB", "GB/s", |_, _| Ok(cpu::copy(64 << 20))),
];

/// Runs the measurement; answers what it found.
pub fn run(options: &MachineOptions) -> Result<String, Box<dyn Error>> {
    let parent = options.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let only = options.only.as_deref().unwrap_or_default();
    let mut rows = Vec::new();
    for (name, unit, measure) in MEASURES.iter().filter(|row| row.0.contains(only)) {
        let mut values = Vec::new();
        for _ in 0..options.rounds {
            let dir = tempfile::tempdir_in(&parent)?;
            values.push(measure(options, dir.path())?);
        }
        let spread = Spread::of(values.into_iter());
        rows.push(JsonRow {
            name: (*name).to_owned(),
            unit,
            spread,
            is_ratio: false,
            target: None,
            met: None,
            of: None,
        });
    }
    if let Some(path) = &options.json {
        json::write(path, "machine", &rows)?;
    }
    Ok(format!(
        "{} rounds\n\n{}",
        options.rounds,
        table::markdown(&rows)
    ))
}

/// MB/s of writes of 512 KiB, one at a time.
fn groups(options: &MachineOptions, dir: &Path, target: impl Into<Target>, sync: bool) -> Outcome {
    let count = usize::try_from((options.mb * MIB).div_ceil(FILE_BYTES))?;
    Ok(raw::groups(dir, count, FILE_BYTES, target, sync)? / 1e6)
}

/// Median time of a write of 4 KiB with its fdatasync.
fn each(dir: &Path, target: impl Into<Target>) -> Outcome {
    let mut times = raw::singles(dir, SINGLES, Duration::ZERO, target)?;
    Ok(quantile_micros(&mut times, 0.5))
}

fn read(options: &MachineOptions, dir: &Path) -> Outcome {
    let count = usize::try_from((options.mb * MIB).div_ceil(FILE_BYTES))?;
    raw::groups(dir, count, FILE_BYTES, Extents::Fresh, false)?;
    let files: Result<Vec<_>, _> = std::fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let began = Instant::now();
    let bytes = raw_read::read(&files?)?;
    Ok(float(bytes) / began.elapsed().as_secs_f64() / 1e9)
}
