//! The producer's own symbol ids, and which of them the batch under construction uses.
//!
//! Ids are dense from 0 and valid for this producer only; the shard translates them. A batch lists
//! the text of every symbol it uses, so that it can be read without this table. The table is begun
//! anew with every dictionary epoch of the slot, or it would grow for ever.
//!
//! Rows repeat their symbols: a small cache (`seen`) answers for those, without a hash of all of the
//! text and a probe of the table.

mod by_handle;
mod handles;
mod seen;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use self::handles::Handles;
use self::seen::Cache;
use super::ends::Ends;
use super::names::same_bytes;

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

/// A state of the table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark {
    used: usize,
    known: usize,
}

/// Text to id, and the list of the present batch.
#[derive(Debug)]
pub(super) struct Symbols {
    hasher: FixedState,
    index: HashTable<u32>,
    /// Symbols seen last.
    cache: Cache,
    entries: Vec<Symbol>,
    text: Vec<u8>,
    used: Vec<u32>,
    used_bytes: usize,
    batch: u64,
    /// Changes with the batch, and when uses are taken back.
    uses: u64,
    /// Which of this producer's tables it is.
    number: u16,
    /// Dictionary epoch of the slot at its begin.
    epoch: u64,
    /// Entries published, and the size of the table then, where it had grown.
    grown: VecDeque<(u64, usize)>,
    /// Symbols that the shard has seen.
    settled: usize,
    handles: Handles,
}

impl Default for Symbols {
    fn default() -> Self {
        Self {
            hasher: FixedState::with_seed(crate::io::sys::random_u64()),
            index: HashTable::new(),
            cache: Cache::default(),
            entries: Vec::new(),
            text: Vec::new(),
            used: Vec::new(),
            used_bytes: 0,
            batch: 1,
            uses: 1,
            number: 0,
            epoch: 0,
            grown: VecDeque::new(),
            settled: 0,
            handles: Handles::default(),
        }
    }
}

impl Symbols {
    /// The id of `text`, noted as used by this batch; `None` if it is not in the table.
    #[inline]
    pub(super) fn cell(&mut self, text: &str) -> Option<u32> {
        let ends = Ends::of(text.as_bytes());
        let noted = self.cache.noted(ends, self.uses);
        noted.or_else(|| self.cell_again(text, ends))
    }

    /// The same for the first time in a batch, and for a long text.
    #[inline(never)]
    fn cell_again(&mut self, text: &str, ends: Ends) -> Option<u32> {
        let id = self.cache.guess(ends);
        let known = self.entries.get(id as usize).is_some_and(|symbol| {
            let bytes = self.text.get(symbol.start..symbol.start + symbol.bytes);
            bytes.is_some_and(|bytes| same_bytes(bytes, text.as_bytes()))
        });
        let id = if known { id } else { self.find(text)? };
        self.mark_used(id);
        self.cache.note(ends, self.uses, id);
        Some(id)
    }

    /// The id of `text`, not noted as used.
    #[inline]
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.find_hashed(text, self.hasher.hash_one(text.as_bytes()))
    }

    #[inline]
    fn find_hashed(&self, text: &str, hash: u64) -> Option<u32> {
        let found = self.index.find(hash, |id| {
            let symbol = &self.entries[*id as usize];
            symbol.hash == hash && self.bytes(symbol) == text.as_bytes()
        });
        found.copied()
    }

    fn bytes(&self, symbol: &Symbol) -> &[u8] {
        &self.text[symbol.start..symbol.start + symbol.bytes]
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

    /// Which of this producer's tables the ids are of.
    #[inline]
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Room for all symbols that have a handle, so that taking them into a table allocates nothing.
    pub(super) fn warm(&mut self) {
        let (count, bytes) = self.handles.size();
        let symbols = &self.entries;
        self.index.reserve(count, |id| symbols[*id as usize].hash);
        self.entries.reserve(count);
        self.text.reserve(bytes);
        self.used.reserve(self.entries.len() + count);
        self.grown.reserve(64);
    }

    /// Symbols that may be used without allocating: those of the table, and those with a handle.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.handles.size().0
    }

    /// Symbols of the table that the slot may not have yet, given how many entries the shard took.
    pub(super) fn pending(&mut self, taken: u64) -> usize {
        while let Some((_, count)) = self.grown.pop_front_if(|(entries, _)| *entries <= taken) {
            self.settled = count;
        }
        self.entries.len() - self.settled
    }

    /// Takes `text`, which is not in the table, not noted as used. `None` when the table is full.
    pub(super) fn add(&mut self, text: &str) -> Option<u32> {
        if self.entries.len() >= SYMBOLS_MAX {
            return None;
        }
        let hash = self.hasher.hash_one(text.as_bytes());
        let id = u32::try_from(self.entries.len()).ok()?;
        let start = self.text.len();
        self.text.extend_from_slice(text.as_bytes());
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

    /// The present state: a mark to [`rewind`](Self::rewind) to.
    #[inline]
    pub(super) fn mark(&self) -> Mark {
        Mark {
            used: self.used.len(),
            known: self.entries.len(),
        }
    }

    /// Forgets uses after the mark, and the symbols that they brought: their row was left out.
    pub(super) fn rewind(&mut self, mark: Mark) {
        self.uses += 1;
        for id in self.used.drain(mark.used..) {
            let symbol = &mut self.entries[id as usize];
            symbol.batch = 0;
            self.used_bytes -= symbol.bytes;
        }
        if self.entries.len() > mark.known {
            self.handles.forget(mark.known);
        }
        while self.entries.len() > mark.known
            && let Some(symbol) = self.entries.pop()
        {
            let id = self.entries.len();
            let is_it = |other: &u32| *other as usize == id;
            if let Ok(cell) = self.index.find_entry(symbol.hash, is_it) {
                cell.remove();
            }
            self.text.truncate(symbol.start);
        }
    }

    /// Forgets the whole batch.
    pub(super) fn rewind_all(&mut self) {
        self.rewind(Mark {
            used: 0,
            known: self.grown.back().map_or(self.settled, |last| last.1),
        });
    }

    /// The batch's symbols in order of first use.
    pub(super) fn used(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let entry = |id: &u32| (*id, self.bytes(&self.entries[*id as usize]));
        self.used.iter().map(entry)
    }

    /// Number of the batch's symbols and the bytes of their text.
    #[inline]
    pub(super) fn used_size(&self) -> (usize, usize) {
        (self.used.len(), self.used_bytes)
    }

    /// The batch under construction lists nothing yet: its symbols are noted anew.
    #[inline]
    pub(super) fn restart_uses(&mut self) {
        self.batch += 1;
        self.uses += 1;
        self.used.clear();
        self.used_bytes = 0;
    }

    /// A new batch begins, after so many entries and in this dictionary epoch of the slot.
    #[inline]
    pub(super) fn next_batch(&mut self, entries: u64, epoch: u64) {
        self.restart_uses();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.handles.forget(0);
            self.number = self.number.wrapping_add(1);
            self.index.clear();
            self.entries.clear();
            self.text.clear();
            self.grown.clear();
            self.settled = 0;
        } else if self.grown.back().map_or(self.settled, |last| last.1) < self.entries.len() {
            self.grown.push_back((entries, self.entries.len()));
        }
    }
}
