//! Which rows of which table the unacked entries of a lane hold.
//!
//! The producer notes every entry; what is acked follows from the lane's count of acked entries,
//! whenever somebody looks: the producer now and then, the notifier once a second, and whoever
//! asks for the figures.
//!
//! A note goes into a small ring first ([`Recent`]), from which whoever has the book takes it over: a
//! producer takes a lock with one note in sixty-four. To take one with every note would cost more than
//! the note: a locked instruction waits until all that the thread has written, the entry too, has left
//! its core.
//!
//! A producer neither waits for the others here nor wakes them, which would enter the kernel: every
//! lock that it takes is only tried, by everybody, so that nobody ever sleeps on one. When another
//! thread has the book, the note goes to the side; the other threads never hold both.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use super::recent::{Note, Recent};
use super::tables::TableCounters;
use crate::router::gate::lock;

/// Notes of a ledger. Beyond it the older half is summed up by table, and counts as acked when the
/// last of its entries is.
const NOTES_MAX: usize = 8192;
/// Notes to the side of it; beyond it they are summed up likewise.
const ASIDE_MAX: usize = 1024;
/// Notes that gather before a producer looks at what is acked.
const SETTLE_EVERY: usize = 64;

/// What the entries of a lane hold that are not acked yet. On cache lines of its own: the producer
/// writes in it at every hand-over.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Ledger {
    recent: Recent,
    book: Mutex<Book>,
    aside: Mutex<Notes>,
    /// Held by the thread that settles, with an empty list to exchange for the one aside. The
    /// producer never takes it.
    settler: Mutex<VecDeque<Note>>,
}

#[derive(Debug, Default)]
struct Book {
    notes: Notes,
    settle_at: usize,
}

#[derive(Debug, Default)]
struct Notes {
    tables: Vec<Arc<TableCounters>>,
    /// Almost in the order of their entries.
    list: VecDeque<Note>,
    /// Rows by table, all 0 but while summing up.
    sums: Vec<u64>,
}

impl Ledger {
    /// Registers the lane's next table; tables are numbered from 0 in this order.
    pub(crate) fn add(&self, counters: Arc<TableCounters>) {
        lock_soon(&self.book).notes.add(Arc::clone(&counters));
        lock_soon(&self.aside).add(counters);
    }

    /// Makes room for as many notes as there can be, so that none moves memory.
    pub(crate) fn reserve(&self) {
        lock_soon(&self.book).notes.reserve(NOTES_MAX);
        let mut aside = lock_soon(&self.aside);
        aside.reserve(ASIDE_MAX);
        let notes = aside.list.capacity();
        drop(aside);
        // They are exchanged.
        touch(&mut lock(&self.settler), notes);
    }

    /// Notes an accepted entry as (table, rows). `acked` tells how many entries are acked. For the
    /// lane's producer only; the tables count it once somebody settles.
    #[inline]
    pub(crate) fn accepted(
        &self,
        seq: u64,
        rows: impl Iterator<Item = (usize, usize)>,
        acked: impl Fn() -> u64,
    ) {
        for (table, rows) in rows {
            let note = Note::new(seq, table, rows);
            if !self.recent.put(note) {
                self.enter(note, &acked);
            }
        }
    }

    /// Notes what finds no room among the recent ones, which go into the book with it.
    #[cold]
    fn enter(&self, note: Note, acked: &dyn Fn() -> u64) {
        // Whoever settles holds one of the two at a time, so this goes round at most a few times.
        loop {
            if let Some(mut book) = try_lock(&self.book) {
                book.notes.take_over(&self.recent);
                return book.enter(note, acked);
            }
            if let Some(mut aside) = try_lock(&self.aside) {
                aside.note(note);
                return aside.sum_up_beyond(ASIDE_MAX);
            }
            std::hint::spin_loop();
        }
    }

    /// Counts the rows of all entries below `acked` as settled. Not for producers: it may wait.
    pub(crate) fn settle(&self, acked: u64) {
        let mut late = lock(&self.settler);
        std::mem::swap(&mut *late, &mut lock_soon(&self.aside).list);
        let mut book = lock_soon(&self.book);
        book.notes.take_over(&self.recent);
        book.notes.list.extend(late.drain(..));
        book.notes.settle(acked);
    }
}

impl Book {
    fn enter(&mut self, note: Note, acked: &dyn Fn() -> u64) {
        let notes = &mut self.notes;
        notes.note(note);
        if notes.list.len() > self.settle_at {
            notes.settle(acked());
            notes.sum_up_beyond(NOTES_MAX);
            self.settle_at = notes.list.len() + SETTLE_EVERY;
        }
    }
}

impl Notes {
    fn add(&mut self, counters: Arc<TableCounters>) {
        self.tables.push(counters);
        self.sums.push(0);
    }

    fn reserve(&mut self, most: usize) {
        let notes = most.max(4 * self.tables.len()) + 2 * SETTLE_EVERY + self.tables.len();
        touch(&mut self.list, notes);
    }

    fn note(&mut self, note: Note) {
        self.tables[note.table as usize].accepted(note.rows);
        self.list.push_back(note);
    }

    /// Notes what is among the recent ones. For whoever has the book.
    fn take_over(&mut self, recent: &Recent) {
        recent.take(|note| self.note(note));
    }

    fn settle(&mut self, acked: u64) {
        while let Some(note) = self.list.pop_front_if(|note| note.seq < acked) {
            self.tables[note.table as usize].settled(note.rows);
        }
    }

    /// Turns the older half of more than `most` notes into one a table. Afterwards at most half of
    /// the notes and one a table are left, which is three quarters of the bound.
    fn sum_up_beyond(&mut self, most: usize) {
        if self.list.len() < most.max(4 * self.tables.len()) {
            return;
        }
        let mut last = 0;
        for note in self.list.drain(..self.list.len() / 2) {
            last = last.max(note.seq);
            self.sums[note.table as usize] += note.rows;
        }
        for (table, rows) in (0..).zip(&mut self.sums).filter(|(_, rows)| **rows > 0) {
            let rows = std::mem::take(rows);
            let note = Note {
                seq: last,
                rows,
                table,
            };
            self.list.push_front(note);
        }
    }
}

/// Room for `most` notes, written once.
fn touch(list: &mut VecDeque<Note>, most: usize) {
    let nothing = Note {
        seq: 0,
        rows: 0,
        table: 0,
    };
    let kept = list.len();
    list.resize(most.max(kept), nothing);
    list.truncate(kept);
}

/// The lock if nobody holds it. What it guards is sound wherever its holder panicked.
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The lock, without ever sleeping on it: a lock that somebody sleeps on is unlocked by a system
/// call, and that could be the producer's.
fn lock_soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        if let Some(guard) = try_lock(mutex) {
            return guard;
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::Tables;
    use super::*;

    /// Rows accepted and acked, as far as they are counted.
    fn rows(tables: &Tables, name: &str) -> (u64, u64) {
        let all = tables.rows();
        let found = all.iter().find(|rows| rows.table == name);
        found.map_or((0, 0), |rows| (rows.accepted, rows.acked))
    }

    #[test]
    fn rows_are_acked_entry_by_entry() {
        let (tables, ledger) = (Tables::default(), Ledger::default());
        ledger.add(tables.of("a"));
        ledger.add(tables.of("b"));
        ledger.accepted(0, [(0, 10)].into_iter(), || 0);
        ledger.accepted(1, [(0, 1), (1, 2)].into_iter(), || 0);
        ledger.settle(0);
        assert_eq!((rows(&tables, "a"), rows(&tables, "b")), ((11, 0), (2, 0)));
        ledger.settle(1);
        assert_eq!((rows(&tables, "a"), rows(&tables, "b")), ((11, 10), (2, 0)));
        ledger.settle(2);
        ledger.settle(2);
        assert_eq!((rows(&tables, "a"), rows(&tables, "b")), ((11, 11), (2, 2)));
    }

    #[test]
    fn a_long_outage_is_summed_up_and_nothing_is_counted_early_or_lost() {
        let (tables, ledger) = (Tables::default(), Ledger::default());
        for name in ["a", "b", "c"] {
            ledger.add(tables.of(name));
        }
        let entries = 100_000u64;
        for seq in 0..entries {
            let table = usize::try_from(seq % 3).expect("small");
            ledger.accepted(seq, [(table, 2)].into_iter(), || 0);
            assert!(lock(&ledger.book).notes.list.len() <= NOTES_MAX + SETTLE_EVERY);
        }
        for acked in [1, 50_000, 99_000, 99_999, entries] {
            ledger.settle(acked);
            let all = tables.rows();
            let settled: u64 = all.iter().map(|rows| rows.acked).sum();
            assert!(settled <= 2 * acked, "{settled} of {acked} entries");
            assert!(acked < 99_000 || settled + 200 > 2 * acked);
        }
        let all = tables.rows();
        assert!(all.iter().all(|rows| rows.acked == rows.accepted));
        assert_eq!(all.iter().map(|rows| rows.acked).sum::<u64>(), 2 * entries);
    }

    #[test]
    fn notes_made_while_the_book_is_held_are_neither_lost_nor_counted_early() {
        let (tables, ledger) = (Tables::default(), Ledger::default());
        ledger.add(tables.of("a"));
        ledger.add(tables.of("b"));
        let held = lock(&ledger.book);
        for seq in 0..10_000u64 {
            let table = usize::try_from(seq % 2).expect("small");
            ledger.accepted(seq, [(table, 3)].into_iter(), || 0);
            assert!(lock(&ledger.aside).list.len() <= ASIDE_MAX);
        }
        drop(held);
        ledger.settle(0);
        assert_eq!(
            (rows(&tables, "a"), rows(&tables, "b")),
            ((15_000, 0), (15_000, 0))
        );
        ledger.accepted(10_000, [(0, 1)].into_iter(), || 0);
        ledger.settle(1);
        assert_eq!(
            rows(&tables, "a"),
            (15_001, 3),
            "most are summed up with later ones"
        );
        ledger.settle(10_001);
        assert_eq!(
            (rows(&tables, "a"), rows(&tables, "b")),
            ((15_001, 15_001), (15_000, 15_000))
        );
    }

    #[test]
    fn a_producer_and_settling_threads_agree_in_the_end() {
        let (tables, ledger) = (Tables::default(), Ledger::default());
        ledger.add(tables.of("a"));
        let entries = 50_000;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while rows(&tables, "a").1 < entries {
                        ledger.settle(rows(&tables, "a").0);
                        std::thread::yield_now();
                    }
                });
            }
            for seq in 0..entries {
                ledger.accepted(seq, [(0, 1)].into_iter(), || 0);
            }
        });
        assert_eq!(rows(&tables, "a"), (entries, entries));
    }
}
