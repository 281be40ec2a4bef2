//! Setting a damaged slot aside: every byte is kept under another name, and the sender starts with
//! an empty slot (slot-format.md section 9).
//!
//! The directory is renamed to `<sender_id>.unreplayable-<n>` while both locks are held: its own,
//! which moves along, and the one in `.slot-locks` that an official client takes before it renames
//! or adopts. The reason goes in first, so that no scan for orphans ever finds the directory
//! without it.

use std::path::{Path, PathBuf};

use super::gather::Inventory;
use super::lock;
use super::names::{self, FAILED};
use super::open::sync_dir;
use super::opened::SlotOptions;
use super::whole;
use crate::error::Error;
use crate::io::{File, Fs};

/// Directories of one sender that are kept; the start fails when all numbers are taken.
const KEPT_MAX: u32 = 64;
/// Most bytes of an earlier reason that are carried over.
const REASON_BYTES_MAX: usize = 64 * 1024;

/// A slot that could not be delivered and was put aside, as found when its engine started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAside {
    /// Where the slot is now, every byte of it.
    pub path: PathBuf,
    /// What is wrong with it: file, offset, expectation.
    pub reason: String,
    /// FSN of the first readable frame, and of the first behind the last; frames in between may be
    /// missing. `None` if no frame is readable.
    pub fsns: Option<(u64, u64)>,
    /// Readable frames.
    pub frames: u64,
    /// Their bytes, frame headers included.
    pub bytes: u64,
    /// First FSN that was not acked, as far as the slot knows.
    pub acked: u64,
}

/// What is wrong with a slot, and what is in it.
#[derive(Debug)]
pub(crate) struct Damage {
    /// File at fault.
    pub path: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// What was expected and what was found.
    pub reason: String,
    /// What is there.
    pub inventory: Inventory,
}

/// Renames the slot `dir`, whose lock is held. Answers the lock in `.slot-locks`, to be kept until
/// the new slot is locked. On an error the slot is as it was.
pub(crate) fn set_aside(
    fs: &dyn Fs,
    options: &SlotOptions,
    dir: &Path,
    damage: &Damage,
) -> Result<(SetAside, File), Error> {
    let (sf_dir, sender_id) = (&options.sf_dir, options.sender_id.as_str());
    let logical = lock::acquire_logical(fs, dir, (sf_dir, sender_id), options.lock_retry)?;
    let file = damage.path.file_name().unwrap_or_default();
    let (offset, reason) = (damage.offset, &damage.reason);
    let reason = format!("{} at offset {offset}: {reason}", file.display());
    let target = free_name(fs, sf_dir, sender_id, damage, &reason)?;
    let earlier = read_reason(fs, dir)?;
    if earlier.is_none() {
        write_reason(fs, dir, &reason)?;
    }
    let all = damage.inventory;
    let set_aside = SetAside {
        path: target,
        reason,
        fsns: all.fsns,
        frames: all.frames,
        bytes: all.bytes,
        acked: all.acked,
    };
    // Told before the slot has its new name: the start after that finds nothing to tell, whether
    // this process dies or what follows fails. Rather twice than never.
    set_aside.log(dir);
    if let Err(source) = fs.rename(dir, &set_aside.path) {
        if earlier.is_none() {
            // A leftover reason harms nobody: a slot's own start ignores it.
            let _ = fs.unlink(&dir.join(FAILED));
        }
        return Err(Error::disk("rename", dir, 0, source));
    }
    sync_dir(fs, sf_dir)?;
    if let Some(earlier) = earlier.filter(|earlier| !earlier.contains(&set_aside.reason)) {
        let both = format!("{}\n{}", earlier.trim_end(), set_aside.reason);
        write_reason(fs, &set_aside.path, &both)?;
    }
    Ok((set_aside, logical))
}

impl SetAside {
    fn log(&self, slot: &Path) {
        let (first, end) = self.fsns.unwrap_or_default();
        let (frames, bytes, acked) = (self.frames, self.bytes, self.acked);
        tracing::error!(
            slot = %slot.display(),
            kept = %self.path.display(),
            reason = self.reason,
            first, end, frames, bytes, acked,
            "FB-R011 DATA_LOSS: the slot is damaged and is set aside, every byte kept; its frames \
             are not delivered; an empty slot takes its place"
        );
    }
}

/// The first free `<sender_id>.unreplayable-<n>`.
fn free_name(
    fs: &dyn Fs,
    sf_dir: &Path,
    sender_id: &str,
    damage: &Damage,
    reason: &str,
) -> Result<PathBuf, Error> {
    let entries = fs
        .entries(sf_dir)
        .map_err(|source| Error::disk("list", sf_dir, 0, source))?;
    let taken = |name: &String| entries.iter().any(|entry| entry.name == *name);
    let mut names = (0..KEPT_MAX).map(|n| names::unreplayable(sender_id, n));
    match names.find(|name| !taken(name)) {
        Some(name) => Ok(sf_dir.join(name)),
        None => Err(Error::Corrupt {
            path: damage.path.clone(),
            offset: damage.offset,
            reason: format!(
                "{reason}; and the slot cannot be set aside: all {KEPT_MAX} names \
                 {sender_id}.unreplayable-0 to -{} are taken: move some away",
                KEPT_MAX - 1
            ),
        }),
    }
}

fn read_reason(fs: &dyn Fs, dir: &Path) -> Result<Option<String>, Error> {
    whole::read(fs, dir, FAILED, REASON_BYTES_MAX)
        .map_err(|source| Error::disk("read", &dir.join(FAILED), 0, source))
}

/// No newline at the end, as the official clients write it.
fn write_reason(fs: &dyn Fs, dir: &Path, reason: &str) -> Result<(), Error> {
    whole::write(fs, dir, FAILED, reason.as_bytes())
        .map(drop)
        .map_err(|source| Error::disk("write", &dir.join(FAILED), 0, source))
}
