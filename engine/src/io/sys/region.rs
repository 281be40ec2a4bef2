//! Page-aligned memory that the kernel may read or fill while the shard holds the rest of it.
//!
//! A [`Region`] has one writer, its owner. [`Region::pin`] hands out a range for an operation in
//! flight: the [`Pinned`] keeps the mapping alive, whatever becomes of the region, so the kernel
//! can never write into reused memory. The owner promises not to touch a pinned range until the
//! operation completes; the simulated disk checks that promise.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Home, check};

/// Alignment and granularity of direct I/O used throughout: a multiple of every common
/// logical block size.
pub(crate) const BLOCK: usize = 4096;

/// An anonymous private mapping, excluded from forked children.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    home: Home,
}

// SAFETY: the mapping is plain memory owned by this value; access is governed by `Region`.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared references only give out raw pointers.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Self {
            start: NonNull::new(start.cast()).expect("mmap never returns null"),
            bytes,
            home: Home::here(),
        };
        // SAFETY: the range is the mapping just made.
        check(unsafe { libc::madvise(start, bytes, libc::MADV_DONTFORK) })?;
        Ok(mapping)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // A child has no such mapping: there may be another one in its place.
        if !self.home.is_here() {
            return;
        }
        // SAFETY: the range was mapped by `new` and nobody holds a reference into it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Zeroed page-aligned memory with one writer.
pub(crate) struct Region {
    mapping: Arc<Mapping>,
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({} bytes)", self.bytes())
    }
}

impl Region {
    /// Maps `bytes` (rounded up to whole blocks) of zeroed memory; pages arrive on first touch.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(BLOCK);
        Ok(Self {
            mapping: Arc::new(Mapping::new(bytes)?),
        })
    }

    /// Size in bytes, a multiple of [`BLOCK`].
    pub(crate) fn bytes(&self) -> usize {
        self.mapping.bytes
    }

    /// A view of `range`.
    ///
    /// # Panics
    /// If the range is not inside the region: a bug of the caller, never a matter of data.
    #[inline]
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        assert!(
            range.start <= range.end && range.end <= self.mapping.bytes,
            "{range:?}"
        );
        // SAFETY: the range is inside the mapping (asserted), initialised (zeroed by the kernel),
        // and only `slice_mut`, which needs `&mut self`, or an operation on a pinned range that
        // the owner must not touch, writes to it.
        unsafe {
            std::slice::from_raw_parts(
                self.mapping.start.as_ptr().wrapping_add(range.start),
                range.end - range.start,
            )
        }
    }

    /// A writable view of `range`, which must not overlap a pinned range in flight.
    ///
    /// # Panics
    /// If the range is not inside the region.
    #[inline]
    pub(crate) fn slice_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(
            range.start <= range.end && range.end <= self.mapping.bytes,
            "{range:?}"
        );
        // SAFETY: inside the mapping (asserted); `&mut self` makes this the only Rust reference,
        // and the kernel only reads pinned ranges, which the owner does not touch.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.mapping.start.as_ptr().wrapping_add(range.start),
                range.end - range.start,
            )
        }
    }

    /// Lends `range` to an operation.
    ///
    /// # Panics
    /// If the range is not inside the region.
    pub(crate) fn pin(&self, range: Range<usize>) -> Pinned {
        assert!(
            range.start <= range.end && range.end <= self.mapping.bytes,
            "{range:?}"
        );
        Pinned {
            mapping: Arc::clone(&self.mapping),
            start: range.start,
            bytes: range.len(),
        }
    }

    /// Whether no operation in flight holds a range of this region.
    pub(crate) fn is_unpinned(&self) -> bool {
        Arc::strong_count(&self.mapping) == 1
    }
}

/// A range of a region lent to an operation in flight; keeps the memory mapped.
pub(crate) struct Pinned {
    mapping: Arc<Mapping>,
    start: usize,
    bytes: usize,
}

impl std::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pinned({}+{})", self.start, self.bytes)
    }
}

impl Pinned {
    /// Length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Address for the kernel.
    pub(crate) fn address(&self) -> *mut u8 {
        self.mapping.start.as_ptr().wrapping_add(self.start)
    }

    /// Copies the range out.
    pub(crate) fn copy_to(&self, out: &mut Vec<u8>) {
        let old = out.len();
        out.resize(old + self.bytes, 0);
        let target = out[old..].as_mut_ptr();
        // SAFETY: source and target are both `bytes` long; the target is a fresh Vec tail, so they
        // do not overlap; the owner does not write to a pinned range.
        unsafe { std::ptr::copy_nonoverlapping(self.address(), target, self.bytes) };
    }

    /// Fills the range, for the simulated disk: what the kernel does for a read.
    #[cfg(any(test, feature = "internals"))]
    pub(crate) fn copy_from(&self, bytes: &[u8]) {
        assert!(
            bytes.len() <= self.bytes,
            "{} into {}",
            bytes.len(),
            self.bytes
        );
        // SAFETY: the target range is inside the mapping and at least as long (asserted); the
        // owner does not touch a range pinned for reading, so no Rust reference overlaps it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.address(), bytes.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_range_outlives_its_region() {
        let mut region = Region::new(2 * BLOCK).expect("map");
        region.slice_mut(10..13).copy_from_slice(b"abc");
        let pinned = region.pin(10..13);
        drop(region);
        let mut out = Vec::new();
        pinned.copy_to(&mut out);
        assert_eq!(out, b"abc");
    }
}
