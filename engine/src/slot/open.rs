//! Opening a slot: directories, lock, then recovery, a fresh start, or both: a damaged slot is set
//! aside and a fresh one takes its name.

use std::io;
use std::path::{Path, PathBuf};

use super::close::remove;
use super::fresh;
use super::gather::Inventory;
use super::lock;
use super::names::{DICTIONARY, ERAS, MANIFEST, SLOT_ID, WATERMARK};
use super::opened::{OpenedSlot, SlotOptions};
use super::recover::Recovery;
use super::report::RecoveryReport;
use super::set_aside::{Damage, set_aside};
use super::spare::segment_error;
use super::takeover::{is_segment_file, survey};
use super::tidy::Leftovers;
use crate::error::Error;
use crate::fsn::Generation;
use crate::intake;
use crate::io::{Entry, EntryKind, File, Fs};

/// Opens the slot `<sf_dir>/<sender_id>`, creating it if absent, and recovers what it holds.
///
/// Blocking: for the caller of `connect` or the steward, never for a shard. On an error the lock is
/// released and nothing in the slot was changed, unless the error came from changing it.
pub(crate) fn open(fs: &dyn Fs, options: &SlotOptions) -> Result<OpenedSlot, Error> {
    let started = fs.now();
    let dir = make_directories(fs, options)?;
    lock::refuse_foreign_owner(&dir, &list(fs, &dir)?)?;
    let lock = lock::acquire(fs, &dir, options.lock_retry)?;
    let mut inventory = Inventory::default();
    let outcome = match open_locked(fs, options, &dir, lock.clone(), &mut inventory) {
        Err(Error::Corrupt {
            path,
            offset,
            reason,
        }) => {
            let damage = Damage {
                path,
                offset,
                reason,
                inventory,
            };
            begin_again(fs, options, &dir, &lock, &damage)
        }
        outcome => outcome,
    };
    let rescued = outcome.and_then(|opened| {
        // From a slot that was set aside now, or by an official client.
        intake::rescue(fs, &options.sf_dir, &options.sender_id, &dir)?;
        Ok(opened)
    });
    match rescued {
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
    let sf_dir = &options.sf_dir;
    create_dir(fs, sf_dir)?;
    let dir = sf_dir.join(&options.sender_id);
    let entries = list(fs, sf_dir)?;
    match entries.iter().find(|e| e.name == options.sender_id) {
        Some(entry) if entry.kind == EntryKind::Directory => {}
        Some(_) => {
            let source = io::Error::from_raw_os_error(libc::ENOTDIR);
            return Err(Error::disk("open directory", &dir, 0, source));
        }
        None => {
            // An earlier process may have set the slot aside and died before it synced: a power
            // cut that keeps the new name and loses that renaming would lose the old slot.
            sync_dir(fs, sf_dir)?;
            create_dir(fs, &dir)?;
        }
    }
    Ok(dir)
}

/// Creates a directory, unless the name is there already.
fn create_dir(fs: &dyn Fs, path: &Path) -> Result<(), Error> {
    match fs.create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::disk("create directory", path, 0, error))
        }
        _ => Ok(()),
    }
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(fs: &dyn Fs, dir: &Path) -> Result<(), Error> {
    fs.sync_dir(dir)
        .map_err(|source| Error::disk("sync", dir, 0, source))
}

pub(super) fn list(fs: &dyn Fs, dir: &Path) -> Result<Vec<Entry>, Error> {
    fs.entries(dir)
        .map_err(|source| Error::disk("list", dir, 0, source))
}

/// Every [`Error::Corrupt`] from here means that the slot can never be delivered as it is, and that
/// nothing in it was changed.
fn open_locked(
    fs: &dyn Fs,
    options: &SlotOptions,
    dir: &Path,
    lock: File,
    inventory: &mut Inventory,
) -> Result<OpenedSlot, Error> {
    let mut report = RecoveryReport::default();
    let entries = list(fs, dir)?;
    lock::refuse_foreign_owner(dir, &entries)?;
    let refused = |source| segment_error("write directly", dir, source);
    fs.try_direct(dir).map_err(refused)?;
    let progress = &options.progress;
    let segments = || entries.iter().filter(|entry| is_segment_file(entry));
    progress.begin(segments().count() as u64, segments().map(|e| e.bytes).sum());
    let survey = survey(fs, dir, &entries)?;
    drop(entries);
    let generation = survey.next_generation;
    match Recovery::read(fs, dir, survey, progress, inventory)? {
        Ok(recovery) => recovery.commit(fs, options, dir, lock, report),
        Err(leftovers) => {
            clear(fs, dir, leftovers, &mut report)?;
            fresh::create(fs, options, dir, lock, generation, report)
        }
    }
}

/// Puts a damaged slot aside and starts with an empty one of the same name.
fn begin_again(
    fs: &dyn Fs,
    options: &SlotOptions,
    dir: &Path,
    old_lock: &File,
    damage: &Damage,
) -> Result<OpenedSlot, Error> {
    // What would refuse the empty slot is found before the old one is touched.
    fresh::check_room(options)?;
    let (set_aside, logical) = set_aside(fs, options, dir, damage)?;
    let report = RecoveryReport {
        set_aside: Some(set_aside),
        ..RecoveryReport::default()
    };
    let begin = || {
        create_dir(fs, dir)?;
        let lock = lock::acquire(fs, dir, options.lock_retry)?;
        fresh::create(fs, options, dir, lock, Generation(0), report)
    };
    let opened = begin();
    for lock in [old_lock, &logical] {
        // Closing the last descriptor would release it as well.
        let _ = fs.unlock(lock);
    }
    opened
}

/// Finishes a drained close that was cut short. The manifest goes last, once no segment that
/// demands it can come back.
pub(super) fn clear(
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
    sync_dir(fs, dir)?;
    for name in [WATERMARK, DICTIONARY, SLOT_ID, ERAS, MANIFEST] {
        remove(fs, dir, name)?;
    }
    sync_dir(fs, dir)
}
