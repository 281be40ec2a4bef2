//! The rings of a slot's intake that lie in the slot itself.

use std::fs;

use forebay::internals::intake::{FILE_BYTES_MAX, Ring, is_ring_name, ring};

use super::dir::{Dir, Entry, Kind, read_up_to};
use crate::error::Failure;

/// A ring's file.
#[derive(Debug)]
pub(crate) struct RingEntry {
    pub(crate) name: String,
    /// What is in it, or why it is no ring.
    pub(crate) found: Result<Ring, String>,
    /// Whether it was filled since the machine was started; `None` where that cannot be learned.
    pub(crate) same_boot: Option<bool>,
}

impl RingEntry {
    /// The file in a few words.
    pub(crate) fn text(&self) -> String {
        let ring = match &self.found {
            Ok(ring) => ring,
            Err(reason) => return format!("{}: no ring: {reason}", self.name),
        };
        let mut text = format!(
            "{}: {} batches ({} rows, {} taken), {} of {} bytes",
            self.name,
            ring.batches,
            ring.rows,
            ring.taken,
            ring.tail.saturating_sub(ring.head),
            ring.capacity
        );
        if let Some(at) = ring.damaged_at {
            let note = format!(", the batch at position {at} is not whole");
            text.push_str(&note);
        }
        if self.same_boot == Some(false) {
            text.push_str(", of another boot: not delivered");
        }
        text
    }
}

/// Reads the rings among the entries of a slot. A running engine fills them meanwhile: numbers of
/// batches are those of a moment.
pub(crate) fn rings(dir: &Dir, entries: &[Entry]) -> Result<Vec<RingEntry>, Failure> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let is_ring = |entry: &&Entry| entry.kind == Kind::File && is_ring_name(&entry.name);
    let mut found = Vec::new();
    for entry in entries.iter().filter(is_ring) {
        if entry.bytes > FILE_BYTES_MAX {
            let reason = format!("{} bytes are more than a ring has", entry.bytes);
            found.push(RingEntry {
                name: entry.name.clone(),
                found: Err(reason),
                same_boot: None,
            });
            continue;
        }
        let file = match dir.open(&entry.name) {
            // Emptied and removed since it was listed.
            Err(failure) if failure.is_gone() => continue,
            file => file?,
        };
        let most = usize::try_from(entry.bytes).unwrap_or(usize::MAX);
        let bytes = read_up_to(&file, 0, most)
            .map_err(|source| Failure::read("read", &dir.join(&entry.name), source))?;
        let ring = ring(&bytes);
        let same = |boot: &String| ring.as_ref().ok().map(|ring| ring.boot == boot.trim());
        found.push(RingEntry {
            name: entry.name.clone(),
            same_boot: boot.as_ref().and_then(same),
            found: ring,
        });
    }
    Ok(found)
}
