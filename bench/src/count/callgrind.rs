//! This program under callgrind, and the figures of its dumps.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{ROUNDS, cases};

/// Settings of the C library that follow the machine's caches, set to what no machine has: copies
/// take the same way everywhere.
const TUNABLES: &str = "glibc.cpu.x86_rep_movsb_threshold=0x40000000:\
                        glibc.cpu.x86_rep_stosb_threshold=0x40000000:\
                        glibc.cpu.x86_non_temporal_threshold=0x40000000";

/// A figure: instructions per unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The case's name.
    pub name: &'static str,
    /// What it is divided by.
    pub unit: &'static str,
    /// Instructions per unit, the mean of the rounds.
    pub instructions: f64,
    /// How far the rounds are apart, in per cent of the mean.
    pub spread_percent: f64,
}

/// Counts all cases: runs `program` with the argument `argument` under valgrind.
///
/// # Errors
/// When valgrind is missing or fails, or its dumps are not what was asked for.
pub fn count(program: &Path, argument: &str) -> Result<Vec<Figure>, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let out = dir.path().join("dump");
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        .args(["--toggle-collect=forebay_bench::count::region"])
        .args(["--dump-after=forebay_bench::count::region"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .arg(argument)
        .env("GLIBC_TUNABLES", TUNABLES)
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("valgrind cannot be started: {error}"))?;
    if !status.success() {
        return Err(format!("valgrind ended with {status}").into());
    }
    let mut dumps = 1..;
    let mut totals = || -> Result<u64, Box<dyn Error>> {
        let path = format!("{}.{}", out.display(), dumps.next().unwrap_or(0));
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("totals: "));
        Ok(line.ok_or("a dump without totals")?.trim().parse()?)
    };
    let mut figures = Vec::new();
    for case in cases() {
        let rounds: Vec<f64> = (0..ROUNDS)
            .map(|_| totals().map(as_float))
            .collect::<Result<_, _>>()?;
        let mean = rounds.iter().sum::<f64>() / as_float(ROUNDS as u64);
        let most = rounds.iter().copied().fold(0.0, f64::max);
        let least = rounds.iter().copied().fold(f64::MAX, f64::min);
        figures.push(Figure {
            name: case.name,
            unit: case.unit,
            instructions: mean / as_float(case.units as u64),
            spread_percent: 100.0 * (most - least) / mean.max(1.0),
        });
    }
    Ok(figures)
}

#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
fn as_float(count: u64) -> f64 {
    count as f64
}
