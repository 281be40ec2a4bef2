//! Rows per table: accepted, acked, refused, kept aside.
//!
//! A shard spends nothing on it. What was accepted and what is acked follows from the notes that the
//! producer makes in its lane's [`Ledger`](super::Ledger), once somebody settles it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::router::gate::lock;

/// Tables counted one by one; the rest share `(other)`.
const TABLES_MAX: usize = 10_000;
const OTHER: &str = "(other)";

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

    /// Counts rows of an accepted entry.
    pub(super) fn accepted(&self, rows: u64) {
        self.accepted.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts rows of entries that are acked.
    pub(super) fn settled(&self, rows: u64) {
        self.settled.fetch_add(rows, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::super::Ledger;
    use super::*;

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
