//! Taking over a slot that its sender left, to deliver what it holds (protocol.md section 13.9).
//!
//! For replay only: no segment is made, nothing is created that was not there but the lock files
//! and what recovery repairs. The lock in `.slot-locks` is taken first, as one official client
//! does, so that nobody renames the slot meanwhile; what the scan saw is looked at again under it.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::fresh;
use super::gather::Inventory;
use super::lock;
use super::marker::{mark_failed, note_error};
use super::names::{self, FAILED, LOCK};
use super::open::{clear, list};
use super::opened::{OpenedSlot, SlotOptions};
use super::progress::RecoveryProgress;
use super::recover::Recovery;
use super::report::RecoveryReport;
use super::takeover::survey;
use crate::error::Error;
use crate::intake::is_filled;
use crate::io::{Entry, EntryKind, File, Fs, OpenMode};

/// What became of the attempt to take a slot over.
#[derive(Debug)]
pub(crate) enum Adoption {
    /// It is recovered; the lock is held until [`Fs::unlock`].
    Slot(Box<OpenedSlot>),
    /// Its segments held nothing: it is clean now, and free.
    Empty,
    /// It is no orphan any more, or somebody holds it: nothing was touched.
    Passed,
    /// It can never be delivered as it is. Every byte is kept, and it is free.
    Damaged {
        /// What is wrong: file, offset, expectation.
        reason: String,
        /// Whether `.failed` could be written.
        marker: io::Result<()>,
    },
}

/// Tries to take over `<sf_dir>/<name>`. Blocking: for a drainer's thread. On an error the slot is
/// free, and nothing in it was changed unless the error came from changing it.
pub(crate) fn adopt(
    fs: &dyn Fs,
    sf_dir: &Path,
    name: &str,
    segment_bytes: u64,
) -> Result<Adoption, Error> {
    let dir = sf_dir.join(name);
    let Some(logical) = unless_held(lock::acquire_logical(
        fs,
        &dir,
        (sf_dir, name),
        Duration::ZERO,
    ))?
    else {
        return Ok(Adoption::Passed);
    };
    let outcome = adopt_guarded(fs, sf_dir, name, segment_bytes);
    // Closing the last descriptor would release it as well.
    let _ = fs.unlock(&logical);
    outcome
}

fn adopt_guarded(
    fs: &dyn Fs,
    sf_dir: &Path,
    name: &str,
    segment_bytes: u64,
) -> Result<Adoption, Error> {
    let dir = sf_dir.join(name);
    if !is_orphan(fs, &dir, &list(fs, &dir)?) {
        return Ok(Adoption::Passed);
    }
    let Some(lock) = unless_held(lock::acquire(fs, &dir, Duration::ZERO))? else {
        return Ok(Adoption::Passed);
    };
    let options = SlotOptions {
        sf_dir: sf_dir.to_path_buf(),
        sender_id: name.to_owned(),
        segment_bytes,
        // No room for a spare: nothing will be appended.
        total_bytes: 0,
        prefill: false,
        lock_retry: Duration::ZERO,
        progress: RecoveryProgress::new(),
    };
    let outcome = match recover(fs, &options, &dir, lock.clone()) {
        Err(Error::Corrupt {
            path,
            offset,
            reason,
        }) => {
            let file = path.file_name().unwrap_or_default();
            let reason = format!("{} at offset {offset}: {reason}", file.display());
            let marker = mark_failed(fs, &dir, &reason);
            Ok(Adoption::Damaged { reason, marker })
        }
        Err(error) => {
            note_error(fs, &dir, &error.to_string());
            Err(error)
        }
        adoption => adoption,
    };
    if !matches!(outcome, Ok(Adoption::Slot(_))) {
        let _ = fs.unlock(&lock);
    }
    outcome
}

fn recover(fs: &dyn Fs, options: &SlotOptions, dir: &Path, lock: File) -> Result<Adoption, Error> {
    let started = fs.now();
    let entries = list(fs, dir)?;
    if !is_orphan(fs, dir, &entries) {
        return Ok(Adoption::Passed);
    }
    let survey = survey(fs, dir, &entries)?;
    let generation = survey.next_generation;
    let mut report = RecoveryReport::default();
    match Recovery::read(
        fs,
        dir,
        survey,
        &options.progress,
        &mut Inventory::default(),
    )? {
        Ok(recovery) => {
            let mut opened = recovery.commit(fs, options, dir, lock, report)?;
            opened.report.elapsed_nanos = fs.now().saturating_sub(started);
            opened
                .report
                .log(&opened.dir, opened.next.since(opened.acked));
            Ok(Adoption::Slot(Box::new(opened)))
        }
        Err(leftovers) => {
            clear(fs, dir, leftovers, &mut report)?;
            if !is_filled(fs, dir) {
                return Ok(Adoption::Empty);
            }
            // Only the intake holds something: the journal that it goes through begins anew.
            let options = SlotOptions {
                total_bytes: options.segment_bytes.saturating_mul(2),
                ..options.clone()
            };
            let opened = fresh::create(fs, &options, dir, lock, generation, report)?;
            Ok(Adoption::Slot(Box::new(opened)))
        }
    }
}

/// Whether a directory with these entries is a slot that may be drained, if nobody holds it.
fn is_orphan(fs: &dyn Fs, dir: &Path, entries: &[Entry]) -> bool {
    let segment = |e: &Entry| e.kind == EntryKind::File && names::is_segment(&e.name);
    let marked = entries.iter().any(|entry| entry.name == FAILED);
    !marked
        && (entries.iter().any(segment) || is_filled(fs, dir))
        && lock::refuse_foreign_owner(Path::new(""), entries).is_ok()
}

/// Whether somebody holds the slot's lock. Takes it for a moment where nobody does.
pub(crate) fn is_held(fs: &dyn Fs, dir: &Path) -> bool {
    let look = || {
        let file = fs.open(&dir.join(LOCK), OpenMode::Read)?;
        let free = fs.try_lock(&file)?;
        if free {
            fs.unlock(&file)?;
        }
        Ok::<_, io::Error>(!free)
    };
    // No lock file: nobody has it. One that cannot be looked at is the adoption's to report.
    look().unwrap_or(false)
}

fn unless_held(locked: Result<File, Error>) -> Result<Option<File>, Error> {
    match locked {
        Ok(file) => Ok(Some(file)),
        Err(Error::Locked { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
