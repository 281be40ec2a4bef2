//! Looking at a ring's file without owning its slot: for tools and fuzzing, through `internals`.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use super::header::{CAPACITY_MAX, FileHeader};
use super::walk::Walk;
use crate::router::region::FRONT_BYTES;
use crate::slot::names;

/// Longest file that can be a ring.
pub const FILE_BYTES_MAX: u64 = CAPACITY_MAX + FRONT_BYTES as u64;

/// What a ring's file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// Number of the ring.
    pub number: u64,
    /// Shard that it leads to.
    pub shard: u32,
    /// Bytes of its buffer.
    pub capacity: u64,
    /// Id of the kernel's boot under which it was filled.
    pub boot: String,
    /// Everything below is written to the journal.
    pub head: u64,
    /// Everything below was accepted.
    pub tail: u64,
    /// Whole batches from `head` on.
    pub batches: u64,
    /// Rows in them.
    pub rows: u64,
    /// Batches that the shard had taken: their frames may be in the journal.
    pub taken: u64,
    /// Where a batch that was accepted is not whole.
    pub damaged_at: Option<u64>,
}

/// Reads a whole file.
///
/// # Errors
/// Why it is no ring.
pub fn ring(file: &[u8]) -> Result<Ring, String> {
    let header = FileHeader::parse(file, file.len() as u64).map_err(|bad| bad.to_string())?;
    let cursors = header.cursors(file).map_err(|bad| bad.to_string())?;
    let buffer = file.get(FRONT_BYTES..).unwrap_or_default();
    let mut walk = Walk::new(buffer, cursors.head, cursors.tail);
    let (mut batches, mut rows, mut taken) = (0_u64, 0_u64, 0_u64);
    for found in walk.by_ref() {
        batches = batches.saturating_add(1);
        rows = rows.saturating_add(u64::from(found.entry.header.rows));
        taken = taken.saturating_add(u64::from(found.stamp.is_some()));
    }
    let end = walk.position();
    Ok(Ring {
        number: header.number,
        shard: header.shard,
        capacity: header.capacity,
        boot: header.boot,
        head: cursors.head,
        tail: cursors.tail,
        batches,
        rows,
        taken,
        damaged_at: (end < cursors.tail).then_some(end),
    })
}

/// Whether a file of a slot has the name of a ring.
pub fn is_ring_name(name: &str) -> bool {
    names::intake_number(name, names::INTAKE).is_some()
}
