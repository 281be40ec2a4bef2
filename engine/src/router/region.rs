//! The memory of a ring: two cursors and the buffer, private or in a file that survives the
//! process. The layout is the same (docs/on-disk.md, "Intake"):
//!
//! ```text
//! 0     file header, 128 bytes (intake/header.rs); zero in private memory
//! 128   head u64: everything below was released by the shard
//! 256   tail u64: everything below was published by the producer
//! 4096  the buffer, `capacity` bytes
//! ```
//!
//! The crate `forebay-loom` has another `Region` with the same methods, over loom's cells.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::io::sys::Memory;

/// Bytes before the buffer.
pub(crate) const FRONT_BYTES: usize = 4096;
/// Where the cursors lie, each on a pair of cache lines of its own.
pub(crate) const HEAD_AT: usize = 128;
pub(crate) const TAIL_AT: usize = 256;

/// The memory of one ring. On cache lines of its own: both ends read it with every entry, and a
/// neighbour on the heap may be what either writes.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Region {
    memory: Memory,
    mask: u64,
    sealed: bool,
}

impl Region {
    /// Memory of this process, for a buffer of `capacity` bytes (a power of two of at least 64).
    pub(crate) fn private(capacity: usize) -> io::Result<Self> {
        let memory = Memory::private(FRONT_BYTES + capacity)?;
        memory.populate();
        Ok(Self::over(memory, false))
    }

    /// The mapping of a ring's file: entries carry their CRC.
    pub(crate) fn shared(memory: Memory) -> Self {
        Self::over(memory, true)
    }

    fn over(memory: Memory, sealed: bool) -> Self {
        let capacity = memory.bytes() - FRONT_BYTES;
        assert!(
            capacity.is_power_of_two() && capacity >= 64,
            "capacity {capacity}"
        );
        Self {
            memory,
            mask: capacity as u64 - 1,
            sealed,
        }
    }

    /// Whether what is published must be readable by another process: entries are checksummed
    /// and stamped.
    #[inline]
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Bytes of the buffer.
    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.mask + 1
    }

    /// Everything below was released.
    #[inline]
    pub(crate) fn head(&self) -> &AtomicU64 {
        self.cursor(HEAD_AT)
    }

    /// Everything below was published.
    #[inline]
    pub(crate) fn tail(&self) -> &AtomicU64 {
        self.cursor(TAIL_AT)
    }

    #[inline]
    fn cursor(&self, at: usize) -> &AtomicU64 {
        let place = self.memory.start().as_ptr().wrapping_add(at).cast();
        // SAFETY: aligned and inside the mapping, whose front is `FRONT_BYTES` long; these eight
        // bytes are only ever accessed as this atomic.
        unsafe { AtomicU64::from_ptr(place) }
    }

    /// Address of `bytes` contiguous bytes at `position`.
    #[inline]
    fn at(&self, position: u64, bytes: usize) -> *mut u8 {
        let place = usize::try_from(position & self.mask).expect("the mask is below usize::MAX");
        assert!(
            FRONT_BYTES + place + bytes <= self.memory.bytes(),
            "{place} + {bytes}"
        );
        let start = self.memory.start().as_ptr();
        start.wrapping_add(FRONT_BYTES + place)
    }

    /// Address of the word at `position`, a multiple of 8.
    #[inline]
    fn word(&self, position: u64) -> *mut u64 {
        self.at(position, 8).cast()
    }

    /// The word at `position`, a multiple of 8.
    ///
    /// # Safety
    /// Nobody writes there now.
    #[inline]
    pub(crate) unsafe fn get(&self, position: u64) -> u64 {
        let place = self.word(position);
        // SAFETY: inside the buffer (`at` asserts), aligned because the position is a multiple of
        // 8, and unchanged meanwhile, says the caller.
        u64::from_le(unsafe { place.read() })
    }

    /// Writes the word at `position`, a multiple of 8.
    ///
    /// # Safety
    /// The caller alone has this part of the buffer.
    #[inline]
    pub(crate) unsafe fn put(&self, position: u64, word: u64) {
        let place = self.word(position);
        // SAFETY: as in `get`, and nobody else reads or writes there, says the caller.
        unsafe { place.write(word.to_le()) };
    }

    /// Writes the word at `position`, a multiple of 8, after everything written before: a
    /// successor of this process that sees it sees those too.
    ///
    /// # Safety
    /// As [`put`](Self::put).
    #[inline]
    pub(crate) unsafe fn put_last(&self, position: u64, word: u64) {
        let place = self.word(position);
        // SAFETY: as in `put`; nobody accesses it as anything else meanwhile.
        let word_there = unsafe { AtomicU64::from_ptr(place) };
        word_there.store(word.to_le(), Ordering::Release);
    }

    /// `bytes` contiguous bytes at `position`.
    ///
    /// # Safety
    /// Nobody writes there while the slice lives.
    #[inline]
    pub(crate) unsafe fn bytes(&self, position: u64, bytes: usize) -> &[u8] {
        let place = self.at(position, bytes);
        // SAFETY: inside the mapping (`at` asserts), initialised by the kernel, unchanged while
        // the slice lives, says the caller.
        unsafe { std::slice::from_raw_parts(place, bytes) }
    }

    /// `bytes` contiguous bytes at `position`, to be written.
    ///
    /// # Safety
    /// The caller alone has this part of the buffer while the slice lives.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the caller answers for the range")]
    pub(crate) unsafe fn bytes_mut(&self, position: u64, bytes: usize) -> &mut [u8] {
        let place = self.at(position, bytes);
        // SAFETY: inside the mapping, every bit pattern is a valid u8, and this is the only
        // reference into the range, says the caller.
        unsafe { std::slice::from_raw_parts_mut(place, bytes) }
    }

    /// Forgets which frame the entry at `position` became. For a ring without a writer and without
    /// a reader yet.
    pub(crate) fn wipe_stamp(&self, position: u64) {
        // SAFETY: recovery alone has the ring: the slot's lock is held, and what it found in the
        // buffer is not looked at meanwhile.
        unsafe { self.put_last(position + crate::router::ring::head::FSN_AT, 0) };
    }

    /// The file header and the cursors of a ring that nobody uses.
    pub(crate) fn quiet_front(&self) -> &[u8] {
        let start = self.memory.start().as_ptr();
        // SAFETY: the mapping begins with `FRONT_BYTES`; only recovery calls this, which alone has
        // the ring and writes nothing while the slice lives.
        unsafe { std::slice::from_raw_parts(start, FRONT_BYTES) }
    }

    /// The whole buffer of a ring that nobody uses.
    pub(crate) fn quiet_buffer(&self) -> &[u8] {
        let bytes = self.memory.bytes() - FRONT_BYTES;
        // SAFETY: as in `quiet_front`.
        unsafe { self.bytes(0, bytes) }
    }
}
