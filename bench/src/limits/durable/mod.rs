//! `forebay-bench limits durable`: what reaches the disk, and how fast, beside loops that do
//! nothing but write on the same disk in the same run (design.md section 11).

mod beside;
mod ours;
mod report;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use self::ours::Setting;
use self::report::{Row, Target};
use super::figures::quantile_micros;
use super::json;
use super::raw::{self, Extents};
use super::table;
use forebay::Stage;

const MIB: u64 = 1 << 20;
const FRAME_BYTES: usize = 32 << 10;
/// Appends of one measurement, one at a time.
const SINGLES: usize = 1_500;
/// The same with pauses, in which a shard parks.
const SINGLES_PARKED: usize = 200;
const PAUSE: Duration = Duration::from_millis(5);
/// What two spares hold: written before the burst.
const BURST_BYTES: u64 = 128 * MIB;

/// Options of the measurement.
#[derive(Debug, Clone, Args)]
pub struct DurableOptions {
    /// Alternations; the median counts.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// MB (2^20) of a sustained measurement.
    #[arg(long, default_value_t = 768)]
    pub mb: u64,
    /// Core of the shard.
    #[arg(long, default_value_t = 1)]
    pub shard_core: usize,
    /// Core of the producer and the yardstick.
    #[arg(long, default_value_t = 0)]
    pub load_core: usize,
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

type Measure = fn(&DurableOptions, &Path) -> Result<(f64, f64), Box<dyn Error>>;

const MEASURES: [(&str, &str, Target, Measure); 7] = [
    (
        "durable append 4 KiB, one at a time, awake: p50",
        "us",
        Target::AtMost(1.3),
        |o, dir| one_at_a_time(o, dir, Duration::ZERO),
    ),
    (
        "durable append 4 KiB, from parked: p50",
        "us",
        Target::AtMost(1.8),
        |o, dir| one_at_a_time(o, dir, PAUSE),
    ),
    (
        "group commit 32 KiB, 64 MiB segments, burst",
        "MB/s",
        Target::AtLeast(0.85),
        |o, dir| groups(o, dir, 64 * MIB, Extents::Written, BURST_BYTES),
    ),
    (
        "group commit 32 KiB, 64 MiB segments, sustained",
        "MB/s",
        Target::AtLeast(0.85),
        |o, dir| groups(o, dir, 64 * MIB, Extents::FilledBeside, o.mb * MIB),
    ),
    (
        "no sync 32 KiB, 64 MiB segments",
        "MB/s",
        Target::AtLeast(0.9),
        |o, dir| unsynced(o, dir, 64 * MIB),
    ),
    (
        "no sync 32 KiB, 4 MiB segments",
        "MB/s",
        Target::AtLeast(0.8),
        |o, dir| unsynced(o, dir, 4 * MIB),
    ),
    (
        "append while another slot syncs, rotates, trims: p99.9",
        "us",
        Target::AtMost(2.0),
        |o, dir| {
            let p999 = |name: &str, disturbed| {
                let times = beside::appends(&dir.join(name), o.shard_core, disturbed);
                times.map(|mut times| quantile_micros(&mut times, 0.999))
            };
            Ok((p999("alone", false)?, p999("disturbed", true)?))
        },
    ),
];

/// Runs the measurement; answers what it found and whether the targets were met.
pub fn run(options: &DurableOptions) -> Result<(String, bool), Box<dyn Error>> {
    let parent = options.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    core_affinity::set_for_current(core_affinity::CoreId {
        id: options.load_core,
    });
    let mut rows = Vec::new();
    for (name, unit, target, measure) in MEASURES {
        if options
            .only
            .as_ref()
            .is_some_and(|only| !name.contains(only.as_str()))
        {
            continue;
        }
        let mut pairs = Vec::new();
        for _ in 0..options.rounds {
            let dir = tempfile::tempdir_in(&parent)?;
            pairs.push(measure(options, dir.path())?);
        }
        rows.push(Row {
            name,
            unit,
            target,
            pairs,
        });
        eprintln!("{}", rows[rows.len() - 1]);
    }
    let holds = rows.iter().all(Row::holds);
    let rows: Vec<_> = rows.iter().map(Row::to_json).collect();
    if let Some(path) = &options.json {
        json::write(path, "durable", &rows)?;
    }
    let rounds = options.rounds;
    let said = format!("{rounds} rounds\n\n{}", table::markdown(&rows));
    Ok((said, holds))
}

/// Median time of the yardstick and of `flush()`, in microseconds.
fn one_at_a_time(
    options: &DurableOptions,
    dir: &Path,
    pause: Duration,
) -> Result<(f64, f64), Box<dyn Error>> {
    let parked = !pause.is_zero();
    let count = if parked { SINGLES_PARKED } else { SINGLES };
    let mut raw = raw::singles(dir, count, pause, Extents::Written)?;
    let setting = Setting {
        dir,
        mode: "flush",
        segment_bytes: 16 * MIB,
        core: options.shard_core,
        spins: !parked,
    };
    let mut ours = ours::singles(setting, count, pause)?;
    Ok((
        quantile_micros(&mut raw, 0.5),
        quantile_micros(&mut ours, 0.5),
    ))
}

/// MB/s of group commits.
fn groups(
    options: &DurableOptions,
    dir: &Path,
    segment_bytes: u64,
    extents: Extents,
    bytes: u64,
) -> Result<(f64, f64), Box<dyn Error>> {
    let count = usize::try_from(bytes / segment_bytes)?;
    let raw = raw::groups(dir, count, segment_bytes, extents, true)?;
    let setting = Setting {
        dir,
        mode: "flush",
        segment_bytes,
        core: options.shard_core,
        spins: true,
    };
    let ours = ours::groups(setting, bytes, FRAME_BYTES, Stage::Stable)?;
    Ok((raw / 1e6, ours / 1e6))
}

/// MB/s of writes that nobody syncs.
fn unsynced(
    options: &DurableOptions,
    dir: &Path,
    segment_bytes: u64,
) -> Result<(f64, f64), Box<dyn Error>> {
    let bytes = options.mb * MIB;
    let count = usize::try_from(bytes / segment_bytes)?;
    let raw = raw::groups(dir, count, segment_bytes, Extents::FreshBeside, false)?;
    let setting = Setting {
        dir,
        mode: "memory",
        segment_bytes,
        core: options.shard_core,
        spins: true,
    };
    let ours = ours::groups(setting, bytes, FRAME_BYTES, Stage::Written)?;
    Ok((raw / 1e6, ours / 1e6))
}
