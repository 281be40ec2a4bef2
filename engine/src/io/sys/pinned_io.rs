//! Plain reads and writes of pinned memory, which is aligned as direct I/O wants it.

use std::io;

use super::{Pinned, retry};
use crate::io::File;

fn moved(result: isize) -> io::Result<u32> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    u32::try_from(result).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn offset_of(offset: u64) -> io::Result<i64> {
    i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Writes `bytes` at `offset`; answers how many.
pub(crate) fn write_pinned(file: &File, bytes: &Pinned, offset: u64) -> io::Result<u32> {
    let (from, len, offset) = (bytes.address(), bytes.bytes(), offset_of(offset)?);
    // SAFETY: reads `len` bytes of memory that `bytes` keeps mapped.
    retry(|| moved(unsafe { libc::pwrite(file.raw(), from.cast(), len, offset) }))
}

/// Reads into `into` from `offset`; answers how many bytes.
pub(crate) fn read_pinned(file: &File, into: &Pinned, offset: u64) -> io::Result<u32> {
    let (to, len, offset) = (into.address(), into.bytes(), offset_of(offset)?);
    // SAFETY: fills `len` bytes of memory that `into` keeps mapped and whose owner does not touch
    // it until the operation is reported.
    retry(|| moved(unsafe { libc::pread(file.raw(), to.cast(), len, offset) }))
}
