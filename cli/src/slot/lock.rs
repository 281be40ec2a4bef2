//! Who holds a slot, found out without keeping anybody from it.
//!
//! First by `/proc/locks`, which takes nothing. A holder in another PID namespace, or on a
//! filesystem whose device number there differs, does not show in it; so where it shows none, a
//! shared lock on a read-only descriptor is tried and given back at once.

use std::fs::TryLockError;
use std::os::unix::fs::MetadataExt;

use super::dir::{Dir, LOCK, LOCK_PID};
use crate::error::Failure;

/// Most bytes of `.lock.pid` that are looked at.
const PID_BYTES_MAX: usize = 64;

/// The lock of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lock {
    /// What `.lock.pid` says; it decides nothing.
    pub(crate) pid_file: Option<String>,
    /// Whether somebody holds `.lock`.
    pub(crate) held: bool,
    /// The process that holds it, where `/proc/locks` says so.
    pub(crate) holder: Option<u64>,
}

/// Looks at the lock.
pub(crate) fn look(dir: &Dir) -> Result<Lock, Failure> {
    let pid_file = dir.head_if_any(LOCK_PID, PID_BYTES_MAX)?;
    let pid_file = pid_file.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
    let mut lock = Lock {
        pid_file,
        held: false,
        holder: None,
    };
    let file = match dir.open(LOCK) {
        Ok(file) => file,
        Err(failure) if failure.is_gone() => return Ok(lock),
        Err(failure) => return Err(failure),
    };
    let failed = |source| Failure::read("look at the lock", &dir.join(LOCK), source);
    let meta = file.metadata().map_err(failed)?;
    let table = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    lock.holder = holder(&table, meta.dev(), meta.ino());
    lock.held = lock.holder.is_some();
    if !lock.held {
        match file.try_lock_shared() {
            // Closing the descriptor gives it back as well.
            Ok(()) => file.unlock().map_err(failed)?,
            Err(TryLockError::WouldBlock) => lock.held = true,
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
    Ok(lock)
}

/// The process that holds an exclusive `flock` on the inode, according to `/proc/locks`.
fn holder(table: &str, device: u64, inode: u64) -> Option<u64> {
    let wanted = format!(
        "{:02x}:{:02x}:{inode}",
        libc::major(device),
        libc::minor(device)
    );
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        // A waiter's line has "->" here and is no holder.
        let (kind, _, access) = (words.next()?, words.next()?, words.next()?);
        let (pid, place) = (words.next()?, words.next()?);
        (kind == "FLOCK" && access == "WRITE" && place == wanted)
            .then(|| pid.parse().ok())
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_by_device_and_inode() {
        let table = "1: POSIX  ADVISORY  WRITE 11 08:01:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 08:01:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 14 08:01:7 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 15 08:01:7 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 13 08:01:7 0 EOF\nnonsense\n";
        let device = libc::makedev(8, 1);
        assert_eq!(holder(table, device, 7), Some(13));
        assert_eq!(holder(table, device, 77), Some(12));
        assert_eq!(holder(table, device, 8), None);
        assert_eq!(holder("", device, 7), None);
    }
}
