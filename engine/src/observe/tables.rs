//! Rows per table: accepted, acked, refused, kept aside.
//!
//! A shard spends nothing on it. The producer counts what it publishes on its own thread, and
//! notes for every entry how many rows of which table it holds in its lane's [`Ledger`]. What is
//! acked follows from the lane's count of acked entries, whenever somebody looks: the producer now
//! and then, the notifier once a second, and whoever asks for the figures.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::router::gate::lock;

/// Tables counted one by one; the rest share `(other)`.
const TABLES_MAX: usize = 10_000;
const OTHER: &str = "(other)";
/// Notes of a ledger. Beyond it the older half is summed up by table, and counts as acked when the
/// last of its entries is.
const NOTES_MAX: usize = 8192;
/// Notes that gather before a producer looks at what is acked.
const SETTLE_EVERY: usize = 64;

/// The rows of one table, from the start of this engine on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableRows {
    /// Name of the table; `(other)` sums up those beyond the first 10,000.
    pub table: String,
    /// Rows in batches that were accepted.
    pub accepted: u64,
    /// Rows of them that the server confirmed.
    pub acked: u64,
    /// Rows turned away: rows that cannot be sent as they are, and all rows of a batch whose
    /// publishing was refused, each time. They were not accepted.
    pub refused: u64,
    /// Accepted rows that the server refused for good and that are kept in a dead-letter file.
    pub dead_lettered: u64,
    /// Accepted rows in a slot that was set aside.
    pub set_aside: u64,
}

/// Counters of a table, written by several threads.
#[derive(Debug, Default)]
pub(crate) struct TableCounters {
    accepted: AtomicU64,
    /// Rows behind the acknowledged position, however they got there.
    settled: AtomicU64,
    refused: AtomicU64,
    dead_lettered: AtomicU64,
    set_aside: AtomicU64,
}

impl TableCounters {
    /// Counts rows that were turned away.
    pub(crate) fn refused(&self, rows: u64) {
        self.refused.fetch_add(rows, Ordering::Relaxed);
    }

    fn rows(&self, table: &str) -> TableRows {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // What is behind the position and in a dead-letter file was not acked by the server.
        // `settled` first: whoever counts, counts `accepted` first.
        let settled = get(&self.settled);
        let (dead_lettered, set_aside) = (get(&self.dead_lettered), get(&self.set_aside));
        TableRows {
            table: table.to_owned(),
            accepted: get(&self.accepted),
            acked: settled.saturating_sub(dead_lettered),
            refused: get(&self.refused),
            dead_lettered,
            set_aside,
        }
    }
}

/// All tables of an engine.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    known: Mutex<HashMap<String, Arc<TableCounters>>>,
    other: Arc<TableCounters>,
}

impl Tables {
    /// The counters of a table.
    pub(crate) fn of(&self, table: &str) -> Arc<TableCounters> {
        let mut known = lock(&self.known);
        if let Some(counters) = known.get(table) {
            return Arc::clone(counters);
        }
        if known.len() >= TABLES_MAX {
            return Arc::clone(&self.other);
        }
        let counters = Arc::<TableCounters>::default();
        known.insert(table.to_owned(), Arc::clone(&counters));
        counters
    }

    /// Counts rows of a frame of this process that went to a dead-letter file, before its position
    /// counts as acknowledged.
    pub(crate) fn dead_lettered(&self, table: &str, rows: u64) {
        self.of(table)
            .dead_lettered
            .fetch_add(rows, Ordering::Relaxed);
    }

    /// Every table, by name.
    pub(crate) fn rows(&self) -> Vec<TableRows> {
        let mut rows: Vec<TableRows> = lock(&self.known)
            .iter()
            .map(|(table, counters)| counters.rows(table))
            .collect();
        rows.sort_unstable_by(|a, b| a.table.cmp(&b.table));
        let other = self.other.rows(OTHER);
        if other.accepted > 0 || other.refused > 0 || other.dead_lettered > 0 {
            rows.push(other);
        }
        rows
    }
}

/// Rows of one table in one entry, or in all entries up to it.
#[derive(Debug, Clone, Copy)]
struct Note {
    /// Number of the entry in its lane.
    seq: u64,
    rows: u64,
    table: u32,
}

/// What the entries of a lane hold that are not acked yet.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    tables: Vec<Arc<TableCounters>>,
    /// In the order of their entries.
    notes: VecDeque<Note>,
    settle_at: usize,
}

impl Ledger {
    /// Registers the lane's next table; tables are numbered from 0 in this order.
    pub(crate) fn add(&self, counters: Arc<TableCounters>) {
        lock(&self.0).tables.push(counters);
    }

    /// Notes an accepted entry as (table, rows). `acked` tells how many entries are acked.
    pub(crate) fn accepted(
        &self,
        seq: u64,
        rows: impl Iterator<Item = (usize, usize)>,
        acked: impl FnOnce() -> u64,
    ) {
        let mut book = lock(&self.0);
        for (table, rows) in rows {
            let rows = rows as u64;
            book.tables[table]
                .accepted
                .fetch_add(rows, Ordering::Relaxed);
            let table = u32::try_from(table).expect("a producer holds at most 65,535 tables");
            book.notes.push_back(Note { seq, rows, table });
        }
        if book.notes.len() > book.settle_at {
            book.settle(acked());
            if book.notes.len() >= NOTES_MAX.max(4 * book.tables.len()) {
                book.sum_up();
            }
            book.settle_at = book.notes.len() + SETTLE_EVERY;
        }
    }

    /// Counts the rows of all entries below `acked` as settled.
    pub(crate) fn settle(&self, acked: u64) {
        lock(&self.0).settle(acked);
    }
}

impl Book {
    fn settle(&mut self, acked: u64) {
        while let Some(note) = self.notes.pop_front_if(|note| note.seq < acked) {
            let counters = &self.tables[note.table as usize];
            counters.settled.fetch_add(note.rows, Ordering::Relaxed);
        }
    }

    /// Turns the older half into one note a table. Afterwards at most half of the notes and one a
    /// table are left, which is three quarters of the bound.
    fn sum_up(&mut self) {
        let half = self.notes.len() / 2;
        let seq = self.notes[half - 1].seq;
        let mut sums = BTreeMap::<u32, u64>::new();
        for note in self.notes.drain(..half) {
            *sums.entry(note.table).or_default() += note.rows;
        }
        for (table, rows) in sums {
            self.notes.push_front(Note { seq, rows, table });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(lock(&ledger.0).notes.len() <= NOTES_MAX + SETTLE_EVERY);
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
    fn tables_beyond_the_bound_share_one_line() {
        let tables = Tables::default();
        for n in 0..TABLES_MAX + 5 {
            tables.of(&format!("t{n}")).refused(1);
        }
        let all = tables.rows();
        assert_eq!(all.len(), TABLES_MAX + 1);
        let last = all.last().expect("not empty");
        assert_eq!((last.table.as_str(), last.refused), (OTHER, 5));
        assert!(Arc::ptr_eq(&tables.of("t3"), &tables.of("t3")));
    }

    #[test]
    fn dead_letters_are_not_acked() {
        let (tables, ledger) = (Tables::default(), Ledger::default());
        ledger.add(tables.of("a"));
        ledger.accepted(0, [(0, 10)].into_iter(), || 0);
        tables.dead_lettered("a", 4);
        ledger.settle(1);
        let all = tables.rows();
        assert_eq!((all[0].acked, all[0].dead_lettered), (6, 4));
    }
}
