//! Taking over the rings that a process left: which of their entries are still to be delivered.
//!
//! Nothing is appended here. Entries whose frames are in the chain are skipped, on proof; the rest
//! stays where it is, and its ring is handed to the shard as that of a producer that is gone. Stamps
//! without proof are wiped before anything new gets their FSNs. Every step may be repeated by the
//! next start if this one dies.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::find::{Found, find};
use super::header::{Cursors, FileHeader};
use super::proof::proven;
use super::record::{Record, RingPlace, free_lost_name};
use super::report::IntakeReport;
use super::walk::{Stamp, Walk};
use crate::error::Error;
use crate::io::{Fs, OpenMode};
use crate::router::region::{FRONT_BYTES, Region};
use crate::router::ring::Reader;
use crate::slot::OpenedSlot;

/// A ring whose entries are to be delivered.
#[derive(Debug)]
pub(crate) struct LeftRing {
    /// Its number.
    pub(crate) number: u64,
    /// Bytes of its buffer.
    pub(crate) capacity: u64,
    /// Positioned at its first entry.
    pub(crate) reader: Reader,
    /// Entries in it.
    pub(crate) entries: u64,
}

/// What was found of an intake.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The intake as it is now.
    pub(crate) record: Record,
    /// First number for new rings.
    pub(crate) next: u64,
    /// Rings with entries, oldest first.
    pub(crate) rings: Vec<LeftRing>,
    /// Bytes of the largest message that one of the entries may become.
    pub(crate) message_bytes_max: u64,
    /// What operators are told.
    pub(crate) report: IntakeReport,
}

/// A ring's file that is what it says.
struct Checked {
    place: RingPlace,
    path: PathBuf,
    region: Region,
    cursors: Cursors,
    /// Behind the last whole entry.
    end: u64,
    stamps: BTreeSet<Stamp>,
    message_bytes_max: u64,
}

/// Takes over what `slot` has of an intake; `dir` is where new rings go, if not in the slot. The
/// slot's lock is held and its chain is final.
pub(crate) fn recover(
    fs: &dyn Fs,
    slot: &OpenedSlot,
    dir: Option<&Path>,
) -> Result<Recovered, Error> {
    let found = find(fs, &slot.dir, dir)?;
    let mut report = IntakeReport::default();
    report.missing(&slot.dir, &found.missing);
    let boot = fs.machine().boot;
    let mut checked = Vec::new();
    for (place, path) in &found.rings {
        let judged = check(fs, &found, place, path, &boot, &mut report)?;
        checked.extend(judged);
    }
    let wanted: BTreeSet<Stamp> = checked
        .iter()
        .flat_map(|ring| &ring.stamps)
        .copied()
        .collect();
    let proven = proven(fs, slot, &wanted)?;
    let mut rings = Vec::new();
    let mut places = Vec::new();
    let mut spent = Vec::new();
    let mut message_bytes_max = 0;
    for ring in checked {
        let (number, capacity) = (ring.place.number, ring.region.capacity());
        message_bytes_max = message_bytes_max.max(ring.message_bytes_max);
        let (head, entries) = skip(&ring, &proven, &mut report);
        if entries == 0 {
            spent.push(ring.path);
            continue;
        }
        places.push(RingPlace {
            capacity,
            ..ring.place
        });
        rings.push(LeftRing {
            number,
            capacity,
            reader: Reader::attach(ring.region, head, ring.end),
            entries,
        });
    }
    let numbers = found.rings.iter().map(|(ring, _)| ring.number);
    let numbers = numbers.chain(found.missing.iter().map(|ring| ring.number));
    let next = numbers.max().map_or(0, |last| last.saturating_add(1));
    let before = found.record.as_ref().map_or(0, |record| record.rings.len());
    let mut record = found.record.unwrap_or_else(|| Record::new(fs));
    if before > 0 || record.rings != places {
        record.rings = places;
        let written = record.write(fs, &slot.dir);
        written.map_err(|source| Error::disk("write .intake-id in", &slot.dir, 0, source))?;
    }
    for path in spent {
        fs.unlink(&path)
            .map_err(|source| Error::disk("unlink", &path, 0, source))?;
    }
    report.log(&slot.dir);
    Ok(Recovered {
        record,
        next,
        rings,
        message_bytes_max,
        report,
    })
}

/// The cursors of a ring's file that is what it says; nothing is changed.
pub(super) fn look(fs: &dyn Fs, place: &RingPlace, path: &Path) -> Option<Cursors> {
    let file = fs.open(path, OpenMode::Read).ok()?;
    let mut front = [0; FRONT_BYTES];
    let len = fs.read_at(&file, &mut front, 0).ok()?;
    let front = front.get(..len)?;
    let header = FileHeader::parse(front, place.capacity).ok()?;
    header.cursors(front).ok()
}

/// Judges one file. `None`: nothing of it is delivered, which was told, counted and done.
fn check(
    fs: &dyn Fs,
    found: &Found,
    place: &RingPlace,
    path: &Path,
    boot: &str,
    report: &mut IntakeReport,
) -> Result<Option<Checked>, Error> {
    let disk = |op| move |source| Error::disk(op, path, 0, source);
    let file = fs.open(path, OpenMode::ReadWrite).map_err(disk("open"))?;
    let mut front = [0; FRONT_BYTES];
    let len = fs.read_at(&file, &mut front, 0).map_err(disk("read"))?;
    let front = &front[..len];
    // Of a file that was found, the place has the size.
    let size = place.capacity;
    let parsed = FileHeader::parse(front, size)
        .and_then(|header| header.cursors(front).map(|cursors| (header, cursors)));
    let (header, cursors) = match parsed {
        Ok(parsed) => parsed,
        Err(reason) => {
            report.unusable(path, size, &reason.to_string());
            return set_aside(fs, path).map(|()| None);
        }
    };
    let strange = found
        .record
        .as_ref()
        .is_some_and(|record| record.id != header.id);
    let bytes = usize::try_from(size).expect("at most 1 GiB and a page");
    let memory = fs.map(&file, bytes).map_err(disk("map"))?;
    let region = Region::shared(memory);
    let buffer = region.quiet_buffer();
    if strange {
        report.unusable(path, size, "it belongs to another slot's intake");
        return set_aside(fs, path).map(|()| None);
    }
    if header.boot.is_empty() || header.boot != boot {
        // What a power cut left of the cursors says little: every entry that follows counts.
        let all = cursors.head.saturating_add(header.capacity);
        let mut walk = Walk::new(buffer, cursors.head, all);
        let entries = walk.by_ref().count() as u64;
        let bytes = walk.position() - cursors.head;
        if entries == 0 && cursors.head == cursors.tail {
            fs.unlink(path).map_err(disk("unlink"))?;
            return Ok(None);
        }
        report.other_boot(path, entries, bytes.max(cursors.tail - cursors.head));
        return set_aside(fs, path).map(|()| None);
    }
    let mut walk = Walk::new(buffer, cursors.head, cursors.tail);
    let mut stamps = BTreeSet::new();
    let mut message_bytes_max = 0;
    for entry in walk.by_ref() {
        stamps.extend(entry.stamp);
        message_bytes_max = message_bytes_max.max(entry.entry.header.message_bytes_max() as u64);
    }
    let end = walk.position();
    if end < cursors.tail {
        report.damaged(path, end, cursors.tail - end);
        keep_copy(fs, path, &region)?;
    }
    Ok(Some(Checked {
        place: place.clone(),
        path: path.to_path_buf(),
        region,
        cursors,
        end,
        stamps,
        message_bytes_max,
    }))
}

/// Skips the entries at the front whose frames are in the chain, and wipes the stamps of all
/// others: their FSNs will be given to other frames. Answers where to begin, and how many entries
/// there are from there.
fn skip(ring: &Checked, proven: &BTreeSet<Stamp>, report: &mut IntakeReport) -> (u64, u64) {
    let (mut head, mut entries) = (ring.cursors.head, 0);
    let mut stamped = Vec::new();
    for entry in Walk::new(ring.region.quiet_buffer(), ring.cursors.head, ring.end) {
        if entries == 0 && entry.stamp.is_some_and(|stamp| proven.contains(&stamp)) {
            head = entry.end;
            report.skipped += 1;
            continue;
        }
        entries += 1;
        if entry.stamp.is_some() {
            stamped.push(entry.position);
        }
    }
    for position in stamped {
        ring.region.wipe_stamp(position);
    }
    report.recovered += entries;
    (head, entries)
}

/// Keeps a ring's file under the name of one whose entries are not delivered.
fn set_aside(fs: &dyn Fs, path: &Path) -> Result<(), Error> {
    free_lost_name(fs, path)
        .and_then(|lost| fs.rename(path, &lost))
        .map_err(|source| Error::disk("rename", path, 0, source))
}

/// Keeps a copy of a ring whose last entries are damaged, beside it.
fn keep_copy(fs: &dyn Fs, path: &Path, region: &Region) -> Result<(), Error> {
    let copy = || {
        let lost = free_lost_name(fs, path)?;
        let file = fs.open(&lost, OpenMode::CreateNew)?;
        fs.write_at(&file, region.quiet_front(), 0)?;
        fs.write_at(&file, region.quiet_buffer(), FRONT_BYTES as u64)?;
        fs.sync(&file)
    };
    copy().map_err(|source| Error::disk("copy", path, 0, source))
}
