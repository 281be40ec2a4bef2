//! How much a sender keeps while no server is there.

use std::error::Error;
use std::fs::read_dir;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use super::contender::Contender;
use super::figures::Figures;
use super::raw::ROW_BYTES;
use crate::limits::figures::float;

/// Where it ends if nobody refuses: 4 GiB of rows.
const ROWS_MAX: u64 = (4 << 30) / ROW_BYTES;

/// Batches until one is refused.
pub(super) fn measure(
    contender: &mut dyn Contender,
    batch: u64,
    dir: &Path,
) -> Result<Figures, Box<dyn Error>> {
    let begun = Instant::now();
    let mut row = 0;
    while row < ROWS_MAX {
        contender.fill(row..row + batch)?;
        if let Err(refusal) = contender.hand_over(row..row + batch) {
            eprintln!("after {row} rows: {refusal}");
            break;
        }
        row += batch;
    }
    let mut figures = Figures::default();
    figures.set("stored_mib", float(row * ROW_BYTES) / float(1 << 20));
    figures.set("disk_mib", float(disk_bytes(dir)) / float(1 << 20));
    figures.set("seconds", begun.elapsed().as_secs_f64());
    Ok(figures)
}

/// Bytes of all files below `dir`, as the filesystem counts them.
fn disk_bytes(dir: &Path) -> u64 {
    let mut bytes = 0;
    for entry in read_dir(dir).into_iter().flatten().flatten() {
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        };
    }
    bytes
}
