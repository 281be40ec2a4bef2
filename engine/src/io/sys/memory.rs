//! Page-aligned memory that two threads, or a process and its successor, share word by word: what
//! intake rings lie in. Whoever reads or writes it says why he may (`router/region.rs`).

use std::io;
use std::ptr::NonNull;

use super::{Home, check};
use crate::io::File;

/// `MADV_POPULATE_WRITE` (Linux 5.14): brings every page in, ready to be written.
pub(super) const POPULATE_WRITE: libc::c_int = 23;

/// A mapping, excluded from forked children: private and zeroed, or of a file and shared.
pub(crate) struct Memory {
    start: NonNull<u8>,
    bytes: usize,
    home: Home,
}

// SAFETY: plain memory owned by this value, which itself reads and writes nothing.
unsafe impl Send for Memory {}
// SAFETY: as above; shared references only give out the address.
unsafe impl Sync for Memory {}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} bytes)", self.bytes)
    }
}

impl Memory {
    /// `bytes` of zeroed memory of this process.
    pub(crate) fn private(bytes: usize) -> io::Result<Self> {
        Self::map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, bytes)
    }

    /// The first `bytes` of a file that is open for reading and writing and at least as long.
    /// Should the file become shorter, or its filesystem read-only, touching it raises SIGBUS.
    pub(crate) fn of_file(file: &File, bytes: usize) -> io::Result<Self> {
        Self::map(libc::MAP_SHARED, file.raw(), bytes)
    }

    fn map(flags: libc::c_int, fd: libc::c_int, bytes: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = Self {
            start: NonNull::new(start.cast()).expect("mmap never returns null"),
            bytes,
            home: Home::here(),
        };
        // SAFETY: the range is the mapping just made.
        check(unsafe { libc::madvise(start, bytes, libc::MADV_DONTFORK) })?;
        Ok(memory)
    }

    /// Brings all pages in, so that no later write meets one for the first time. What an older
    /// kernel cannot do happens page by page later.
    pub(crate) fn populate(&self) {
        let start = self.start.as_ptr().cast();
        // SAFETY: the range is this mapping; its contents stay as they are.
        let _ = unsafe { libc::madvise(start, self.bytes, POPULATE_WRITE) };
    }

    /// Where it begins.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A child has no such mapping: there may be another one in its place.
        if !self.home.is_here() {
            return;
        }
        // SAFETY: mapped by `map`, and whoever used the address is gone with this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
