//! Rewriting what a failed disk operation may have spoilt, from memory, into new files.
//!
//! After a failed write or fdatasync nobody can say what of a file is on the disk, and trying the
//! same file again proves nothing: the kernel may report the next fdatasync as good with nothing
//! written. So every file concerned is written anew beside the old one, synced, and takes its name
//! by one rename. A crash at any point leaves the old or the new file, never none and never two.
//! The old segment stays as `<name>.bad-<n>`.
//!
//! The order is that of the journal: the dictionary before the segments that build on it, older
//! segments before newer ones, then the watermark and the manifest.

use std::io;
use std::path::{Path, PathBuf};

use super::incarnation::Incarnation;
use super::perform::released;
use crate::io::{File, Fs, OpenMode, Pinned};
use crate::slot::DualFile;
use crate::slot::names::{self, DICTIONARY, MANIFEST, WATERMARK};
use crate::slot::record::{Kind, Record};
use crate::slot::whole;

/// Old files kept in a slot: evidence is no reason to fill a disk.
const BAD_COPIES_MAX: u32 = 4;
/// Bytes read and written at once of what only the old file holds.
const COPY_BYTES: usize = 1 << 20;

/// What is to be written anew. The memory does not change until the answer is there.
#[derive(Debug)]
pub(crate) struct Rebuild {
    /// Slot directory.
    pub(crate) dir: PathBuf,
    /// Whose slot it is.
    pub(crate) incarnation: Incarnation,
    /// The whole of `.symbol-dict`, unless all of it is durable.
    pub(crate) dictionary: Option<Vec<u8>>,
    /// Segments, oldest first.
    pub(crate) segments: Vec<Lost>,
    /// Record of `.ack-watermark`.
    pub(crate) watermark: Record,
    /// Record of `sf-manifest.bin`.
    pub(crate) manifest: Record,
}

/// A segment to be written anew.
#[derive(Debug)]
pub(crate) struct Lost {
    /// Names the segment in the answer.
    pub(crate) key: u64,
    /// File name.
    pub(crate) name: String,
    /// File size.
    pub(crate) bytes: u64,
    /// What lies below is durable and taken from the old file; a whole number of blocks.
    pub(crate) from: u64,
    /// What is from there on, in pieces.
    pub(crate) parts: Vec<Pinned>,
}

/// The new files, open.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    /// `.symbol-dict` and its size.
    pub(crate) dictionary: Option<(File, u64)>,
    /// Segments by their keys, opened for direct I/O.
    pub(crate) segments: Vec<(u64, File)>,
    pub(crate) watermark: DualFile,
    pub(crate) manifest: DualFile,
}

/// Does it, and tells.
pub(super) fn rebuild(fs: &dyn Fs, what: &Rebuild) -> io::Result<Rebuilt> {
    let rebuilt = write_all(fs, what);
    match &rebuilt {
        Ok(_) => tracing::warn!("FB-J002 the journal is repaired: all of it is stable"),
        Err(error) => tracing::warn!(%error, "FB-J003 the journal cannot be repaired yet"),
    }
    rebuilt
}

fn write_all(fs: &dyn Fs, what: &Rebuild) -> io::Result<Rebuilt> {
    let dir = &what.dir;
    let _entered = what.incarnation.enter().ok_or_else(released)?;
    let dictionary = match &what.dictionary {
        Some(bytes) => Some((
            whole::write(fs, dir, DICTIONARY, bytes)?,
            bytes.len() as u64,
        )),
        None => None,
    };
    let mut segments = Vec::new();
    for lost in &what.segments {
        write_segment(fs, what, lost)?;
        let file = fs.open(&dir.join(&lost.name), OpenMode::Direct)?;
        segments.push((lost.key, file));
    }
    let watermark = DualFile::place(fs, dir, WATERMARK, Kind::Watermark, what.watermark)?;
    let manifest = DualFile::place(fs, dir, MANIFEST, Kind::Manifest, what.manifest)?;
    Ok(Rebuilt {
        dictionary,
        segments,
        watermark,
        manifest,
    })
}

fn write_segment(fs: &dyn Fs, what: &Rebuild, lost: &Lost) -> io::Result<()> {
    let (dir, name) = (&what.dir, &lost.name);
    let file = whole::start(fs, dir, name)?;
    let written = (|| {
        fs.allocate(&file, lost.bytes)?;
        copy_below(fs, what, lost, &file)?;
        let mut at = lost.from;
        let mut bytes = Vec::new();
        for part in &lost.parts {
            bytes.clear();
            part.copy_to(&mut bytes);
            fs.write_at(&file, &bytes, at)?;
            at += bytes.len() as u64;
        }
        keep_old(fs, dir, name)
    })();
    whole::finish(fs, dir, name, file, written).map(drop)
}

/// What is only on the disk, and durable there.
fn copy_below(fs: &dyn Fs, what: &Rebuild, lost: &Lost, to: &File) -> io::Result<()> {
    if lost.from == 0 {
        return Ok(());
    }
    let old = fs.open(&what.dir.join(&lost.name), OpenMode::Read)?;
    let mut bytes = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < lost.from {
        let left = usize::try_from(lost.from - at).unwrap_or(COPY_BYTES);
        let piece = &mut bytes[..left.min(COPY_BYTES)];
        let read = fs.read_at(&old, piece, at)?;
        if read < piece.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        fs.write_at(to, piece, at)?;
        at += read as u64;
    }
    Ok(())
}

/// The old file stays under another name, unless there are enough or the filesystem has no second
/// names.
fn keep_old(fs: &dyn Fs, dir: &Path, name: &str) -> io::Result<()> {
    let entries = fs.entries(dir)?;
    let kept = entries.iter().filter(|entry| entry.name.contains(".bad-"));
    if kept.count() >= BAD_COPIES_MAX as usize {
        return Ok(());
    }
    let free = |copy: &String| entries.iter().all(|entry| entry.name != *copy);
    let mut copies = (1..=BAD_COPIES_MAX).map(|n| names::copy(name, "bad", n));
    if let Some(copy) = copies.find(free) {
        // It is for people: without it nothing is lost but evidence.
        let _ = fs.link(&dir.join(name), &dir.join(copy));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sys::RealFs;

    #[test]
    fn a_slot_keeps_the_first_four_bad_files_whatever_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["a.sfa", "a.sfa", "b.sfa", "c.sfa", "a.sfa", "d.sfa"];
        for name in names {
            std::fs::write(dir.path().join(name), name).unwrap();
            keep_old(&RealFs, dir.path(), name).unwrap();
        }
        let entries = RealFs.entries(dir.path()).unwrap();
        let mut kept: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
        kept.retain(|name| name.contains(".bad-"));
        kept.sort();
        let expected = ["a.sfa.bad-1", "a.sfa.bad-2", "b.sfa.bad-1", "c.sfa.bad-1"];
        assert_eq!(kept, expected);
    }
}
