//! The drained close: everything is acknowledged, so nothing stays but the lock files
//! (slot-format.md section 7).
//!
//! The order is the contract. The final watermark and the manifest are durable before the first
//! unlink, and the manifest goes last, after the directory knows that the segments are gone: a
//! crash anywhere in between leaves a slot that opens empty or with nothing to replay.

use std::io;
use std::path::Path;

use super::dual::DualFile;
use super::names::{
    DICTIONARY, ERAS, MANIFEST, SLOT_ID, WATERMARK, is_canonical_segment, removal_order,
};
use super::record::signed;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::{EntryKind, Fs};

/// A slot whose frames are all acknowledged and on which no I/O is in flight.
#[derive(Debug)]
pub(crate) struct Drained<'a> {
    /// Slot directory.
    pub dir: &'a Path,
    /// `sf-manifest.bin`.
    pub manifest: &'a mut DualFile,
    /// `.ack-watermark`.
    pub watermark: &'a mut DualFile,
    /// Names of all segments and spares that the caller knows. Others with a segment's usual name
    /// are found in the directory and removed too.
    pub segments: &'a [String],
    /// Base of the active segment.
    pub active_base: Fsn,
    /// First FSN not acked, which is the next FSN.
    pub acked: Fsn,
}

/// Removes everything from a drained slot but its lock files. The caller unlocks afterwards.
pub(crate) fn close_drained(fs: &dyn Fs, drained: Drained<'_>) -> Result<(), Error> {
    let Drained {
        dir,
        manifest,
        watermark,
        segments,
        active_base,
        acked,
    } = drained;
    let on_dir = |op| move |source| Error::disk(op, dir, 0, source);
    if let Some(last) = acked.0.checked_sub(1) {
        let write = save(fs, watermark, signed(last));
        write.map_err(|source| Error::disk("write", &dir.join(WATERMARK), 0, source))?;
        fs.sync_dir(dir).map_err(on_dir("sync"))?;
    }
    let doomed = all_segments(fs, dir, segments).map_err(on_dir("list"))?;
    let base = signed(active_base.0);
    if (manifest.first, manifest.second) != (base, base) {
        let write = manifest.write(fs, base, base);
        write.map_err(|source| Error::disk("write", &dir.join(MANIFEST), 0, source))?;
    }
    for name in &doomed {
        remove(fs, dir, name)?;
    }
    fs.sync_dir(dir).map_err(on_dir("sync"))?;
    for name in [WATERMARK, DICTIONARY, SLOT_ID, ERAS, MANIFEST] {
        remove(fs, dir, name)?;
    }
    fs.sync_dir(dir).map_err(on_dir("sync"))
}

/// Makes `last` the durable watermark.
fn save(fs: &dyn Fs, watermark: &mut DualFile, last: i64) -> io::Result<()> {
    if watermark.first == last {
        fs.sync(&watermark.file)
    } else {
        watermark.write(fs, last, 0)
    }
}

/// The given names and all others of the directory that are usual for segments, oldest first.
fn all_segments(fs: &dyn Fs, dir: &Path, known: &[String]) -> io::Result<Vec<String>> {
    let entries = fs.entries(dir)?.into_iter();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.kind == EntryKind::File)
        .map(|entry| entry.name)
        .filter(|name| is_canonical_segment(name) || known.contains(name))
        .collect();
    names.sort_by(|a, b| removal_order(a).cmp(&removal_order(b)));
    Ok(names)
}

/// Unlinks a file; one that is not there is fine.
pub(crate) fn remove(fs: &dyn Fs, dir: &Path, name: &str) -> Result<(), Error> {
    let path = dir.join(name);
    match fs.unlink(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::disk("unlink", &path, 0, error))
        }
        _ => Ok(()),
    }
}
