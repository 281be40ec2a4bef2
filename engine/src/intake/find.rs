//! Finding the rings that a slot's processes left: in the slot, where its record says, and where
//! new ones go now.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::header::IntakeId;
use super::record::{Record, RingPlace, outside};
use crate::error::Error;
use crate::io::{EntryKind, Fs};
use crate::slot::names::{INTAKE, intake_number};

/// The rings of a slot, by number.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What `.intake-id` says, if there is one.
    pub(crate) record: Option<Record>,
    /// Files that are there; capacities as the file sizes imply.
    pub(crate) rings: Vec<(RingPlace, PathBuf)>,
    /// Rings that are listed and whose files are not there.
    pub(crate) missing: Vec<RingPlace>,
}

/// Looks for the rings of `slot`; `dir` is where new ones go, if not there.
pub(crate) fn find(fs: &dyn Fs, slot: &Path, dir: Option<&Path>) -> Result<Found, Error> {
    let record = Record::read(fs, slot)
        .map_err(|source| Error::disk("read .intake-id in", slot, 0, source))?;
    let mut rings = list(fs, slot, INTAKE, None)?;
    if let Some(record) = &record {
        let listed = record.rings.iter().filter_map(|ring| ring.dir.as_deref());
        let dirs: BTreeSet<&Path> = listed.chain(dir).collect();
        for dir in dirs {
            rings.extend(list(fs, dir, &outside(&record.id), Some(dir))?);
        }
    }
    let id: IntakeId = record.as_ref().map_or([0; 16], |record| record.id);
    let mut rings: Vec<_> = rings
        .into_iter()
        .map(|ring| {
            let path = ring.path(slot, &id);
            (ring, path)
        })
        .collect();
    rings.sort_by_key(|(ring, _)| ring.number);
    let there = |listed: &RingPlace| {
        let same =
            |(ring, _): &(RingPlace, _)| (ring.number, &ring.dir) == (listed.number, &listed.dir);
        rings.iter().any(same)
    };
    let listed = record.iter().flat_map(|record| &record.rings);
    let missing = listed.filter(|ring| !there(ring)).cloned().collect();
    Ok(Found {
        record,
        rings,
        missing,
    })
}

fn list(
    fs: &dyn Fs,
    place: &Path,
    prefix: &str,
    dir: Option<&Path>,
) -> Result<Vec<RingPlace>, Error> {
    let entries = match fs.entries(place) {
        // A directory outside the slot that is gone, with whatever was in it.
        Err(error) if error.kind() == io::ErrorKind::NotFound && dir.is_some() => Vec::new(),
        entries => entries.map_err(|source| Error::disk("list", place, 0, source))?,
    };
    let files = entries.into_iter().filter(|e| e.kind == EntryKind::File);
    let ring = files.filter_map(|entry| {
        Some(RingPlace {
            number: intake_number(&entry.name, prefix)?,
            capacity: entry.bytes,
            dir: dir.map(Path::to_path_buf),
        })
    });
    Ok(ring.collect())
}

/// Whether a slot's intake holds anything, as far as one can tell without owning it.
pub(crate) fn is_filled(fs: &dyn Fs, slot: &Path) -> bool {
    let Ok(found) = find(fs, slot, None) else {
        return false;
    };
    found.rings.iter().any(|(ring, path)| {
        let cursors = super::recover::look(fs, ring, path);
        // What cannot be read is the owner's to judge.
        cursors.is_none_or(|cursors| cursors.head < cursors.tail)
    })
}
