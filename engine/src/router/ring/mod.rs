//! A single-producer single-consumer ring of variable-length entries, over a [`Region`].
//!
//! Entries are contiguous in memory: one that would straddle the end of the buffer is preceded by
//! a pad entry that fills it up, which is why an entry may be at most half the capacity. Positions
//! are 64-bit byte counts that never wrap; `position & mask` is the place in the buffer. The head of
//! an entry is described in `head.rs`.
//!
//! The writer owns `head..head+capacity` minus what is published, the reader owns `head..tail`.
//! `tail` is published with release and read with acquire, so the reader sees the payload; `head`
//! likewise in the other direction, so the writer never overwrites what is still being read.
//!
//! Taking an entry and releasing its room are two things: in a ring that is to survive the process
//! an entry stays until its frame is written.

pub(crate) mod head;

use self::head::{
    CRC_AT, FRAME_AT, FSN_AT, HEAD_BYTES, KIND_DATA, KIND_PAD, crc, entry_bytes, first_word, split,
};
use super::region::Region;
use super::sync::{Arc, Ordering};

/// The two ends of a new ring.
pub(crate) fn over(region: Region) -> (Writer, Reader) {
    let region = Arc::new(region);
    let writer = Writer {
        region: Arc::clone(&region),
        tail: 0,
        head_seen: 0,
        reserved: 0,
        sealed: 0,
    };
    let reader = Reader {
        region,
        head: 0,
        next: 0,
        behind: 0,
        tail_seen: 0,
        limit: u64::MAX,
    };
    (writer, reader)
}

/// The producing end.
pub struct Writer {
    region: Arc<Region>,
    tail: u64,
    head_seen: u64,
    /// End of what is reserved and not committed; `tail` when nothing is.
    reserved: u64,
    /// Everything reserved below has its CRC, if this is at the end of it.
    sealed: u64,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer(tail {})", self.tail)
    }
}

impl Writer {
    /// Largest payload of an entry in bytes: half the ring, so that padding always suffices.
    pub fn payload_bytes_max(&self) -> usize {
        usize::try_from(self.region.capacity() / 2).expect("capacity came from usize") - HEAD_BYTES
    }

    /// Room for an entry of `bytes`, to be filled and [`commit`](Self::commit)ted; `None` when
    /// the ring is too full. A reservation that is not committed leaves no trace.
    ///
    /// # Panics
    /// If `bytes` exceeds [`payload_bytes_max`](Self::payload_bytes_max) or is 0.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.reserved = self.tail;
        self.sealed = self.tail;
        self.reserve_next(bytes)
    }

    /// As [`reserve`](Self::reserve), behind what is reserved already: all of it is committed at
    /// once. `None` leaves the earlier reservations as they are.
    ///
    /// # Panics
    /// As `reserve`.
    #[inline]
    pub fn reserve_next(&mut self, bytes: usize) -> Option<&mut [u8]> {
        assert!(
            bytes > 0 && bytes <= self.payload_bytes_max(),
            "entry of {bytes} bytes"
        );
        let from = self.reserved;
        let capacity = self.region.capacity();
        let (start, end) = self.place(from, bytes);
        if end - self.head_seen > capacity {
            self.head_seen = self.region.head().load(Ordering::Acquire);
            if end - self.head_seen > capacity {
                return None;
            }
        }
        let pad = start - from;
        if pad > 0 {
            self.put_head(from, pad - HEAD_BYTES as u64, KIND_PAD);
        }
        self.put_head(start, bytes as u64, KIND_DATA);
        self.reserved = end;
        // SAFETY: `head <= tail <= from <= start` and `end <= head + capacity` (checked above), so
        // the range lies in the writer's part, behind every earlier reservation, and does not
        // cross the end of the buffer; `&mut self` makes this the only reference.
        Some(unsafe { self.region.bytes_mut(start + HEAD_BYTES as u64, bytes) })
    }

    /// [Reserves](Self::reserve) an entry and fills it with what lies elsewhere; `false` when the ring
    /// is too full. Its CRC is that of the original, which is at hand, while the ring's memory is
    /// still on its way to this core.
    ///
    /// # Panics
    /// As `reserve`.
    #[inline]
    pub fn put(&mut self, payload: &[u8]) -> bool {
        let Some(entry) = self.reserve(payload.len()) else {
            return false;
        };
        entry.copy_from_slice(payload);
        let end = self.reserved;
        let is_alone = end - self.tail == entry_bytes(payload.len());
        // A pad before it waits for the commit.
        if is_alone && self.region.is_sealed() {
            let first = first_word(payload.len() as u64, KIND_DATA);
            let crc = crc(self.tail, first, payload);
            // SAFETY: the head of the reserved entry, in the writer's part.
            unsafe { self.region.put(self.tail + CRC_AT, u64::from(crc)) };
            self.sealed = end;
        }
        true
    }

    /// Start and end of an entry of `bytes` that comes next at `from`: entries are contiguous, so
    /// one that does not fit before the buffer's end begins behind it.
    #[inline]
    fn place(&self, from: u64, bytes: usize) -> (u64, u64) {
        let capacity = self.region.capacity();
        let need = entry_bytes(bytes);
        let to_end = capacity - (from & (capacity - 1));
        let start = if need > to_end { from + to_end } else { from };
        (start, start + need)
    }

    /// Bytes that entries of these sizes take behind each other, padding included: exactly as much
    /// [`room`](Self::room) is needed to reserve all of them.
    pub fn footprint(&self, entries: impl IntoIterator<Item = usize>) -> u64 {
        let entries = entries.into_iter();
        entries.fold(self.tail, |end, bytes| self.place(end, bytes).1) - self.tail
    }

    /// Bytes of entries that are free now, by a look that may be late: the shard may have freed
    /// more meanwhile.
    #[inline]
    pub fn room(&self) -> u64 {
        let head = self.region.head().load(Ordering::Relaxed);
        self.region.capacity() - (self.tail - head)
    }

    /// The position up to which must be released for `bytes` to be free.
    pub(crate) fn position_for(&self, bytes: u64) -> u64 {
        (self.tail + bytes).saturating_sub(self.region.capacity())
    }

    /// Bytes of the ring.
    pub fn capacity(&self) -> u64 {
        self.region.capacity()
    }

    #[inline]
    fn put_head(&mut self, position: u64, bytes: u64, kind: u32) {
        // SAFETY: in the writer's part of the buffer (as in `reserve_next`), which holds a whole head
        // wherever an entry begins.
        let head = unsafe { self.region.bytes_mut(position, HEAD_BYTES) };
        // Not sealed yet: a data entry's payload is still to come.
        let (words, _) = head.as_chunks_mut();
        words.fill([0; 8]);
        if let Some(first) = words.first_mut() {
            *first = first_word(bytes, kind).to_le_bytes();
        }
    }

    /// Publishes what is reserved, all of it by one store.
    ///
    /// # Panics
    /// If nothing is reserved.
    #[inline]
    pub fn commit(&mut self) {
        assert!(self.reserved > self.tail, "commit follows reserve");
        if self.region.is_sealed() && self.sealed != self.reserved {
            self.seal();
        }
        self.tail = self.reserved;
        self.region.tail().store(self.tail, Ordering::Release);
    }

    /// Puts the CRC into every reserved entry.
    #[inline]
    fn seal(&mut self) {
        let mut at = self.tail;
        while at < self.reserved {
            // SAFETY: a head that this writer put there, not published yet.
            let first = unsafe { self.region.get(at) };
            let (bytes, kind) = split(first);
            let covered = if kind == KIND_PAD { 0 } else { bytes };
            // SAFETY: the payload of that entry, not published yet; `&mut self` means that nobody
            // holds a reservation any more.
            let payload = unsafe { self.region.bytes(at + HEAD_BYTES as u64, covered) };
            let crc = crc(at, first, payload);
            // SAFETY: in the writer's part, as above.
            unsafe { self.region.put(at + CRC_AT, u64::from(crc)) };
            at += entry_bytes(bytes);
        }
    }
}

/// The consuming end.
pub struct Reader {
    region: Arc<Region>,
    /// Everything below is released.
    head: u64,
    /// Everything below is taken.
    next: u64,
    /// Where the entry ends that was looked at last; `next` when that is taken.
    behind: u64,
    tail_seen: u64,
    /// Nothing at or above is looked at.
    limit: u64,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader(head {}, next {})", self.head, self.next)
    }
}

impl Reader {
    /// The consuming end of a ring whose writer is gone: the entries of `head..tail`, which were
    /// checked (`walk.rs`). Nothing else of the region is believed.
    pub(crate) fn attach(region: Region, head: u64, tail: u64) -> Self {
        region.head().store(head, Ordering::Release);
        Self {
            region: Arc::new(region),
            head,
            next: head,
            behind: head,
            tail_seen: tail,
            limit: tail,
        }
    }

    #[inline]
    fn tail(&self) -> u64 {
        self.region.tail().load(Ordering::Acquire).min(self.limit)
    }

    /// The oldest entry that is not taken.
    #[inline]
    pub fn peek(&mut self) -> Option<&[u8]> {
        loop {
            if self.next == self.tail_seen {
                self.tail_seen = self.tail();
                if self.next == self.tail_seen {
                    return None;
                }
            }
            let (bytes, kind) = self.split_at(self.next);
            if kind == KIND_PAD {
                self.next += entry_bytes(bytes);
                continue;
            }
            self.behind = self.next + entry_bytes(bytes);
            // SAFETY: `next < tail`, so the entry is published and in the reader's part; the
            // acquire load of `tail` makes its bytes visible; the writer leaves them alone until
            // `head` moves, which needs `&mut self`.
            return Some(unsafe { self.region.bytes(self.next + HEAD_BYTES as u64, bytes) });
        }
    }

    #[inline]
    fn split_at(&self, position: u64) -> (usize, u32) {
        // SAFETY: a published head in the reader's part (see `peek`).
        split(unsafe { self.region.get(position) })
    }

    /// Notes in the entry that [`peek`](Self::peek) gave which frame it became, for a successor of
    /// this process; the FSN goes last. Nothing to do in private memory.
    #[inline]
    pub(crate) fn stamp(&mut self, frame_crc: u32, frame_bytes: u32, fsn: u64) {
        if !self.region.is_sealed() {
            return;
        }
        let frame = u64::from(frame_crc) | u64::from(frame_bytes) << 32;
        // SAFETY: the head of a published entry in the reader's part; the writer does not read it.
        unsafe { self.region.put(self.next + FRAME_AT, frame) };
        // SAFETY: as above.
        unsafe { self.region.put_last(self.next + FSN_AT, fsn + 1) };
    }

    /// Takes the entry that [`peek`](Self::peek) gave; its room stays in use.
    ///
    /// # Panics
    /// If there is no entry.
    #[inline]
    pub fn take(&mut self) {
        assert!(self.next < self.behind, "take follows peek");
        self.next = self.behind;
    }

    /// Takes the entry that [`peek`](Self::peek) gave and gives the room of everything taken back
    /// to the writer.
    ///
    /// # Panics
    /// If there is no entry.
    #[inline]
    pub fn release(&mut self) {
        self.take();
        self.head = self.next;
        self.region.head().store(self.head, Ordering::Release);
    }

    /// Gives the room of the oldest `count` entries back to the writer.
    ///
    /// # Panics
    /// If fewer are taken.
    pub(crate) fn release_first(&mut self, count: u64) {
        for _ in 0..count {
            loop {
                assert!(self.head < self.next, "{count} entries are taken");
                let (bytes, kind) = self.split_at(self.head);
                self.head += entry_bytes(bytes);
                if kind == KIND_DATA {
                    break;
                }
            }
        }
        self.region.head().store(self.head, Ordering::Release);
    }

    /// Goes back to the oldest entry that is not released and takes the first `count` again; what
    /// was noted in those behind is void. `false` if there are fewer.
    pub(crate) fn rewind(&mut self, count: u64) -> bool {
        (self.next, self.behind) = (self.head, self.head);
        for _ in 0..count {
            if self.peek().is_none() {
                return false;
            }
            self.take();
        }
        let mut at = self.next;
        while self.region.is_sealed() && at < self.tail_seen {
            let (bytes, kind) = self.split_at(at);
            if kind == KIND_DATA {
                // SAFETY: the head of a published entry in the reader's part (see `stamp`).
                unsafe { self.region.put_last(at + FSN_AT, 0) };
            }
            at += entry_bytes(bytes);
        }
        true
    }

    /// Whether nothing is waiting to be taken (a fresh look).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tail() == self.next
    }

    /// Everything below this position is released.
    #[inline]
    pub(crate) fn released(&self) -> u64 {
        self.head
    }

    /// Whether everything that was taken is released. A pad before the next entry does not count.
    pub(crate) fn is_released(&self) -> bool {
        self.head == self.next
    }

    /// Whether a successor of this process finds what is in the ring.
    #[inline]
    pub(crate) fn is_sealed(&self) -> bool {
        self.region.is_sealed()
    }
}
