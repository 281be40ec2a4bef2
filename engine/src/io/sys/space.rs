//! How much a filesystem has left.

use std::io;
use std::mem::MaybeUninit;
use std::path::Path;

use super::fs::c_path;
use super::{check, retry};

/// Bytes that an unprivileged process may still use on the filesystem of `path`.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = c_path(path)?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` ends in a zero byte, and `found` is memory for the structure that is written.
    retry(|| check(unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) }))?;
    // SAFETY: the call above succeeded, so it has filled the structure.
    let found = unsafe { found.assume_init() };
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Type of the filesystem that `path` is on, such as `ext4`; of its parent when it does not exist.
pub(crate) fn filesystem_type(path: &Path) -> Option<String> {
    let known = path.ancestors().find_map(|part| part.canonicalize().ok())?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let on = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        let point = point.replace("\\040", " ");
        known.starts_with(&point).then_some((point.len(), kind))
    });
    // Of two mounts on one another the later one is seen.
    let (_, kind) = on.max_by_key(|(length, _)| *length)?;
    Some(kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_some_room_and_a_missing_one_is_an_error() {
        let free = free_bytes(Path::new("/")).unwrap();
        assert!(free < 1 << 60, "{free} bytes");
        let error = free_bytes(Path::new("/no/such/place")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_type_of_a_filesystem_is_that_of_its_mount() {
        assert_eq!(
            filesystem_type(Path::new("/proc/self/nothing")).as_deref(),
            Some("proc")
        );
        assert!(filesystem_type(Path::new("/")).is_some());
    }
}
