//! Limits of the process.

use std::io;

/// Bytes of memory that a process like this may lock (`ulimit -l`); `u64::MAX` without a limit.
pub(crate) fn locked_memory_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for the call to fill.
    super::check(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) })?;
    Ok(limit.rlim_cur)
}
