//! A single-producer single-consumer ring of variable-length entries.
//!
//! Entries are contiguous in memory: one that would straddle the end of the buffer is preceded by
//! a pad entry that fills it up, which is why an entry may be at most half the capacity. Positions
//! are 64-bit byte counts that never wrap; `position & mask` is the place in the buffer.
//!
//! ```text
//! entry: bytes u32 | kind u32 (1 = data, 2 = pad) | payload, padded to 8 bytes
//! ```
//!
//! The writer owns `head..head+capacity` minus what is published, the reader owns `head..tail`.
//! `tail` is published with release and read with acquire, so the reader sees the payload; `head`
//! likewise in the other direction, so the writer never overwrites what is still being read.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ENTRY_HEADER_BYTES: usize = 8;
const KIND_DATA: u32 = 1;
const KIND_PAD: u32 = 2;

/// Keeps the two cursors on cache lines (and prefetched pairs of lines) of their own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Padded(AtomicU64);

struct Ring {
    buffer: Box<[UnsafeCell<u64>]>,
    mask: u64,
    head: Padded,
    tail: Padded,
}

// SAFETY: the buffer is only reached through one `Writer` and one `Reader`, whose ranges are
// disjoint by the cursor protocol in the module documentation.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    fn capacity(&self) -> u64 {
        self.mask + 1
    }

    /// The 8-byte entry header at `position`.
    fn header_at(&self, position: u64) -> *mut u64 {
        let word = usize::try_from((position & self.mask) / 8).expect("below the buffer's length");
        assert!(word < self.buffer.len(), "{word}");
        UnsafeCell::raw_get(self.buffer.as_ptr().wrapping_add(word))
    }

    /// Start of `bytes` contiguous bytes at `position`.
    fn at(&self, position: u64, bytes: usize) -> *mut u8 {
        let place = usize::try_from(position & self.mask).expect("the mask is below usize::MAX");
        assert!(place + bytes <= self.buffer.len() * 8, "{place} + {bytes}");
        UnsafeCell::raw_get(self.buffer.as_ptr())
            .cast::<u8>()
            .wrapping_add(place)
    }
}

/// Makes a ring of `capacity` bytes (a power of two, at least 64).
///
/// # Panics
/// If the capacity is not a power of two of at least 64.
pub fn ring(capacity: usize) -> (Writer, Reader) {
    assert!(
        capacity.is_power_of_two() && capacity >= 64,
        "capacity {capacity}"
    );
    // Written here, so that no entry meets a page for the first time.
    let buffer = (0..capacity / 8).map(|_| UnsafeCell::new(0)).collect();
    let ring = Arc::new(Ring {
        buffer,
        mask: capacity as u64 - 1,
        head: Padded::default(),
        tail: Padded::default(),
    });
    let writer = Writer {
        ring: Arc::clone(&ring),
        tail: 0,
        head_seen: 0,
        reserved: 0,
    };
    (
        writer,
        Reader {
            ring,
            head: 0,
            tail_seen: 0,
        },
    )
}

/// The producing end.
pub struct Writer {
    ring: Arc<Ring>,
    tail: u64,
    head_seen: u64,
    /// End of what is reserved and not committed; `tail` when nothing is.
    reserved: u64,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer(tail {})", self.tail)
    }
}

impl Writer {
    /// Largest payload of an entry in bytes: half the ring, so that padding always suffices.
    pub fn payload_bytes_max(&self) -> usize {
        usize::try_from(self.ring.capacity() / 2).expect("capacity came from usize")
            - ENTRY_HEADER_BYTES
    }

    /// Room for an entry of `bytes`, to be filled and [`commit`](Self::commit)ted; `None` when
    /// the ring is too full. A reservation that is not committed leaves no trace.
    ///
    /// # Panics
    /// If `bytes` exceeds [`payload_bytes_max`](Self::payload_bytes_max) or is 0.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.reserved = self.tail;
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
        let (start, end) = self.place(from, bytes);
        if end - self.head_seen > self.ring.capacity() {
            self.head_seen = self.ring.head.0.load(Ordering::Acquire);
            if end - self.head_seen > self.ring.capacity() {
                return None;
            }
        }
        let pad = start - from;
        if pad > 0 {
            self.put_header(from, pad - ENTRY_HEADER_BYTES as u64, KIND_PAD);
        }
        self.put_header(start, bytes as u64, KIND_DATA);
        self.reserved = end;
        let payload = self.ring.at(start + ENTRY_HEADER_BYTES as u64, bytes);
        // SAFETY: `head <= tail <= from <= start` and `end <= head + capacity` (checked above), so
        // the range lies in the writer's part, behind every earlier reservation; it is contiguous
        // and inside the buffer (`at` asserts); `&mut self` makes this the only reference, and
        // every bit pattern is a valid u8.
        Some(unsafe { std::slice::from_raw_parts_mut(payload, bytes) })
    }

    /// Start and end of an entry of `bytes` that comes next at `from`: entries are contiguous, so
    /// one that does not fit before the buffer's end begins behind it.
    #[inline]
    fn place(&self, from: u64, bytes: usize) -> (u64, u64) {
        let need = (ENTRY_HEADER_BYTES + bytes).next_multiple_of(8) as u64;
        let to_end = self.ring.capacity() - (from & self.ring.mask);
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
        self.ring.capacity() - (self.tail - self.ring.head.0.load(Ordering::Relaxed))
    }

    /// Bytes of the ring.
    pub fn capacity(&self) -> u64 {
        self.ring.capacity()
    }

    fn put_header(&self, position: u64, bytes: u64, kind: u32) {
        let bytes = u32::try_from(bytes).expect("below the capacity");
        let header = u64::from(bytes) | u64::from(kind) << 32;
        let place = self.ring.header_at(position);
        // SAFETY: in the writer's part of the buffer (as in `reserve`), 8-byte aligned because
        // every position is a multiple of 8.
        unsafe { place.write(header.to_le()) };
    }

    /// Publishes what is reserved, all of it by one store.
    ///
    /// # Panics
    /// If nothing is reserved.
    #[inline]
    pub fn commit(&mut self) {
        assert!(self.reserved > self.tail, "commit follows reserve");
        self.tail = self.reserved;
        self.ring.tail.0.store(self.tail, Ordering::Release);
    }
}

/// The consuming end.
pub struct Reader {
    ring: Arc<Ring>,
    head: u64,
    tail_seen: u64,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader(head {})", self.head)
    }
}

impl Reader {
    /// The oldest entry, which stays until [`release`](Self::release).
    #[inline]
    pub fn peek(&mut self) -> Option<&[u8]> {
        loop {
            if self.head == self.tail_seen {
                self.tail_seen = self.ring.tail.0.load(Ordering::Acquire);
                if self.head == self.tail_seen {
                    return None;
                }
            }
            let (bytes, kind) = self.header();
            if kind == KIND_PAD {
                self.head += (ENTRY_HEADER_BYTES + bytes) as u64;
                continue;
            }
            let payload = self.ring.at(self.head + ENTRY_HEADER_BYTES as u64, bytes);
            // SAFETY: `head < tail`, so the entry is published and in the reader's part; the
            // acquire load of `tail` makes its bytes visible; the writer leaves them alone until
            // `head` moves, which needs `&mut self`.
            return Some(unsafe { std::slice::from_raw_parts(payload, bytes) });
        }
    }

    fn header(&self) -> (usize, u32) {
        let place = self.ring.header_at(self.head);
        // SAFETY: a published, 8-byte aligned entry header (see `peek`).
        let header = u64::from_le(unsafe { place.read() });
        let bytes = usize::try_from(header & 0xFFFF_FFFF).expect("u32 fits usize");
        (bytes, u32::try_from(header >> 32).expect("upper half"))
    }

    /// Gives the oldest entry's room back to the writer.
    ///
    /// # Panics
    /// If there is no entry.
    #[inline]
    pub fn release(&mut self) {
        assert!(self.head < self.tail_seen, "release follows peek");
        let (bytes, kind) = self.header();
        assert!(kind == KIND_DATA, "peek skips pads");
        self.head += (ENTRY_HEADER_BYTES + bytes).next_multiple_of(8) as u64;
        self.ring.head.0.store(self.head, Ordering::Release);
    }

    /// Whether nothing is waiting (a fresh look).
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.tail.0.load(Ordering::Acquire) == self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_whole_and_in_order_across_the_end() {
        let (mut writer, mut reader) = ring(256);
        for round in 0..1000usize {
            let bytes = 1 + round % writer.payload_bytes_max();
            let fill = round.to_le_bytes()[0];
            writer.reserve(bytes).expect("empty ring").fill(fill);
            writer.commit();
            assert_eq!(reader.peek().expect("committed"), vec![fill; bytes]);
            reader.release();
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn a_full_ring_refuses_and_recovers() {
        let (mut writer, mut reader) = ring(128);
        let mut count = 0;
        while writer.reserve(24).is_some() {
            writer.commit();
            count += 1;
        }
        assert_eq!(count, 4);
        assert!(reader.peek().is_some());
        reader.release();
        assert!(writer.reserve(24).is_some());
    }

    #[test]
    fn an_uncommitted_reservation_is_invisible() {
        let (mut writer, mut reader) = ring(128);
        writer.reserve(8).expect("room").fill(1);
        assert!(reader.peek().is_none());
        writer.reserve(4).expect("room").fill(2);
        writer.commit();
        assert_eq!(reader.peek(), Some(&[2u8; 4][..]));
    }

    #[test]
    fn several_entries_appear_at_once_or_not_at_all() {
        let (mut writer, mut reader) = ring(256);
        assert_eq!(writer.footprint([100, 40]), 112 + 48);
        writer.reserve(100).expect("room").fill(1);
        writer.reserve_next(40).expect("room").fill(2);
        assert!(writer.reserve_next(120).is_none(), "full");
        assert!(reader.peek().is_none(), "nothing is committed");
        writer.reserve(100).expect("room").fill(3);
        writer.reserve_next(40).expect("room").fill(4);
        assert!(reader.peek().is_none());
        writer.commit();
        for (bytes, fill) in [(100, 3), (40, 4)] {
            assert_eq!(reader.peek(), Some(&vec![fill; bytes][..]));
            reader.release();
        }
        assert!(reader.is_empty());
        assert_eq!(writer.room(), 256);
        assert_eq!(writer.footprint([100]), 96 + 112, "behind a pad");
    }

    #[test]
    fn two_threads_hand_over_a_million_numbers() {
        let (mut writer, mut reader) = ring(4096);
        let producer = std::thread::spawn(move || {
            for n in 0..1_000_000u64 {
                loop {
                    if let Some(room) = writer.reserve(8 + usize::try_from(n % 40).unwrap()) {
                        room[..8].copy_from_slice(&n.to_le_bytes());
                        break;
                    }
                    std::thread::yield_now();
                }
                writer.commit();
            }
        });
        let mut expected = 0u64;
        while expected < 1_000_000 {
            let Some(entry) = reader.peek() else {
                std::thread::yield_now();
                continue;
            };
            assert_eq!(entry[..8], expected.to_le_bytes());
            assert_eq!(entry.len(), 8 + usize::try_from(expected % 40).unwrap());
            reader.release();
            expected += 1;
        }
        producer.join().unwrap();
    }
}
