//! The lock of a slot (slot-format.md section 5, operations.md O1 to O4).
//!
//! `flock`, not `fcntl`: two descriptors of one process exclude each other too, and it is what the
//! official clients take. The files are never removed. The text in `.lock.pid` decides nothing.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::names::{LOCK, LOCK_OWNER, LOCK_PID, SLOT_LOCKS};
use crate::error::Error;
use crate::io::{Entry, EntryKind, File, Fs, OpenMode};
use crate::units::{millis, nanos};

const RETRY_EVERY: Duration = Duration::from_millis(5);
const PID_BYTES_MAX: usize = 64;

/// Takes the lock of `dir`, trying every 5 ms for as long as `retry`.
pub(crate) fn acquire(fs: &dyn Fs, dir: &Path, retry: Duration) -> Result<File, Error> {
    take(fs, dir, (&dir.join(LOCK), &dir.join(LOCK_PID)), retry)
}

/// Takes the lock beside the slots that one official client holds whenever it may rename a slot.
pub(crate) fn acquire_logical(
    fs: &dyn Fs,
    dir: &Path,
    (sf_dir, sender_id): (&Path, &str),
    retry: Duration,
) -> Result<File, Error> {
    let locks = sf_dir.join(SLOT_LOCKS);
    match fs.create_dir(&locks) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::disk("create directory", &locks, 0, error));
        }
        _ => {}
    }
    let file = |suffix: &str| locks.join(format!("{sender_id}{suffix}"));
    take(fs, dir, (&file(LOCK), &file(LOCK_PID)), retry)
}

/// Locks the file `path` and notes the process in `pid_path`.
///
/// A slot may be set aside, with its lock file, between opening that file and locking it: the lock
/// then belongs to another directory, and the next try opens the file that is there now.
fn take(
    fs: &dyn Fs,
    slot: &Path,
    (path, pid_path): (&Path, &Path),
    retry: Duration,
) -> Result<File, Error> {
    let started = fs.now();
    loop {
        let file = fs
            .open(path, OpenMode::Create)
            .map_err(|source| Error::disk("open", path, 0, source))?;
        let locked = fs
            .try_lock(&file)
            .and_then(|locked| Ok(locked && fs.is_at(&file, path)?));
        if locked.map_err(|source| Error::disk("lock", path, 0, source))? {
            write_pid(fs, pid_path);
            return Ok(file);
        }
        drop(file);
        let waited = Duration::from_nanos(fs.now().saturating_sub(started));
        if waited >= retry {
            return Err(Error::Locked {
                slot: slot.to_path_buf(),
                holder: holder(fs, pid_path),
                waited_millis: millis(waited),
            });
        }
        fs.sleep(nanos(RETRY_EVERY.min(retry.saturating_sub(waited))));
    }
}

/// Refuses a slot that a Node.js client holds: its lock is a directory and `flock` cannot see it.
pub(crate) fn refuse_foreign_owner(dir: &Path, entries: &[Entry]) -> Result<(), Error> {
    let owned = |entry: &Entry| entry.name == LOCK_OWNER && entry.kind == EntryKind::Directory;
    if !entries.iter().any(owned) {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: format!("slot {}", dir.display()),
        reason: format!(
            "the directory {LOCK_OWNER} exists: a Node.js client holds the slot, or died holding it"
        ),
        remedy: "Check that no Node.js sender with this sender_id runs on any host that shares \
                 the directory, then remove .lock.owner, or use another sender_id",
    })
}

/// Notes who holds the lock. Informational: failures are ignored.
fn write_pid(fs: &dyn Fs, path: &Path) {
    let write = || {
        let file = fs.open(path, OpenMode::Create)?;
        fs.set_bytes(&file, 0)?;
        fs.write_at(&file, format!("{}\n", fs.pid()).as_bytes(), 0)
    };
    if let Err(error) = write() {
        tracing::debug!(file = %path.display(), %error, "could not write the process id");
    }
}

/// The process id in the file `path`, or `unknown`.
fn holder(fs: &dyn Fs, path: &Path) -> String {
    let read = || {
        let file = fs.open(path, OpenMode::Read).ok()?;
        let mut bytes = [0; PID_BYTES_MAX];
        let len = fs.read_at(&file, &mut bytes, 0).ok()?;
        let text = std::str::from_utf8(bytes.get(..len)?).ok()?.trim();
        let is_pid = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_pid.then(|| text.to_owned())
    };
    read().unwrap_or_else(|| "unknown".to_owned())
}
