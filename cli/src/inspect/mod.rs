//! `forebay inspect`: what is in a slot.

mod json;
mod text;

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::Outcome;
use crate::error::Failure;
use crate::slot::dir::{DICTIONARY, Dir, Kind};
use crate::slot::lock;
use crate::slot::verdict::Verdict;
use crate::slot::{SegmentEntry, Slot};
use forebay::internals::slot::{SegmentFile, is_segment_name, symbol_file};

/// Most bytes of a reason file that are shown.
const REASON_BYTES_MAX: usize = 4096;

/// Shows segments, manifest, watermark, dictionary, lock, unacked frames and leftovers of a slot.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The slot: `<sf_dir>/<sender_id>`.
    #[arg(value_name = "SLOT")]
    slot: PathBuf,
    /// One JSON object, with the keys that docs/cli.md lists.
    #[arg(long)]
    json: bool,
    /// Also every symbol and the size of every chunk (with --json).
    #[arg(long, requires = "json")]
    symbols: bool,
}

/// A file beside those that make up a slot.
#[derive(Debug)]
struct Leftover {
    name: String,
    /// What it is, in a word.
    kind: &'static str,
    bytes: u64,
    /// Its text, where it is one for people.
    reason: Option<String>,
}

impl InspectArgs {
    pub(crate) fn execute(self, out: &mut impl Write) -> Result<Outcome, Failure> {
        let dir = Dir::new(&self.slot);
        let slot = Slot::read(&dir)?;
        let lock = lock::look(&dir)?;
        let leftovers = leftovers(&slot)?;
        if self.json {
            let symbols = if self.symbols && slot.dictionary.is_some() {
                Some(symbols(&dir)?)
            } else {
                None
            };
            json::write(&slot, &lock, &leftovers, symbols, out)?;
        } else {
            text::write(&slot, &lock, &leftovers, out)?;
        }
        Ok(Outcome::Sound)
    }
}

/// All symbols of the dictionary.
fn symbols(dir: &Dir) -> Result<Vec<String>, Failure> {
    let file = symbol_file(dir.open(DICTIONARY)?, &dir.join(DICTIONARY))?;
    let ids = 0..file.symbols.len();
    Ok(ids
        .map(|id| file.symbols.get(id).unwrap_or_default().to_owned())
        .collect())
}

/// Files with a meaning that are no part of the slot, and those that nobody knows.
fn leftovers(slot: &Slot) -> Result<Vec<Leftover>, Failure> {
    use crate::slot::dir::{LOCK, LOCK_OWNER, LOCK_PID, MANIFEST, WATERMARK};
    let own = [MANIFEST, WATERMARK, DICTIONARY, LOCK, LOCK_PID];
    let mut found = Vec::new();
    for entry in &slot.entries {
        let name = entry.name.as_str();
        let kind = match (name, entry.kind) {
            (".failed", Kind::File) => "failed",
            (".last_error", Kind::File) => "last error",
            (".slot-id", Kind::File) => "slot identity",
            (".shards", Kind::File) => "number of shards",
            (LOCK_OWNER, Kind::Directory) => "Node.js owner",
            (_, Kind::File) if own.contains(&name) || is_segment_name(name) => continue,
            (_, Kind::File) if name.ends_with(".corrupt") => "set aside",
            (_, Kind::File) if name.contains(".torn-") => "torn tail",
            _ => "foreign",
        };
        let is_reason = matches!(kind, "failed" | "last error");
        let reason = if is_reason {
            let bytes = slot.dir.head_if_any(name, REASON_BYTES_MAX)?;
            bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        } else {
            None
        };
        found.push(Leftover {
            name: name.to_owned(),
            kind,
            bytes: entry.bytes,
            reason,
        });
    }
    Ok(found)
}

/// What each segment is to its slot, in the order of `slot.segments`.
fn roles(slot: &Slot) -> Vec<&'static str> {
    let chain = match &slot.verdict {
        Verdict::Sound(chain) => Some(chain),
        Verdict::Damaged { .. } | Verdict::Unknown { .. } => None,
    };
    let links = chain.map_or(&[][..], |chain| &chain.links);
    let sealed: HashSet<&str> = links.iter().map(String::as_str).collect();
    let active = links.last();
    let role = |entry: &SegmentEntry| match &entry.found {
        SegmentFile::Blank => "blank",
        SegmentFile::Bad(_) => "bad",
        SegmentFile::Segment(_) if chain.is_none() => "unknown",
        SegmentFile::Segment(_) if active == Some(&entry.name) => "active",
        SegmentFile::Segment(_) if sealed.contains(entry.name.as_str()) => "sealed",
        SegmentFile::Segment(segment) if segment.frames() == 0 => "spare",
        SegmentFile::Segment(_) => "acked",
    };
    slot.segments.iter().map(role).collect()
}

/// Manifest or watermark in the words of its format.
fn record_keys(manifest: bool) -> (&'static str, Option<&'static str>) {
    if manifest {
        ("head_base", Some("active_base"))
    } else {
        ("acked_fsn", None)
    }
}

/// File and offset of damage within the slot, as one text.
fn place(path: &std::path::Path, offset: u64) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{name} at offset {offset}")
}
