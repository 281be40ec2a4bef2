//! Opening a slot: directories, lock, then recovery or a fresh start.

use std::io;
use std::path::{Path, PathBuf};

use super::close::remove;
use super::fresh;
use super::lock;
use super::names::{DICTIONARY, MANIFEST, WATERMARK};
use super::opened::{OpenedSlot, SlotOptions};
use super::recover::{Recovery, scan_all};
use super::report::RecoveryReport;
use super::scan::Scanner;
use super::takeover::{Manifest, Survey, survey};
use super::tidy::Leftovers;
use crate::error::Error;
use crate::io::{Entry, File, Fs};

/// Opens the slot `<sf_dir>/<sender_id>`, creating it if absent, and recovers what it holds.
///
/// Blocking: for the caller of `connect` or the steward, never for a shard. On an error the lock is
/// released; on damage nothing in the slot was changed.
pub(crate) fn open(fs: &dyn Fs, options: &SlotOptions) -> Result<OpenedSlot, Error> {
    let started = fs.now();
    let dir = make_directories(fs, options)?;
    lock::refuse_foreign_owner(&dir, &list(fs, &dir)?)?;
    let lock = lock::acquire(fs, &dir, options.lock_retry)?;
    match open_locked(fs, options, &dir, lock.clone()) {
        Ok(mut opened) => {
            opened.report.elapsed_nanos = fs.now().saturating_sub(started);
            opened
                .report
                .log(&opened.dir, opened.next.since(opened.acked));
            Ok(opened)
        }
        Err(error) => {
            // Nothing is in flight here; closing the last descriptor would release it as well.
            let _ = fs.unlock(&lock);
            Err(error)
        }
    }
}

fn make_directories(fs: &dyn Fs, options: &SlotOptions) -> Result<PathBuf, Error> {
    let dir = options.sf_dir.join(&options.sender_id);
    for path in [&options.sf_dir, &dir] {
        match fs.create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::disk("create directory", path, 0, error));
            }
            _ => {}
        }
    }
    Ok(dir)
}

fn list(fs: &dyn Fs, dir: &Path) -> Result<Vec<Entry>, Error> {
    fs.entries(dir)
        .map_err(|source| Error::disk("list", dir, 0, source))
}

fn open_locked(
    fs: &dyn Fs,
    options: &SlotOptions,
    dir: &Path,
    lock: File,
) -> Result<OpenedSlot, Error> {
    let mut report = RecoveryReport::default();
    let entries = list(fs, dir)?;
    lock::refuse_foreign_owner(dir, &entries)?;
    let survey = survey(fs, dir, &entries)?;
    let generation = survey.next_generation;
    let leftovers = match &survey.manifest {
        Manifest::Valid(manifest) => match Recovery::read(fs, dir, &survey, manifest)? {
            Ok(recovery) => {
                let held = (lock, manifest.clone());
                return recovery.commit(fs, options, dir, held, generation, report);
            }
            Err(leftovers) => leftovers,
        },
        Manifest::Absent | Manifest::Invalid => nothing_stored(fs, dir, &survey)?,
    };
    clear(fs, dir, leftovers, &mut report)?;
    fresh::create(fs, options, dir, lock, generation, report)
}

/// Without a manifest only the remains of a first open that died are accepted: segments without the
/// flag and without a byte of data.
fn nothing_stored(fs: &dyn Fs, dir: &Path, survey: &Survey) -> Result<Leftovers, Error> {
    let sorted = scan_all(fs, dir, &survey.segments, &mut Scanner::default(), None)?;
    let state = match survey.manifest {
        Manifest::Invalid => "no valid record is in sf-manifest.bin",
        _ => "there is no sf-manifest.bin",
    };
    let corrupt = |name: &str, offset, reason| {
        Err(Error::Corrupt {
            path: dir.join(name),
            offset,
            reason,
        })
    };
    if let Some(damaged) = sorted.damaged.first() {
        let reason = format!("{}, and {state}", damaged.error);
        return corrupt(&damaged.name, damaged.error.offset(), reason);
    }
    for candidate in &sorted.found {
        let scan = &candidate.scan;
        if scan.header.manifest_required {
            let reason = format!("the segment demands a manifest, but {state}");
            return corrupt(&candidate.name, 5, reason);
        }
        if scan.frames > 0 || scan.residue.is_some() {
            let reason = format!(
                "{} frames in a slot of the older form without a manifest ({state}); this version \
                 does not migrate it yet: open it once with an official client",
                scan.frames
            );
            return corrupt(&candidate.name, 24, reason);
        }
    }
    Ok(Leftovers::new(sorted.found, Vec::new(), sorted.blank))
}

/// Finishes a drained close that was cut short. The manifest goes last, once no segment that
/// demands it can come back.
fn clear(
    fs: &dyn Fs,
    dir: &Path,
    leftovers: Leftovers,
    report: &mut RecoveryReport,
) -> Result<(), Error> {
    leftovers.clear(fs, dir, report);
    if let Some(name) = report.left.first() {
        let source = io::Error::other("a file of a drained slot cannot be removed");
        return Err(Error::disk("unlink", &dir.join(name), 0, source));
    }
    let sync = || {
        fs.sync_dir(dir)
            .map_err(|source| Error::disk("sync", dir, 0, source))
    };
    sync()?;
    for name in [WATERMARK, DICTIONARY, MANIFEST] {
        remove(fs, dir, name)?;
    }
    sync()
}
