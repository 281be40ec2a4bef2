//! Which frames are durable at the server (protocol.md sections 10.5 and 12.2).
//!
//! An OK names the tables that committed with their transaction numbers; a durable acknowledgement
//! names tables with the transactions that are durable now. Frames wait in the order of their OKs
//! until every table of every OK before and of their own is covered.
//!
//! A table that is dropped and created again counts its transactions from the start. An OK (or an
//! acknowledgement) with a lower number than the table had before begins a new *life* of the table:
//! what was durable in the old one proves nothing about the new one, and what waits for a number of
//! the old life, which will never come, is covered by the first durable transaction of a later life.
//! Anything else would leave the entry, and all behind it, waiting for ever.
//!
//! All of it belongs to one connection: a new one starts with nothing, and everything that is not
//! durable is sent again.

use std::collections::{HashMap, VecDeque};

use crate::fsn::Fsn;

/// OKs kept apart. More of them are joined with the last one: durable a little later than they
/// could be, never earlier.
const ENTRIES_MAX: usize = 65_536;

/// A transaction of a table, as an OK named it.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    table: usize,
    life: u32,
    txn: i64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// First frame behind those of the OK.
    end: Fsn,
    tables: usize,
}

#[derive(Debug, Clone, Copy)]
struct Table {
    /// Counts how often the table was created, as far as numbers tell.
    life: u32,
    /// Highest transaction of this life that an OK named.
    okayed: Option<i64>,
    /// Highest durable transaction of this life.
    durable: Option<i64>,
}

/// OKs that wait for durable acknowledgements, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    names: HashMap<Box<str>, usize>,
    tables: Vec<Table>,
    entries: VecDeque<Entry>,
    wanted: VecDeque<Wanted>,
}

impl Durable {
    /// A new connection: nothing is known.
    pub(crate) fn reset(&mut self) {
        self.names.clear();
        self.tables.clear();
        self.entries.clear();
        self.wanted.clear();
    }

    /// Whether an OK waits.
    pub(crate) fn waits(&self) -> bool {
        !self.entries.is_empty()
    }

    /// An OK confirmed the frames below `end` and named these transactions.
    pub(crate) fn okayed<'a>(&mut self, end: Fsn, acks: impl IntoIterator<Item = (&'a str, i64)>) {
        if self.entries.len() < ENTRIES_MAX {
            self.entries.push_back(Entry { end, tables: 0 });
        }
        for (name, txn) in acks {
            let index = self.index(name);
            let table = &mut self.tables[index];
            if table.okayed.is_some_and(|before| txn < before) {
                table.live_again();
            }
            table.okayed = Some(txn);
            let life = table.life;
            self.want(Wanted {
                table: index,
                life,
                txn,
            });
        }
        if let Some(last) = self.entries.back_mut() {
            last.end = end;
        }
    }

    /// The last entry waits for `wanted` too.
    fn want(&mut self, wanted: Wanted) {
        let last = self.entries.back_mut().expect("one was pushed, ever");
        let same = |other: &&mut Wanted| (other.table, other.life) == (wanted.table, wanted.life);
        let mut own = self.wanted.iter_mut().rev().take(last.tables);
        if let Some(other) = own.find(same) {
            other.txn = other.txn.max(wanted.txn);
            return;
        }
        last.tables += 1;
        self.wanted.push_back(wanted);
    }

    /// These transactions are durable.
    pub(crate) fn acknowledged<'a>(&mut self, acks: impl IntoIterator<Item = (&'a str, i64)>) {
        for (name, txn) in acks {
            let index = self.index(name);
            let table = &mut self.tables[index];
            if table.durable.is_some_and(|before| txn < before) {
                table.live_again();
            }
            table.durable = Some(txn);
        }
    }

    /// Takes the OKs whose turn has come; the first frame behind the last of them.
    pub(crate) fn take(&mut self) -> Option<Fsn> {
        let mut taken = None;
        while let Some(entry) = self.entries.front() {
            let mut wanted = self.wanted.iter().take(entry.tables);
            if !wanted.all(|wanted| self.tables[wanted.table].covers(wanted)) {
                break;
            }
            taken = Some(entry.end);
            self.wanted.drain(..entry.tables);
            self.entries.pop_front();
        }
        taken
    }

    fn index(&mut self, name: &str) -> usize {
        if let Some(index) = self.names.get(name) {
            return *index;
        }
        self.tables.push(Table {
            life: 0,
            okayed: None,
            durable: None,
        });
        let index = self.tables.len() - 1;
        self.names.insert(name.into(), index);
        index
    }
}

impl Table {
    fn live_again(&mut self) {
        self.life += 1;
        (self.okayed, self.durable) = (None, None);
    }

    fn covers(&self, wanted: &Wanted) -> bool {
        match self.durable {
            Some(durable) if wanted.life == self.life => durable >= wanted.txn,
            Some(_) => wanted.life < self.life,
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_durable_in_order_when_all_their_tables_are() {
        let mut durable = Durable::default();
        durable.okayed(Fsn(1), [("a", 1), ("b", 1)]);
        durable.okayed(Fsn(3), [("a", 2)]);
        durable.okayed(Fsn(4), []);
        durable.acknowledged([("a", 2)]);
        assert_eq!(durable.take(), None, "b of the first OK is missing");
        durable.acknowledged([("b", 7)]);
        assert_eq!(durable.take(), Some(Fsn(4)), "an empty one goes along");
        assert!(!durable.waits());
        durable.okayed(Fsn(5), []);
        assert_eq!(durable.take(), Some(Fsn(5)), "nothing to wait for");
    }

    #[test]
    fn an_acknowledgement_before_its_ok_counts() {
        let mut durable = Durable::default();
        durable.acknowledged([("a", 3)]);
        durable.okayed(Fsn(1), [("a", 3)]);
        assert_eq!(durable.take(), Some(Fsn(1)));
    }

    #[test]
    fn a_recreated_table_does_not_inherit_what_was_durable() {
        let mut durable = Durable::default();
        durable.okayed(Fsn(1), [("a", 42)]);
        durable.acknowledged([("a", 42)]);
        assert_eq!(durable.take(), Some(Fsn(1)));
        durable.okayed(Fsn(2), [("a", 1)]);
        assert_eq!(durable.take(), None);
        durable.acknowledged([("a", 1)]);
        assert_eq!(durable.take(), Some(Fsn(2)));
    }

    #[test]
    fn numbers_of_a_dropped_table_are_not_waited_for() {
        let mut durable = Durable::default();
        durable.okayed(Fsn(1), [("a", 42)]);
        durable.okayed(Fsn(2), [("a", 1), ("b", 1)]);
        assert_eq!(durable.take(), None);
        durable.acknowledged([("a", 1)]);
        assert_eq!(durable.take(), Some(Fsn(1)), "the old table is gone");
        durable.acknowledged([("b", 1)]);
        assert_eq!(durable.take(), Some(Fsn(2)));
    }

    #[test]
    fn an_acknowledgement_that_falls_back_tells_of_a_new_table_too() {
        let mut durable = Durable::default();
        durable.acknowledged([("a", 10)]);
        durable.okayed(Fsn(1), [("a", 42)]);
        durable.acknowledged([("a", 2)]);
        assert_eq!(durable.take(), Some(Fsn(1)));
    }

    #[test]
    fn a_long_lag_costs_bounded_memory_and_loses_nothing() {
        let mut durable = Durable::default();
        let count = ENTRIES_MAX as u64 + 1000;
        for frame in 0..count {
            let table = ["a", "b"][usize::try_from(frame % 2).unwrap()];
            durable.okayed(Fsn(frame + 1), [(table, i64::try_from(frame).unwrap())]);
        }
        assert_eq!(durable.entries.len(), ENTRIES_MAX);
        let last = i64::try_from(count - 1).unwrap();
        durable.acknowledged([("a", last - 2), ("b", last)]);
        assert_eq!(durable.take(), Some(Fsn(ENTRIES_MAX as u64 - 1)));
        durable.acknowledged([("a", last)]);
        assert_eq!(durable.take(), Some(Fsn(count)));
        assert!(durable.wanted.is_empty());
    }

    #[test]
    fn a_new_connection_starts_with_nothing() {
        let mut durable = Durable::default();
        durable.acknowledged([("a", 10)]);
        durable.okayed(Fsn(1), [("b", 1)]);
        durable.reset();
        assert!(!durable.waits());
        durable.okayed(Fsn(1), [("a", 5)]);
        assert_eq!(durable.take(), None);
    }
}
