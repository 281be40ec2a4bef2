//! Loads that show what the size of an intake ring does.

use super::entries::{DISK_INTAKE, LARGE, Paced, TMPFS, USUAL, entry, job, warm_rows};
use crate::versus::entry::Entry;

/// A load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::versus) enum RingLoad {
    /// Chunks of 1,000 rows, as fast as they are taken.
    Chunks,
    /// The same with the rings on tmpfs.
    ChunksTmpfs,
    /// Rows by name.
    Rows,
    /// Rows by name of four producers.
    Many,
    /// Flushes of 1,000 rows, 500 a second.
    Flush,
    /// The same with the rings on tmpfs.
    FlushTmpfs,
}

/// The load with rings of so many bytes.
pub(in crate::versus) fn ring_load(
    load: RingLoad,
    ring_bytes: &str,
    rows: u64,
    seconds: f64,
) -> Entry {
    let place = match load {
        RingLoad::ChunksTmpfs | RingLoad::FlushTmpfs => TMPFS,
        _ => DISK_INTAKE,
    };
    let ring = format!("intake_ring_bytes={ring_bytes};");
    let keys = [LARGE, place, &ring];
    let warm = warm_rows(1_000, rows).to_string();
    let rows = rows.to_string();
    let flow = |more: &[&str]| {
        let more: Vec<&str> = more
            .iter()
            .copied()
            .chain(["--rows", &rows, "--warm-rows", &warm])
            .collect();
        entry("ring", job("flow", "ours", &keys, &more), Some(USUAL))
    };
    match load {
        RingLoad::Chunks | RingLoad::ChunksTmpfs => flow(&["--how", "chunk"]),
        RingLoad::Rows => flow(&["--how", "row"]),
        RingLoad::Many => flow(&["--how", "row", "--producers", "4"]),
        RingLoad::Flush | RingLoad::FlushTmpfs => {
            let paced = Paced {
                batch: 1_000,
                rate: 500,
                seconds,
            };
            paced.entry("ring", "ours", &[place, &ring])
        }
    }
}
