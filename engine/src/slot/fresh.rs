//! Opening a slot that holds nothing (slot-format.md section 6).
//!
//! The first segment is created without the flag that demands a manifest, then the manifest, then
//! the flag: a crash in between leaves an empty slot of the old or the new kind, both of which open
//! again. With the flag first there would be a moment that recovery must refuse.

use std::io;
use std::path::{Path, PathBuf};

use super::chunk::{HEADER, HEADER_BYTES};
use super::close::remove;
use super::dictionary::Dictionary;
use super::dual::DualFile;
use super::identity;
use super::names::{DICTIONARY, MANIFEST, WATERMARK, segment};
use super::open::sync_dir;
use super::opened::{OpenedSegment, OpenedSlot, SlotOptions};
use super::record::{Kind, signed};
use super::report::RecoveryReport;
use super::segment::SegmentHeader;
use super::segment::{FLAGS_OFFSET, HEADER_BYTES as SEGMENT_HEADER_BYTES, MANIFEST_REQUIRED};
use super::spare::{self, segment_error};
use super::takeover::last_generation;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::io::{Between, File, Fs, OpenMode};

/// Creates everything in the empty slot `dir`, whose lock is held. Generations start at `first`.
pub(crate) fn create(
    fs: &dyn Fs,
    options: &SlotOptions,
    dir: &Path,
    lock: File,
    first: Generation,
    mut report: RecoveryReport,
) -> Result<OpenedSlot, Error> {
    report.fresh = true;
    check_room(options)?;
    sync_parents(fs, options)?;
    let segment = (options.segment_bytes, options.fills_at_once());
    let mut opened = create_at(fs, dir, lock, segment, (first, Fsn(0)))?;
    opened.report = report;
    opened.add_spare(fs, options)?;
    Ok(opened)
}

/// Creates the files of the empty slot `dir`, whose next frame gets the FSN `next`.
pub(super) fn create_at(
    fs: &dyn Fs,
    dir: &Path,
    lock: File,
    (segment_bytes, fill): (u64, bool),
    (first, next): (Generation, Fsn),
) -> Result<OpenedSlot, Error> {
    identity::create(fs, dir)?;
    let (dictionary_file, watermark) = side_files(fs, dir, next)?;
    let active = first_segment(fs, dir, (first, next), (segment_bytes, fill))?;
    let manifest = first_manifest(fs, dir, next)?;
    stamp_flag(fs, &dir.join(&active.name))?;
    Ok(OpenedSlot {
        dir: dir.to_path_buf(),
        lock,
        manifest,
        watermark,
        dictionary: Dictionary::new(),
        dictionary_file,
        dictionary_bytes: HEADER_BYTES,
        segments: vec![active],
        spares: Vec::new(),
        next_generation: following(dir, first)?,
        acked: next,
        next,
        report: RecoveryReport::default(),
    })
}

/// Refuses a cap under which a fresh slot could never rotate.
pub(crate) fn check_room(options: &SlotOptions) -> Result<(), Error> {
    if options.total_bytes / 2 >= options.segment_bytes {
        return Ok(());
    }
    Err(Error::config(
        "sf_max_total_bytes",
        format!(
            "{} bytes do not hold two segments of {} bytes (sf_max_segment_bytes)",
            options.total_bytes, options.segment_bytes
        ),
    ))
}

/// The generation after this one.
pub(crate) fn following(dir: &Path, generation: Generation) -> Result<Generation, Error> {
    generation
        .0
        .checked_add(1)
        .map(Generation)
        .ok_or_else(|| last_generation(&dir.join(segment(generation))))
}

/// Sets the flag that demands a manifest, durably.
pub(crate) fn stamp_flag(fs: &dyn Fs, path: &Path) -> Result<(), Error> {
    let stamp = || {
        let file = fs.open(path, OpenMode::ReadWrite)?;
        fs.write_at(&file, &[MANIFEST_REQUIRED], FLAGS_OFFSET)?;
        fs.sync(&file)
    };
    stamp().map_err(|source| Error::disk("write", path, FLAGS_OFFSET, source))
}

/// The names of `sf_dir` and of the slot become durable. Done at every fresh open, because an
/// earlier one may have died between creating and syncing.
fn sync_parents(fs: &dyn Fs, options: &SlotOptions) -> Result<(), Error> {
    let sf_dir = &options.sf_dir;
    sync_dir(fs, sf_dir)?;
    let parent = match sf_dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_path_buf(),
        None => return Ok(()),
    };
    match fs.sync_dir(&parent) {
        // A parent that may be entered but not read: its owner made `sf_dir`.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result.map_err(|source| Error::disk("sync", &parent, 0, source)),
    }
}

/// Replaces what a former life of the slot may have left.
fn side_files(fs: &dyn Fs, dir: &Path, next: Fsn) -> Result<(File, DualFile), Error> {
    remove(fs, dir, WATERMARK)?;
    remove(fs, dir, DICTIONARY)?;
    let path = dir.join(DICTIONARY);
    let create = || {
        let file = fs.open(&path, OpenMode::CreateNew)?;
        fs.write_at(&file, &HEADER, 0)?;
        fs.sync(&file)?;
        Ok(file)
    };
    let dictionary = create().map_err(|source| Error::disk("create", &path, 0, source))?;
    let mut watermark = new_watermark(fs, dir)?;
    if let Some(last) = next.0.checked_sub(1) {
        let write = watermark.write(fs, signed(last), 0);
        write.map_err(|source| Error::disk("write", &dir.join(WATERMARK), 0, source))?;
    }
    Ok((dictionary, watermark))
}

/// Creates the watermark file, durably, without a record.
pub(crate) fn new_watermark(fs: &dyn Fs, dir: &Path) -> Result<DualFile, Error> {
    let path = dir.join(WATERMARK);
    let create = || {
        let watermark = DualFile::create(fs, &path, Kind::Watermark)?;
        fs.sync(&watermark.file)?;
        fs.sync_dir(dir)?;
        Ok(watermark)
    };
    create().map_err(|source| Error::disk("create", &path, 0, source))
}

fn first_segment(
    fs: &dyn Fs,
    dir: &Path,
    (generation, base): (Generation, Fsn),
    (bytes, zeroed): (u64, bool),
) -> Result<OpenedSegment, Error> {
    let header = SegmentHeader {
        manifest_required: false,
        base,
        created_micros: fs.wall_micros(),
    };
    let mut go_on = || Ok(());
    let zeros: Option<Between<'_>> = zeroed.then_some(&mut go_on);
    let file = spare::create(fs, dir, generation, bytes, header, zeros)
        .map_err(|source| segment_error("create", &dir.join(segment(generation)), source))?;
    Ok(OpenedSegment::empty(file, base, SEGMENT_HEADER_BYTES))
}

fn first_manifest(fs: &dyn Fs, dir: &Path, base: Fsn) -> Result<DualFile, Error> {
    let path = dir.join(MANIFEST);
    let create = || {
        let mut manifest = DualFile::create(fs, &path, Kind::Manifest)?;
        manifest.write(fs, signed(base.0), signed(base.0))?;
        fs.sync_dir(dir)?;
        Ok(manifest)
    };
    create().map_err(|source| Error::disk("create", &path, 0, source))
}
