//! A slot as it lies on the disk, read once from start to end while its owner may go on writing.
//!
//! A running engine appends, rotates and trims meanwhile. So the manifest is read before and after
//! the segments: what was the active segment before ends the chain, what is the head after starts
//! it. A finding of damage in a slot that was written to lately counts only when a second reading
//! finds the same.

pub(crate) mod dir;
pub(crate) mod dual;
pub(crate) mod intake;
pub(crate) mod lock;
mod tail;
pub(crate) mod verdict;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, SystemTime};

use forebay::internals::slot::{
    self as engine, Coverage, DictionaryHeader, Frame, Reader, SegmentFile,
};

use crate::error::Failure;
use dir::{DICTIONARY, Dir, Entry, Kind};
use dual::DualFile;
use verdict::Verdict;

/// How often a slot is read until two readings agree.
const READINGS_MAX: u32 = 5;
/// Pause between two of them: longer than a write of a busy disk.
const PAUSE: Duration = Duration::from_millis(100);
/// A slot without a change for this long before a reading began has no writes in flight.
const QUIET: Duration = Duration::from_secs(10);
/// Bytes of a segment's header.
const HEADER_LEN: usize = 24;
/// Bytes in front of a frame's payload.
const FRAME_HEADER_LEN: usize = 8;

/// All that was found.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) dir: Dir,
    pub(crate) entries: Vec<Entry>,
    /// By base, then by name.
    pub(crate) segments: Vec<SegmentEntry>,
    /// Where each is in `segments`, by name: a slot may have a hundred thousand.
    index: HashMap<String, usize>,
    pub(crate) manifest: Option<DualFile>,
    pub(crate) watermark: Option<DualFile>,
    pub(crate) dictionary: Option<DictionaryEntry>,
    /// Rings of the intake, as far as they lie in the slot.
    pub(crate) intake: Vec<intake::RingEntry>,
    pub(crate) verdict: Verdict,
    /// What an operator may want to know beside the verdict.
    pub(crate) notes: Vec<String>,
}

/// A `*.sfa` file.
#[derive(Debug)]
pub(crate) struct SegmentEntry {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) found: SegmentFile,
    /// Payload bytes of its frames that the watermark does not call acked.
    pub(crate) unacked_bytes: u64,
}

/// `.symbol-dict`.
#[derive(Debug)]
pub(crate) struct DictionaryEntry {
    pub(crate) header: DictionaryHeader,
    pub(crate) bytes: u64,
    /// End of its last valid chunk.
    pub(crate) end: u64,
    pub(crate) chunks: Vec<u32>,
    pub(crate) entries: u32,
}

impl Slot {
    /// Reads a slot.
    ///
    /// # Errors
    /// When something cannot be read at all; damage is in the verdict.
    pub(crate) fn read(dir: &Dir) -> Result<Self, Failure> {
        let mut last: Option<Verdict> = None;
        for _ in 0..READINGS_MAX {
            let quiet_since = SystemTime::now() - QUIET;
            let slot = Self::read_once(dir)?;
            let confirmed = match &slot.verdict {
                Verdict::Sound(_) | Verdict::Unknown { .. } => true,
                damaged @ Verdict::Damaged { .. } => {
                    last.as_ref() == Some(damaged) || !dir.changed_since(quiet_since)?
                }
            };
            if confirmed {
                return Ok(slot);
            }
            last = Some(slot.verdict);
            thread::sleep(PAUSE);
        }
        let mut slot = Self::read_once(dir)?;
        if matches!(slot.verdict, Verdict::Damaged { .. }) {
            slot.verdict = Verdict::Unknown {
                reason: "the slot changes faster than it can be read; try again".to_owned(),
            };
        }
        Ok(slot)
    }

    fn read_once(dir: &Dir) -> Result<Self, Failure> {
        let entries = dir.entries()?;
        if !dir::is_slot(&entries) {
            return Err(Failure::NoSlot {
                path: dir.path().to_path_buf(),
                reason: "no slot: none of its files has a name that senders use",
            });
        }
        let before = dual::manifest(dir)?;
        let watermark = dual::watermark(dir)?;
        let claimed = watermark.as_ref().and_then(|file| file.current);
        let claimed = claimed.map_or(-1, |record| record.first);
        let claimed = u64::try_from(claimed).map_or(0, |last| last.saturating_add(1));
        let (dictionary, symbols) = open_dictionary(dir)?;
        let mut coverage = symbols.cover(claimed);
        let range = before.as_ref().and_then(|file| file.current);
        let chain_range = range.map_or(0..=u64::MAX, |record| {
            let base = |value: i64| u64::try_from(value).unwrap_or(0);
            base(record.first)..=base(record.second)
        });
        let mut fold = Fold {
            coverage: &mut coverage,
            chain_range,
            claimed,
        };
        let mut segments = Vec::new();
        for peeked in segments_in_order(dir, &entries)? {
            match fold.scan(dir, peeked.name) {
                Ok(segment) => segments.push(segment),
                // Acked and removed since it was listed. If it was not, the chain has a gap.
                Err(failure) if failure.is_gone() => {}
                Err(failure) => return Err(failure),
            }
        }
        let after = dual::manifest(dir)?;
        let names = segments.iter().map(|entry| entry.name.clone());
        let mut slot = Self {
            dir: dir.clone(),
            entries,
            index: names.zip(0..).collect(),
            segments,
            manifest: after,
            watermark,
            dictionary,
            intake: Vec::new(),
            verdict: Verdict::Unknown {
                reason: String::new(),
            },
            notes: Vec::new(),
        };
        slot.verdict = verdict::judge(&slot, before.as_ref(), &mut coverage)?;
        slot.notes = verdict::notes(&slot);
        slot.intake = intake::rings(dir, &slot.entries)?;
        let rings = slot
            .intake
            .iter()
            .map(|ring| format!("intake {}", ring.text()));
        slot.notes.extend(rings);
        Ok(slot)
    }

    /// The segment called `name`, if it is one.
    pub(crate) fn segment(&self, name: &str) -> Option<(&SegmentEntry, &engine::Segment)> {
        let entry = self.segments.get(*self.index.get(name)?)?;
        match &entry.found {
            SegmentFile::Segment(segment) => Some((entry, segment)),
            _ => None,
        }
    }
}

/// A `*.sfa` file that was not scanned yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peeked<'a> {
    /// Base in its header, if it has one; that of an unused spare may still change.
    pub(crate) base: Option<u64>,
    pub(crate) name: &'a str,
    /// Whether something is where the first frame would be.
    pub(crate) is_begun: bool,
}

/// All `*.sfa` files, by base, then by name.
pub(crate) fn segments_in_order<'a>(
    dir: &Dir,
    entries: &'a [Entry],
) -> Result<Vec<Peeked<'a>>, Failure> {
    let mut found = Vec::new();
    let is_segment =
        |entry: &&Entry| entry.kind == Kind::File && engine::is_segment_name(&entry.name);
    // From the newest to the oldest: when one is begun, those before it are begun at their turn.
    for entry in entries.iter().rev().filter(is_segment) {
        if let Some(head) = dir.head_if_any(&entry.name, HEADER_LEN + FRAME_HEADER_LEN)? {
            found.push(Peeked {
                base: engine::base(&head),
                name: &entry.name,
                is_begun: head.iter().skip(HEADER_LEN).any(|byte| *byte != 0),
            });
        }
    }
    found.sort();
    Ok(found)
}

/// Opens the dictionary; an absent one is empty.
fn open_dictionary(dir: &Dir) -> Result<(Option<DictionaryEntry>, engine::Symbols), Failure> {
    let file = match dir.open(DICTIONARY) {
        Ok(file) => file,
        Err(failure) if failure.is_gone() => return Ok((None, engine::Symbols::default())),
        Err(failure) => return Err(failure),
    };
    let file = engine::symbol_file(file, &dir.join(DICTIONARY))?;
    let entry = DictionaryEntry {
        header: file.header,
        bytes: file.bytes,
        end: file.end,
        chunks: file.chunks,
        entries: file.symbols.len(),
    };
    Ok((Some(entry), file.symbols))
}

/// What is done with the frames that a scan comes by.
struct Fold<'a> {
    coverage: &'a mut Coverage,
    /// Bases of the segments that count.
    chain_range: RangeInclusive<u64>,
    /// The first FSN that the watermark does not call acked.
    claimed: u64,
}

impl Fold<'_> {
    fn scan(&mut self, dir: &Dir, name: &str) -> Result<SegmentEntry, Failure> {
        let mut unacked_bytes = 0_u64;
        let mut base = None;
        let mut visit = |frame: Frame<'_>| {
            // The first frame's number is the segment's base.
            if self.chain_range.contains(base.get_or_insert(frame.fsn)) {
                self.coverage.frame(name, &frame);
            }
            if frame.fsn >= self.claimed {
                unacked_bytes = unacked_bytes.saturating_add(u64::from(frame.payload_len));
            }
        };
        let file = dir.open(name)?;
        let (bytes, found) = Reader::default().segment(file, &dir.join(name), &mut visit)?;
        Ok(SegmentEntry {
            name: name.to_owned(),
            bytes,
            found,
            unacked_bytes,
        })
    }
}
