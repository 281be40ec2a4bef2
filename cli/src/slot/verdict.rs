//! Whether a slot is sound: what recovery would decide, decided by recovery's own code.

use std::path::PathBuf;

use forebay::Error;
use forebay::internals::slot::{
    self as engine, BadHeader, Coverage, DictionaryHeader, Segment, SegmentFile,
};

use super::dir::{DICTIONARY, LOCK_OWNER, MANIFEST, WATERMARK};
use super::dual::{DualFile, Form};
use super::{Slot, tail};
use crate::error::Failure;

/// What is to be said about a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It opens, and all that it promises is there.
    Sound(Chain),
    /// Bytes are not what they have to be.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset in it.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// It cannot be said.
    Unknown {
        /// Why not.
        reason: String,
    },
}

/// The segments that count and what in them is unacked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Chain {
    /// Names in FSN order, the active segment last.
    pub(crate) links: Vec<String>,
    /// First FSN on disk.
    pub(crate) lowest: u64,
    /// The FSN that the next frame gets.
    pub(crate) next: u64,
    /// First FSN that is not acked.
    pub(crate) unacked: u64,
    /// Payload bytes of the frames from there on.
    pub(crate) unacked_bytes: u64,
    /// Creation of the first segment that holds one, microseconds since the Unix epoch.
    pub(crate) oldest_created_micros: Option<u64>,
    /// Whether the watermark was believed.
    pub(crate) watermark_believed: bool,
}

/// Judges what was read, `before` being the manifest as it was before the segments were read.
pub(crate) fn judge(
    slot: &Slot,
    before: Option<&DualFile>,
    coverage: &mut Coverage,
) -> Result<Verdict, Failure> {
    if let Some(reason) = unknown_version(slot) {
        return Ok(Verdict::Unknown { reason });
    }
    let links = match (&slot.manifest, before.or(slot.manifest.as_ref())) {
        (None, _) => legacy(slot)?,
        (Some(after), before) => manifested(slot, before.unwrap_or(after), after)?,
    };
    let links = match links {
        Ok(links) => links,
        Err(damaged) => return Ok(damaged),
    };
    let chain = measure(slot, links);
    if let Some((file, offset, reason)) = coverage.misfit(chain.watermark_believed) {
        return Ok(damaged(slot, &file, offset, reason));
    }
    if let Some(damaged) = sealed_residue(slot, &chain) {
        return Ok(damaged);
    }
    if let Some(damaged) = broken_tail(slot, &chain)? {
        return Ok(damaged);
    }
    Ok(Verdict::Sound(chain))
}

fn damaged(slot: &Slot, file: &str, offset: u64, reason: String) -> Verdict {
    Verdict::Damaged {
        path: slot.dir.join(file),
        offset,
        reason,
    }
}

fn unknown_version(slot: &Slot) -> Option<String> {
    for (name, bad) in bad(slot) {
        if bad.unknown_version().is_some() {
            return Some(format!("{name}: {bad}"));
        }
    }
    match slot.dictionary.as_ref().map(|file| file.header) {
        Some(DictionaryHeader::Version(version)) => Some(format!(
            "{DICTIONARY}: version {version}, this tool reads version 1"
        )),
        _ => None,
    }
}

fn segments(slot: &Slot) -> Vec<(&str, u64, &Segment)> {
    slot.segments
        .iter()
        .filter_map(|entry| match &entry.found {
            SegmentFile::Segment(segment) => Some((entry.name.as_str(), entry.bytes, segment)),
            _ => None,
        })
        .collect()
}

/// Files that may have been segments.
fn bad(slot: &Slot) -> impl Iterator<Item = (&str, BadHeader)> {
    slot.segments.iter().filter_map(|entry| match entry.found {
        SegmentFile::Bad(bad) => Some((entry.name.as_str(), bad)),
        _ => None,
    })
}

/// Those of them that recovery does not leave alone.
fn bad_usual(slot: &Slot) -> Vec<(&str, BadHeader)> {
    let usual = |(name, _): &(&str, BadHeader)| engine::is_usual_segment_name(name);
    bad(slot).filter(usual).collect()
}

/// The chain of a slot with a manifest.
fn manifested(
    slot: &Slot,
    before: &DualFile,
    after: &DualFile,
) -> Result<Result<Vec<String>, Verdict>, Failure> {
    let bad = bad_usual(slot);
    let mut found = segments(slot);
    let (Some(first), Some(last)) = (before.current, after.current) else {
        let needed = |(_, _, segment): &(&str, u64, &Segment)| {
            segment.frames() > 0 || segment.manifest_required()
        };
        if bad.is_empty() && !found.iter().any(needed) {
            return Ok(Ok(Vec::new()));
        }
        let reason = format!("no valid record in {} bytes", after.bytes);
        return Ok(Err(damaged(slot, MANIFEST, 0, reason)));
    };
    let base = |value: i64| u64::try_from(value).unwrap_or(0);
    let (head, active) = (base(last.first), base(first.second));
    if first != last {
        // Made active after the reading began.
        found.retain(|(_, _, segment)| segment.base() <= active || segment.frames() == 0);
    }
    chain(slot, Some((head, active)), &found, &bad)
}

/// What recovery takes for the chain.
fn chain(
    slot: &Slot,
    manifest: Option<(u64, u64)>,
    found: &[(&str, u64, &Segment)],
    bad: &[(&str, BadHeader)],
) -> Result<Result<Vec<String>, Verdict>, Failure> {
    let mut blank = slot.segments.iter();
    let blank = blank.find(|entry| matches!(entry.found, SegmentFile::Blank));
    let blank = blank.map(|entry| entry.name.as_str());
    match engine::chain(slot.dir.path(), manifest, found, (bad, blank)) {
        Ok(links) => Ok(Ok(links)),
        Err(Error::Corrupt {
            path,
            offset,
            reason,
        }) => Ok(Err(Verdict::Damaged {
            path,
            offset,
            reason,
        })),
        Err(error) => Err(error.into()),
    }
}

/// The chain of a slot of the older form: all segments with frames, which have to follow each
/// other.
fn legacy(slot: &Slot) -> Result<Result<Vec<String>, Verdict>, Failure> {
    if let Some((name, bad)) = bad_usual(slot).first() {
        let reason = bad.to_string();
        return Ok(Err(damaged(slot, name, bad.offset(), reason)));
    }
    let found = segments(slot);
    if let Some((name, ..)) = found.iter().find(|(_, _, s)| s.manifest_required()) {
        let reason = format!("missing, and the flag of {name} says that it must be there");
        return Ok(Err(damaged(slot, MANIFEST, 0, reason)));
    }
    chain(slot, None, &found, &[])
}

fn measure(slot: &Slot, links: Vec<String>) -> Chain {
    let found: Vec<_> = links.iter().filter_map(|name| slot.segment(name)).collect();
    let (Some((_, first)), Some((_, last))) = (found.first(), found.last()) else {
        return Chain::default();
    };
    let (lowest, next) = (first.base(), last.end_fsn());
    let claimed = slot.watermark.as_ref().and_then(|file| file.current);
    let claimed = claimed.map_or(-1, |record| record.first);
    let (unacked, watermark_believed) = engine::acked(lowest, next, claimed);
    let holds_unacked = |segment: &Segment| segment.end_fsn() > unacked && segment.frames() > 0;
    let mut unacked_bytes = 0_u64;
    for (entry, segment) in &found {
        // Behind the header: eight bytes a frame, the rest is payload.
        let frames_bytes = segment.end().saturating_sub(24);
        let payloads = frames_bytes.saturating_sub(segment.frames().saturating_mul(8));
        unacked_bytes = unacked_bytes.saturating_add(if watermark_believed {
            entry.unacked_bytes
        } else {
            payloads
        });
    }
    let oldest = found.iter().find(|(_, segment)| holds_unacked(segment));
    Chain {
        lowest,
        next,
        unacked,
        unacked_bytes,
        oldest_created_micros: oldest.map(|(_, segment)| segment.created_micros()),
        watermark_believed,
        links,
    }
}

/// Bytes behind the last frame of a sealed segment: nothing is lost, the next start repairs it, but
/// somebody wrote where nobody should.
fn sealed_residue(slot: &Slot, chain: &Chain) -> Option<Verdict> {
    let sealed = chain.links.len().saturating_sub(1);
    let links = chain.links.iter().take(sealed);
    links
        .filter_map(|name| slot.segment(name))
        .find_map(|(entry, segment)| {
            let (first, _) = segment.residue()?;
            let reason = "bytes behind the last frame of a sealed segment; the next start keeps a \
                          copy and zeroes them";
            Some(damaged(slot, &entry.name, first, reason.to_owned()))
        })
}

/// Frames behind a broken one in the active segment would be lost.
fn broken_tail(slot: &Slot, chain: &Chain) -> Result<Option<Verdict>, Failure> {
    let active = chain.links.last().and_then(|name| slot.segment(name));
    let Some((entry, segment)) = active else {
        return Ok(None);
    };
    let Some((first, last)) = segment.residue() else {
        return Ok(None);
    };
    let behind = tail::whole_frame_within(&slot.dir, &entry.name, first, last)?;
    Ok(behind.map(|at| {
        let reason = format!(
            "frame {} is broken, and whole frames lie behind it, one at offset {at}",
            segment.end_fsn()
        );
        damaged(slot, &entry.name, segment.end(), reason)
    }))
}

/// What is worth a line though it is no damage.
pub(crate) fn notes(slot: &Slot) -> Vec<String> {
    let mut notes = Vec::new();
    let has = |name: &str| slot.entries.iter().any(|entry| entry.name == name);
    if let Verdict::Sound(chain) = &slot.verdict {
        for (entry, segment) in chain.links.iter().filter_map(|name| slot.segment(name)) {
            if segment.residue().is_some() {
                notes.push(format!(
                    "{}: torn tail of {} bytes at offset {}",
                    entry.name,
                    entry.bytes.saturating_sub(segment.end()),
                    segment.end()
                ));
            }
        }
        if !chain.watermark_believed && !chain.links.is_empty() {
            notes.push(format!(
                "{WATERMARK} claims frames that do not exist: it does not count"
            ));
        }
        if slot.manifest.is_none() && !chain.links.is_empty() {
            notes.push(format!("an older client's slot: there is no {MANIFEST}"));
        }
    }
    let files = [(MANIFEST, &slot.manifest), (WATERMARK, &slot.watermark)];
    for (name, file) in files {
        let file = file.as_ref().filter(|file| file.form != Form::Present);
        if let Some(file) = file {
            notes.push(format!(
                "{name}: not the present form: {} bytes",
                file.bytes
            ));
        }
    }
    if let Some(file) = &slot.dictionary {
        let torn = file.bytes.saturating_sub(file.end);
        if file.header == DictionaryHeader::Unknown {
            notes.push(format!("{DICTIONARY}: no dictionary of this format"));
        } else if torn > 0 {
            notes.push(format!("{DICTIONARY}: {torn} bytes behind its last chunk"));
        }
    }
    for (name, bad) in bad(slot) {
        notes.push(format!("{name}: {bad}"));
    }
    if has(".failed") {
        notes.push(".failed keeps drainers from it".to_owned());
    }
    if has(LOCK_OWNER) {
        notes.push(format!(
            "{LOCK_OWNER}: a Node.js client holds it, or died holding it"
        ));
    }
    notes
}
