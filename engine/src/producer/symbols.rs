//! The producer's own symbol ids, and which of them the batch under construction uses.
//!
//! Ids are dense from 0 and valid for this producer only; the shard translates them. A batch lists
//! the text of every symbol it uses, so that it can be read without this table. The table is begun
//! anew with every dictionary epoch of the slot, or it would grow for ever.
//!
//! Rows repeat their symbols: a small cache (`seen`) answers for those, without a hash of all of the
//! text and a probe of the table.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::hash::BuildHasher;

use super::handles::Handles;
use super::names::same_bytes;
use super::seen::{Cache, Ends};

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
    pub(super) fn used_size(&self) -> (usize, usize) {
        (self.used.len(), self.used_bytes)
    }

    /// The batch under construction lists nothing yet: its symbols are noted anew.
    pub(super) fn restart_uses(&mut self) {
        self.batch += 1;
        self.uses += 1;
        self.used.clear();
        self.used_bytes = 0;
    }

    /// A handle of `text`, good for every table to come; `None` when there are too many.
    pub(super) fn handle(&mut self, text: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(text.as_bytes());
        self.handles.of(text, hash)
    }

    /// The id that the present table has for a handle, not noted as used; `None` if it has none.
    #[inline]
    pub(super) fn id_of(&mut self, handle: u32) -> Option<u32> {
        let known = self.handles.id(handle);
        if known.is_some() {
            return known;
        }
        let found = self.find(self.handles.text(handle))?;
        self.handles.set(handle, found);
        Some(found)
    }

    /// As [`cell_of`](Self::cell_of) if this batch has used the handle already.
    #[inline]
    pub(super) fn noted(&self, handle: u32) -> Option<u32> {
        self.handles.noted(handle, self.uses)
    }

    /// As [`id_of`](Self::id_of), noted as used by this batch.
    pub(super) fn cell_of(&mut self, handle: u32) -> Option<u32> {
        let id = self.id_of(handle)?;
        self.mark_used(id);
        self.handles.note(handle, self.uses);
        Some(id)
    }

    /// As [`add`](Self::add), the text of a handle.
    pub(super) fn add_handle(&mut self, handle: u32) -> Option<u32> {
        let handles = std::mem::take(&mut self.handles);
        let id = self.add(handles.text(handle));
        self.handles = handles;
        self.handles.set(handle, id?);
        id
    }

    /// A new batch begins, after so many entries and in this dictionary epoch of the slot.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As `Producer::symbol` does without a limit.
    fn cell(symbols: &mut Symbols, text: &str) -> u32 {
        let known = symbols.cell(text);
        known.unwrap_or_else(|| {
            let id = symbols.add(text).unwrap();
            symbols.mark_used(id);
            id
        })
    }

    #[test]
    fn a_batch_lists_what_it_uses_once_in_order() {
        let mut symbols = Symbols::default();
        let ids = ["b", "a", "b", ""].map(|text| cell(&mut symbols, text));
        assert_eq!(ids, [0, 1, 0, 2]);
        assert_eq!(
            symbols.used().collect::<Vec<_>>(),
            [(0, &b"b"[..]), (1, b"a"), (2, b"")]
        );
        symbols.next_batch(1, 0);
        assert_eq!(symbols.cell("a"), Some(1));
        let mark = symbols.mark();
        assert_eq!(symbols.cell("new"), None);
        assert_eq!(cell(&mut symbols, "new"), 3);
        symbols.rewind(mark);
        assert_eq!(symbols.used().collect::<Vec<_>>(), [(1, &b"a"[..])]);
        assert_eq!(symbols.used_size(), (1, 1));
        assert_eq!(symbols.cell("new"), None, "its row brought it");
        assert_eq!(cell(&mut symbols, "other"), 3);
        assert_eq!(symbols.used_size(), (2, 6));
        symbols.rewind_all();
        assert_eq!(symbols.used().count(), 0);
        assert_eq!((symbols.cell("other"), symbols.cell("b")), (None, Some(0)));
    }

    #[test]
    fn symbols_are_pending_until_the_shard_took_their_entry() {
        let mut symbols = Symbols::default();
        for (entry, texts) in [["a", "b"], ["b", "c"], ["a", "b"]].iter().enumerate() {
            for text in texts {
                cell(&mut symbols, text);
            }
            symbols.next_batch(entry as u64 + 1, 0);
        }
        cell(&mut symbols, "d");
        let pending = [0, 1, 1, 2, 3].map(|taken| symbols.pending(taken));
        assert_eq!(pending, [4, 2, 2, 1, 1]);
    }

    #[test]
    fn a_new_epoch_begins_a_new_table_with_the_next_batch() {
        let mut symbols = Symbols::default();
        assert_eq!([cell(&mut symbols, "a"), cell(&mut symbols, "b")], [0, 1]);
        symbols.next_batch(1, 0);
        assert_eq!((symbols.cell("b"), symbols.number()), (Some(1), 0));
        symbols.next_batch(2, 7);
        assert_eq!((symbols.cell("b"), symbols.number()), (None, 1));
        assert_eq!(cell(&mut symbols, "b"), 0);
        assert_eq!(symbols.used().collect::<Vec<_>>(), [(0, &b"b"[..])]);
        symbols.next_batch(3, 7);
        assert_eq!((symbols.cell("b"), symbols.number()), (Some(0), 1));
        assert_eq!(symbols.pending(2), 1);
    }

    #[test]
    fn a_handle_is_noted_once_a_batch_and_anew_after_its_row_was_left_out() {
        let mut symbols = Symbols::default();
        let handles = ["x", "y"].map(|text| symbols.handle(text).unwrap());
        assert_eq!(symbols.cell_of(handles[0]), None);
        assert_eq!(["x", "y"].map(|text| cell(&mut symbols, text)), [0, 1]);
        symbols.next_batch(1, 0);
        assert_eq!(symbols.cell_of(handles[1]), Some(1));
        let mark = symbols.mark();
        assert_eq!(
            handles.map(|handle| symbols.cell_of(handle)),
            [Some(0), Some(1)]
        );
        assert_eq!(symbols.used_size(), (2, 2));
        symbols.rewind(mark);
        assert_eq!(symbols.used_size(), (1, 1));
        assert_eq!(
            handles.map(|handle| symbols.cell_of(handle)),
            [Some(0), Some(1)]
        );
        assert_eq!(
            symbols.used().collect::<Vec<_>>(),
            [(1, &b"y"[..]), (0, b"x")]
        );
        symbols.next_batch(2, 0);
        assert_eq!(symbols.used_size(), (0, 0));
        assert_eq!(symbols.cell_of(handles[0]), Some(0));
        assert_eq!(symbols.used().collect::<Vec<_>>(), [(0, &b"x"[..])]);
        symbols.next_batch(3, 1);
        assert_eq!(symbols.cell_of(handles[0]), None, "a new table");
    }

    #[test]
    fn a_handle_outlives_tables_and_rows_that_were_left_out() {
        let mut symbols = Symbols::default();
        let handle = symbols.handle("x").unwrap();
        assert_eq!(symbols.handle("x"), Some(handle));
        assert_eq!(symbols.id_of(handle), None);
        assert_eq!([cell(&mut symbols, "a"), cell(&mut symbols, "x")], [0, 1]);
        assert_eq!(symbols.id_of(handle), Some(1));
        symbols.next_batch(1, 1);
        assert_eq!(symbols.id_of(handle), None);
        let mark = symbols.mark();
        assert_eq!(cell(&mut symbols, "x"), 0);
        assert_eq!(symbols.id_of(handle), Some(0));
        symbols.rewind(mark);
        assert_eq!(symbols.id_of(handle), None);
        assert_eq!([cell(&mut symbols, "y"), cell(&mut symbols, "x")], [0, 1]);
        assert_eq!(
            (symbols.id_of(handle), symbols.handles.text(handle)),
            (Some(1), "x")
        );
    }

    #[test]
    fn the_cache_never_answers_for_another_text() {
        let mut symbols = Symbols::default();
        for epoch in 0..2 {
            symbols.next_batch(1, epoch);
            let mut known = std::collections::HashMap::new();
            // Many more than places, of all lengths, some with the same ends.
            for n in (0..5000_u32).chain(0..5000) {
                let text = match n % 4 {
                    0 => format!("{}", n + u32::try_from(epoch).unwrap()),
                    1 => format!("SYM{n:05}"),
                    2 => format!("begin-{n}-and the same end"),
                    _ => "x".repeat(n as usize % 40),
                };
                let next = u32::try_from(known.len()).unwrap();
                let expected = *known.entry(text.clone()).or_insert(next);
                assert_eq!(cell(&mut symbols, &text), expected, "{text}");
            }
            assert_eq!(symbols.used().count(), known.len());
        }
    }

    #[test]
    fn a_text_that_was_left_out_is_not_found_in_the_cache() {
        let mut symbols = Symbols::default();
        cell(&mut symbols, "a");
        let mark = symbols.mark();
        cell(&mut symbols, "new");
        assert_eq!(symbols.cell("new"), Some(1));
        symbols.rewind(mark);
        assert_eq!(symbols.cell("new"), None);
        assert_eq!([cell(&mut symbols, "b"), cell(&mut symbols, "new")], [1, 2]);
    }
}
