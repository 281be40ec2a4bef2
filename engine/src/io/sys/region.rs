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

use super::memory::POPULATE_WRITE;
use super::{Home, check};
use crate::io::Between;

/// Alignment and granularity of direct I/O used throughout: a multiple of every common
/// logical block size.
pub(crate) const BLOCK: usize = 4096;

/// Size of a huge page. A direct write out of ordinary pages is cut by the number of pieces that a
/// device takes at once; one piece is one page, or one huge page.
pub(crate) const HUGE: usize = 2 << 20;

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
    /// Maps `bytes`, in huge pages where there are any and one fits.
    fn new(bytes: usize) -> io::Result<Self> {
        let is_huge = bytes >= HUGE;
        let mut mapping = Self::of(if is_huge { bytes + HUGE } else { bytes })?;
        if is_huge {
            mapping.align(bytes);
        }
        mapping.advise(libc::MADV_DONTFORK)?;
        if is_huge {
            // A kernel without them, or told to have none, goes on with ordinary pages.
            let _ = mapping.advise(libc::MADV_HUGEPAGE);
        }
        Ok(mapping)
    }

    fn of(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            start: NonNull::new(start.cast()).expect("mmap never returns null"),
            bytes,
            home: Home::here(),
        })
    }

    /// Gives back all but `bytes` from the first address that a huge page can begin at. Example:
    /// 6 MiB at 5 MiB are to hold 4 MiB: 5..6 and 10..11 go, 6..10 stay.
    fn align(&mut self, bytes: usize) {
        let head = self.start.as_ptr().align_offset(HUGE);
        let tail = self.bytes - head - bytes;
        let start = self.start.as_ptr().wrapping_add(head);
        for (from, count) in [
            (self.start.as_ptr(), head),
            (start.wrapping_add(bytes), tail),
        ] {
            if count > 0 {
                // SAFETY: a part of this mapping at either end, whole pages of it, that nobody has
                // a reference into; `start` and `bytes` leave it out from here on.
                unsafe { libc::munmap(from.cast(), count) };
            }
        }
        self.start = NonNull::new(start).expect("inside a mapping");
        self.bytes = bytes;
    }

    fn advise(&self, advice: i32) -> io::Result<()> {
        // SAFETY: the range is this mapping.
        check(unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) }).map(drop)
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
    /// Maps `bytes` (rounded up to whole blocks) of zeroed memory; pages arrive on first touch,
    /// huge ones if `bytes` is [`HUGE`] or more.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(BLOCK);
        Ok(Self {
            mapping: Arc::new(Mapping::new(bytes)?),
        })
    }

    /// Brings all pages in, so that no later write meets one for the first time. `between` is called
    /// between pieces of [`HUGE`] bytes; its error ends the work. What an older kernel cannot do
    /// happens page by page later.
    pub(crate) fn populate(&mut self, between: Between<'_>) -> io::Result<()> {
        for at in (0..self.bytes()).step_by(HUGE) {
            let start = self.mapping.start.as_ptr().wrapping_add(at);
            let bytes = HUGE.min(self.bytes() - at);
            // SAFETY: a part of the mapping; its contents stay as they are.
            let _ = unsafe { libc::madvise(start.cast(), bytes, POPULATE_WRITE) };
            between()?;
        }
        Ok(())
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

    /// What the kernel says of the mapping that holds `address`.
    fn flags(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
        let mut holds = false;
        for line in maps.lines() {
            let first = line.split(' ').next().expect("a word");
            if let Some((from, to)) = first.split_once('-') {
                let bound = |text| usize::from_str_radix(text, 16).expect("an address");
                holds = (bound(from)..bound(to)).contains(&address);
            } else if holds && first == "VmFlags:" {
                return line.to_owned();
            }
        }
        panic!("{address:x} is not mapped");
    }

    #[test]
    fn a_large_region_begins_where_a_huge_page_can_and_asks_for_them() {
        for bytes in [HUGE, HUGE + BLOCK, 3 * HUGE] {
            let mut region = Region::new(bytes).expect("map");
            let address = region.pin(0..bytes).address() as usize;
            assert_eq!((address % HUGE, region.bytes()), (0, bytes));
            region.slice_mut(0..1)[0] = 1;
            region.slice_mut(bytes - 1..bytes)[0] = 2;
            for place in [address, address + bytes - 1] {
                assert!(flags(place).contains(" hg"), "{}", flags(place));
            }
        }
    }

    /// Which of the pages of `region` are in memory.
    fn resident(region: &Region) -> Vec<bool> {
        let pages = region.bytes() / BLOCK;
        let mut found = vec![0; pages];
        let start = region.pin(0..region.bytes()).address();
        // SAFETY: the mapping is that long, and the vector has a byte for each of its pages.
        let code = unsafe { libc::mincore(start.cast(), region.bytes(), found.as_mut_ptr()) };
        check(code).expect("mincore");
        found.into_iter().map(|byte: u8| byte & 1 == 1).collect()
    }

    #[test]
    fn pages_are_brought_in_piece_by_piece_until_somebody_stops_it() {
        let mut region = Region::new(3 * HUGE).expect("map");
        let mut pieces = 0;
        let stopped = region.populate(&mut || {
            pieces += 1;
            if pieces < 2 {
                Ok(())
            } else {
                Err(io::ErrorKind::Interrupted.into())
            }
        });
        assert!(stopped.is_err());
        let pages = resident(&region);
        let (first, last) = pages.split_at(2 * HUGE / BLOCK);
        assert!(first.iter().all(|page| *page) && !last.iter().any(|page| *page));
        region.populate(&mut || Ok(())).expect("to the end");
        assert!(resident(&region).iter().all(|page| *page));
    }

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
