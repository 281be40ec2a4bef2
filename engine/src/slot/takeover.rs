//! Taking a slot over: what is there, made stable before anything is decided on it.
//!
//! A process that was killed may have left direct writes in flight that land later. Reserving the
//! blocks of a file waits for them. So every segment that may still be written to is reserved, all
//! files and the directory are synced, and only then the contents are read (design.md section 4).
//!
//! With many segments the sealed ones are synced by one syncfs: a sync of each would flush the
//! disk's cache each time. The others are synced one by one in any case, after it: on XFS a syncfs
//! that finds nothing to write does not flush that cache, an fdatasync does.

use std::io;
use std::path::Path;

use super::dual::{Content, DualFile};
use super::frame::FRAME_HEADER_LEN;
use super::names::{self, DICTIONARY, MANIFEST, WATERMARK};
use super::open::sync_dir;
use super::record::Kind;
use super::segment::SegmentHeader;
use super::spare::segment_error;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::io::{Entry, EntryKind, Fs, OpenMode};

/// With more segments than this the sealed ones are synced together.
const SYNC_EACH_MAX: usize = 64;

/// A `*.sfa` file before its scan.
#[derive(Debug)]
pub(crate) struct Peeked {
    /// File name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Base in its header, if it has one.
    pub base: Option<Fsn>,
}

/// State of `sf-manifest.bin`.
#[derive(Debug)]
pub(crate) enum Manifest {
    /// There is none.
    Absent,
    /// Another size, or no valid record.
    Invalid,
    /// It says which segments count.
    Valid {
        /// The file.
        file: DualFile,
        /// It has an older form and must be rewritten before the slot is used.
        older: bool,
    },
}

/// What is in a slot directory.
#[derive(Debug)]
pub(crate) struct Survey {
    /// All `*.sfa` files by base, then by age.
    pub segments: Vec<Peeked>,
    /// The manifest.
    pub manifest: Manifest,
    /// Whether there is a watermark file.
    pub watermark: bool,
    /// Whether there is a dictionary file.
    pub dictionary: bool,
    /// Files that an open which died was about to give a name.
    pub temporaries: Vec<String>,
    /// The first generation that no file has, or had when it was set aside.
    pub next_generation: Generation,
}

/// Makes everything in `dir` stable and says what it is.
pub(crate) fn survey(fs: &dyn Fs, dir: &Path, entries: &[Entry]) -> Result<Survey, Error> {
    let files = || entries.iter().filter(|entry| entry.kind == EntryKind::File);
    let has = |name: &str| files().any(|entry| entry.name == name);
    for name in [MANIFEST, WATERMARK, DICTIONARY]
        .into_iter()
        .filter(|name| has(name))
    {
        sync(fs, &dir.join(name))?;
    }
    let manifest = read_manifest(fs, dir, has(MANIFEST))?;
    let active = match &manifest {
        Manifest::Valid { file, .. } => u64::try_from(file.second).unwrap_or(0),
        Manifest::Absent | Manifest::Invalid => 0,
    };
    let segments = settle_all(fs, dir, entries, active)?;
    sync_dir(fs, dir)?;
    Ok(Survey {
        segments,
        manifest,
        watermark: has(WATERMARK),
        dictionary: has(DICTIONARY),
        temporaries: files()
            .filter(|entry| names::is_temporary(&entry.name))
            .map(|entry| entry.name.clone())
            .collect(),
        next_generation: next_generation(dir, entries)?,
    })
}

fn read_manifest(fs: &dyn Fs, dir: &Path, present: bool) -> Result<Manifest, Error> {
    if !present {
        return Ok(Manifest::Absent);
    }
    let path = dir.join(MANIFEST);
    match DualFile::open(fs, &path, Kind::Manifest) {
        Ok((file, content)) if content.is_valid() => Ok(Manifest::Valid {
            file,
            older: content == Content::Older,
        }),
        Ok(_) => Ok(Manifest::Invalid),
        Err(source) => Err(Error::disk("read", &path, 0, source)),
    }
}

/// Whether it is a file that may be a segment.
pub(super) fn is_segment_file(entry: &Entry) -> bool {
    entry.kind == EntryKind::File && names::is_segment(&entry.name)
}

/// Waits for writes in flight to segments and makes all of them stable.
fn settle_all(
    fs: &dyn Fs,
    dir: &Path,
    entries: &[Entry],
    active: u64,
) -> Result<Vec<Peeked>, Error> {
    let count = entries.iter().filter(|e| is_segment_file(e)).count();
    let together = count > SYNC_EACH_MAX;
    let mut segments = Vec::with_capacity(count);
    let mut last = Vec::new();
    for entry in entries.iter().filter(|e| is_segment_file(e)) {
        let (peeked, was_reserved) = settle(fs, dir, &entry.name, active)?;
        if !together {
            sync(fs, &dir.join(&peeked.name))?;
        } else if was_reserved {
            last.push(peeked.name.clone());
        }
        segments.push(peeked);
    }
    if together {
        fs.sync_filesystem(dir)
            .map_err(|source| Error::disk("sync the filesystem of", dir, 0, source))?;
        for name in last {
            sync(fs, &dir.join(name))?;
        }
    }
    segments.sort_by(|a, b| {
        let key = |p: &Peeked| p.base;
        key(a)
            .cmp(&key(b))
            .then_with(|| names::removal_order(&a.name).cmp(&names::removal_order(&b.name)))
    });
    Ok(segments)
}

fn sync(fs: &dyn Fs, path: &Path) -> Result<(), Error> {
    let sync = || fs.sync(&fs.open(path, OpenMode::Read)?);
    sync().map_err(|source| Error::disk("sync", path, 0, source))
}

/// Waits for writes in flight where there may be any; answers whether it did.
fn settle(fs: &dyn Fs, dir: &Path, name: &str, active: u64) -> Result<(Peeked, bool), Error> {
    let path = dir.join(name);
    let disk = |op| {
        let path = path.clone();
        move |source| Error::disk(op, &path, 0, source)
    };
    let file = fs.open(&path, OpenMode::Read).map_err(disk("open"))?;
    let bytes = fs.bytes(&file).map_err(disk("stat"))?;
    let peek = || peek(fs, &file).map_err(disk("read"));
    let (mut base, empty) = peek()?;
    // A sealed segment was synced before the manifest moved on; a spare may have any base.
    let reserve = bytes > 0 && (empty || base.is_none_or(|base| base.0 >= active));
    if reserve {
        let writable = fs.open(&path, OpenMode::ReadWrite).map_err(disk("open"))?;
        let reserved = fs.allocate(&writable, bytes);
        reserved.map_err(|source| segment_error("reserve", &path, source))?;
        base = peek()?.0;
    }
    let name = name.to_owned();
    Ok((Peeked { name, bytes, base }, reserve))
}

/// The base in the header, and whether no first frame is there.
fn peek(fs: &dyn Fs, file: &crate::io::File) -> io::Result<(Option<Fsn>, bool)> {
    let mut head = [0; 24 + FRAME_HEADER_LEN];
    let len = fs.read_at(file, &mut head, 0)?;
    let (header, frame) = head.split_at(24);
    let base = (len >= 24)
        .then(|| SegmentHeader::parse(header).ok())
        .flatten();
    Ok((
        base.map(|header| header.base),
        frame.iter().all(|byte| *byte == 0),
    ))
}

fn next_generation(dir: &Path, entries: &[Entry]) -> Result<Generation, Error> {
    let highest = entries
        .iter()
        .filter_map(|entry| names::used_generation(&entry.name).map(|used| (used, &entry.name)))
        .max();
    let Some((Generation(highest), name)) = highest else {
        return Ok(Generation(0));
    };
    match highest.checked_add(1) {
        Some(next) => Ok(Generation(next)),
        None => Err(last_generation(&dir.join(name))),
    }
}

/// No generation follows the highest. Nothing is damaged, but no segment can be made.
pub(crate) fn last_generation(path: &Path) -> Error {
    Error::Unsupported {
        what: format!("a segment after {}", path.display()),
        reason: "its name has the highest possible generation".to_owned(),
        remedy: "Move the file away if it is not part of the slot, or use another sender_id",
    }
}
