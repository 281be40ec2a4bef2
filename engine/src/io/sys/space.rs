//! How much a filesystem has left.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{check, retry};

/// Bytes that an unprivileged process may still use on the filesystem of `path`.
pub(crate) fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` ends in a zero byte, and `found` is memory for the structure that is written.
    retry(|| check(unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) }))?;
    // SAFETY: the call above succeeded, so it has filled the structure.
    let found = unsafe { found.assume_init() };
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
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
}
