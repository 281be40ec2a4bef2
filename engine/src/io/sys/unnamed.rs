//! Files that get their name when they are complete (`O_TMPFILE`, then `linkat`).
//!
//! A process that is killed before leaves nothing behind.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

use super::fs::c_path;
use super::{check, retry};

/// A file without a name in the directory of `path`, mode 0600. `None` where the filesystem has no
/// such files.
pub(super) fn create(path: &Path) -> io::Result<Option<File>> {
    let dir = c_path(path.parent().unwrap_or(Path::new("/")))?;
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: `dir` is a live NUL-terminated string.
    let opened = retry(|| check(unsafe { libc::open(dir.as_ptr(), flags, 0o600) }));
    match opened {
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(fd) => Ok(Some(unsafe { File::from_raw_fd(fd) })),
        Err(error) => match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Gives the file its name, which must not exist. `false` where there is no `/proc` to do it by.
pub(super) fn link(file: &File, path: &Path) -> io::Result<bool> {
    let own = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let (cwd, path) = (libc::AT_FDCWD, c_path(path)?);
    let follow = libc::AT_SYMLINK_FOLLOW;
    // SAFETY: both are live NUL-terminated strings.
    let linked = check(unsafe { libc::linkat(cwd, own.as_ptr(), cwd, path.as_ptr(), follow) });
    match linked {
        Ok(_) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::EXDEV) => Ok(false),
            _ => Err(error),
        },
    }
}
