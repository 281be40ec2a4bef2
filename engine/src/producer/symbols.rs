//! The producer's own symbol ids, and which of them the batch under construction uses.
//!
//! Ids are dense from 0 and valid for this producer only; the shard translates them. A batch lists
//! the text of every symbol it uses, so that it can be read without this table.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use super::names::same;

/// Most symbols of a producer: the slot's dictionary takes no more.
const SYMBOLS_MAX: usize = 1_000_000;

#[derive(Debug)]
struct Symbol {
    start: usize,
    bytes: usize,
    hash: u64,
    /// Batch in which it was last used.
    batch: u64,
}

/// Text to id, and the list of the present batch.
#[derive(Debug)]
pub(super) struct Symbols {
    hasher: FixedState,
    index: HashTable<u32>,
    entries: Vec<Symbol>,
    text: String,
    used: Vec<u32>,
    used_bytes: usize,
    batch: u64,
}

impl Default for Symbols {
    fn default() -> Self {
        Self {
            hasher: FixedState::with_seed(crate::io::sys::random_u64()),
            index: HashTable::new(),
            entries: Vec::new(),
            text: String::new(),
            used: Vec::new(),
            used_bytes: 0,
            batch: 1,
        }
    }
}

impl Symbols {
    /// The id of `text`, noted as used by this batch. `None` when the table is full.
    #[inline]
    pub(super) fn cell(&mut self, text: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(text.as_bytes());
        let id = match self.find(text, hash) {
            Some(id) => id,
            None => self.intern(text, hash)?,
        };
        self.mark_used(id);
        Some(id)
    }

    /// The id of `text`, not noted as used. `None` when the table is full.
    pub(super) fn id(&mut self, text: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(text.as_bytes());
        match self.find(text, hash) {
            Some(id) => Some(id),
            None => self.intern(text, hash),
        }
    }

    #[inline]
    fn find(&self, text: &str, hash: u64) -> Option<u32> {
        let (symbols, all) = (&self.entries, &self.text);
        let found = self.index.find(hash, |id| {
            let symbol = &symbols[*id as usize];
            symbol.hash == hash && same(&all[symbol.start..symbol.start + symbol.bytes], text)
        });
        found.copied()
    }

    /// Notes the symbol as used by this batch.
    ///
    /// # Panics
    /// If there is no such id.
    #[inline]
    pub(super) fn mark_used(&mut self, id: u32) {
        let symbol = &mut self.entries[id as usize];
        if symbol.batch != self.batch {
            symbol.batch = self.batch;
            self.used.push(id);
            self.used_bytes += symbol.bytes;
        }
    }

    #[cold]
    fn intern(&mut self, text: &str, hash: u64) -> Option<u32> {
        if self.entries.len() >= SYMBOLS_MAX {
            return None;
        }
        let id = u32::try_from(self.entries.len()).ok()?;
        let start = self.text.len();
        self.text.push_str(text);
        self.entries.push(Symbol {
            start,
            bytes: text.len(),
            hash,
            batch: 0,
        });
        // So that a known symbol never allocates.
        self.used.reserve(self.entries.len() - self.used.len());
        let symbols = &self.entries;
        self.index
            .insert_unique(hash, id, |id| symbols[*id as usize].hash);
        Some(id)
    }

    /// Symbols used by the batch so far: a mark to [`rewind`](Self::rewind) to.
    pub(super) fn mark(&self) -> usize {
        self.used.len()
    }

    /// Forgets uses after the mark: their row was left out.
    pub(super) fn rewind(&mut self, mark: usize) {
        for id in self.used.drain(mark..) {
            let symbol = &mut self.entries[id as usize];
            symbol.batch = 0;
            self.used_bytes -= symbol.bytes;
        }
    }

    /// The batch's symbols in order of first use.
    pub(super) fn used(&self) -> impl Iterator<Item = (u32, &str)> {
        self.used.iter().map(|id| {
            let symbol = &self.entries[*id as usize];
            (*id, &self.text[symbol.start..symbol.start + symbol.bytes])
        })
    }

    /// Number of the batch's symbols and the bytes of their text.
    pub(super) fn used_size(&self) -> (usize, usize) {
        (self.used.len(), self.used_bytes)
    }

    /// A new batch begins.
    pub(super) fn next_batch(&mut self) {
        self.batch += 1;
        self.used.clear();
        self.used_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_lists_what_it_uses_once_in_order() {
        let mut symbols = Symbols::default();
        let ids: Vec<_> = ["b", "a", "b", ""]
            .iter()
            .map(|s| symbols.cell(s).unwrap())
            .collect();
        assert_eq!(ids, [0, 1, 0, 2]);
        assert_eq!(
            symbols.used().collect::<Vec<_>>(),
            [(0, "b"), (1, "a"), (2, "")]
        );
        symbols.next_batch();
        assert_eq!(symbols.cell("a"), Some(1));
        let mark = symbols.mark();
        assert_eq!(symbols.cell("new"), Some(3));
        symbols.rewind(mark);
        assert_eq!(symbols.used().collect::<Vec<_>>(), [(1, "a")]);
        assert_eq!(symbols.used_size(), (1, 1));
        assert_eq!(symbols.cell("new"), Some(3), "the id stays");
        assert_eq!(symbols.used_size(), (2, 4));
    }
}
