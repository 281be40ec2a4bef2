//! The notes of a lane that are not in its book yet: put here by the producer, by plain stores, and
//! taken by whoever has the book.

use std::sync::atomic::{AtomicU64, Ordering};

/// Notes that there is room for.
const PLACES: usize = 64;

/// Rows of one table in one entry, or in all entries up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    /// Number of the entry in its lane.
    pub(super) seq: u64,
    pub(super) rows: u64,
    pub(super) table: u32,
}

impl Note {
    #[inline]
    pub(super) fn new(seq: u64, table: usize, rows: usize) -> Self {
        Self {
            seq,
            rows: rows as u64,
            table: u32::try_from(table).expect("a producer holds at most 65,535 tables"),
        }
    }
}

#[derive(Debug, Default)]
struct Place {
    seq: AtomicU64,
    rows: AtomicU64,
    table: AtomicU64,
}

/// On cache lines that nothing else is on.
#[derive(Debug)]
#[repr(align(128))]
struct Places([Place; PLACES]);

/// See the module documentation. One thread puts, one at a time takes.
#[derive(Debug)]
pub(super) struct Recent {
    places: Box<Places>,
    /// Notes put so far.
    put: AtomicU64,
    /// Notes taken so far.
    taken: AtomicU64,
}

impl Default for Recent {
    fn default() -> Self {
        let places = std::array::from_fn(|_| Place::default());
        Self {
            places: Box::new(Places(places)),
            put: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }
}

impl Recent {
    fn place(&self, note: u64) -> &Place {
        &self.places.0[usize::try_from(note % PLACES as u64).expect("small")]
    }

    /// Puts a note behind the others; `false` if there is no room.
    #[inline]
    pub(super) fn put(&self, note: Note) -> bool {
        let put = self.put.load(Ordering::Relaxed);
        if put - self.taken.load(Ordering::Acquire) >= PLACES as u64 {
            return false;
        }
        let place = self.place(put);
        place.seq.store(note.seq, Ordering::Relaxed);
        place.rows.store(note.rows, Ordering::Relaxed);
        place.table.store(note.table.into(), Ordering::Relaxed);
        self.put.store(put + 1, Ordering::Release);
        true
    }

    /// Takes what there is, in order.
    pub(super) fn take(&self, mut note: impl FnMut(Note)) {
        let put = self.put.load(Ordering::Acquire);
        for next in self.taken.load(Ordering::Relaxed)..put {
            let place = self.place(next);
            note(Note {
                seq: place.seq.load(Ordering::Relaxed),
                rows: place.rows.load(Ordering::Relaxed),
                table: u32::try_from(place.table.load(Ordering::Relaxed)).expect("put as one"),
            });
            self.taken.store(next + 1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_out_in_order_and_a_full_ring_says_so() {
        let recent = Recent::default();
        let note = |seq: u64| Note::new(seq, usize::try_from(seq % 7).unwrap(), 3);
        let mut next = 0;
        for round in 0..10 {
            let first = next;
            while recent.put(note(next)) {
                next += 1;
            }
            assert_eq!(next - first, PLACES as u64, "round {round}");
            let mut expected = first;
            recent.take(|taken| {
                assert_eq!(taken, note(expected));
                expected += 1;
            });
            assert_eq!(expected, next);
        }
        recent.take(|_| panic!("nothing is left"));
    }
}
