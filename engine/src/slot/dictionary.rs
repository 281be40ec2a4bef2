//! The symbols of a slot in memory: id -> string and back.
//!
//! Entries lie one behind the other exactly as the wire and the file want them (`length varint`,
//! UTF-8), so the delta section of a message, a catch-up message and a chunk on disk are each one
//! slice of the same arena. A shard looks strings up on its hot path: a hit hashes the string,
//! probes one table of 8-byte cells and compares one slice; nothing is allocated unless the
//! string is new and a buffer is full.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use forebay_wire::varint;
use hashbrown::HashTable;

use super::chunk::{self, ENTRY_BYTES_MAX};

/// Most symbols to which this engine gives ids.
pub(crate) const NEW_ENTRIES_MAX: u32 = 1_000_000;
/// Most symbols that the protocol allows and that are read from a slot.
pub(crate) const ENTRIES_MAX: u32 = 2_000_000;
/// Most bytes of all strings together.
pub(crate) const STRING_BYTES_MAX: u64 = 256 << 20;

/// Why a symbol got no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DictionaryFull {
    /// The slot has as many symbols as allowed.
    #[error("the slot already has {0} symbols, the most it may have")]
    Entries(u32),
    /// The strings together are as long as allowed.
    #[error("the symbols of the slot already fill {0} bytes")]
    Bytes(u64),
    /// The string alone is too long.
    #[error("a symbol of {0} bytes is longer than 1,048,576 bytes")]
    EntryBytes(usize),
}

/// A cell of the lookup table.
#[derive(Debug, Clone, Copy)]
struct Cell {
    hash: u32,
    id: u32,
}

impl Cell {
    /// The table wants its entropy in the top seven and in the low bits of 64.
    fn spread(hash: u32) -> u64 {
        u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// All symbols of a slot.
#[derive(Debug)]
pub(crate) struct Dictionary {
    /// `length varint, UTF-8` of id 0, 1, 2, ...
    arena: Vec<u8>,
    /// Where each entry starts, and one more element: the end of the last.
    starts: Vec<u32>,
    cells: HashTable<Cell>,
    hasher: FixedState,
    string_bytes: u64,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self::new()
    }
}

impl Dictionary {
    /// An empty dictionary.
    pub(crate) fn new() -> Self {
        Self {
            arena: Vec::new(),
            starts: vec![0],
            cells: HashTable::new(),
            hasher: FixedState::default(),
            string_bytes: 0,
        }
    }

    /// Number of symbols; the next new one gets this id.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.starts.len() - 1).expect("at most ENTRIES_MAX entries")
    }

    /// The id of `symbol` if it has one.
    #[cfg(test)]
    pub(crate) fn find(&self, symbol: &str) -> Option<u32> {
        self.find_hashed(self.hash(symbol), symbol)
    }

    /// The id of `symbol`, giving it the next one when it is new (`true`).
    #[cfg(test)]
    pub(crate) fn intern(&mut self, symbol: &str) -> Result<(u32, bool), DictionaryFull> {
        self.intern_within(symbol, NEW_ENTRIES_MAX)
    }

    /// The id of `symbol`. A new one (`true`) gets the next id if that is below `entries_max`.
    #[inline]
    pub(crate) fn intern_within(
        &mut self,
        symbol: &str,
        entries_max: u32,
    ) -> Result<(u32, bool), DictionaryFull> {
        let hash = self.hash(symbol);
        if let Some(id) = self.find_hashed(hash, symbol) {
            return Ok((id, false));
        }
        self.add(hash, symbol, entries_max).map(|id| (id, true))
    }

    /// Appends a symbol read from disk, under the protocol's limit. Its id is its position even
    /// when the string occurs twice; lookups then answer the first.
    pub(crate) fn append(&mut self, symbol: &str) -> Result<u32, DictionaryFull> {
        self.add(self.hash(symbol), symbol, ENTRIES_MAX)
    }

    /// The string of an id.
    pub(crate) fn get(&self, id: u32) -> Option<&str> {
        if id >= self.len() {
            return None;
        }
        std::str::from_utf8(self.text(id)).ok()
    }

    /// Forgets all ids from `count` on.
    pub(crate) fn truncate(&mut self, count: u32) {
        for id in (count..self.len()).rev() {
            let text = self.text(id);
            let (len, hash) = (text.len(), Cell::spread(self.hash_bytes(text)));
            self.string_bytes -= len as u64;
            if let Ok(cell) = self.cells.find_entry(hash, |cell| cell.id == id) {
                cell.remove();
            }
        }
        self.starts.truncate(count as usize + 1);
        self.arena
            .truncate(self.starts[self.starts.len() - 1] as usize);
    }

    /// Entries `from..to` as the wire and the file want them.
    ///
    /// # Panics
    /// Unless `from <= to <= len()`.
    #[inline]
    pub(crate) fn entries(&self, from: u32, to: u32) -> &[u8] {
        &self.arena[self.starts[from as usize] as usize..self.starts[to as usize] as usize]
    }

    /// Appends the file chunk of ids `from..to` to `out`; nothing when there are none.
    ///
    /// # Panics
    /// Unless `from <= to <= len()`.
    pub(crate) fn chunk(&self, from: u32, to: u32, out: &mut Vec<u8>) {
        if from < to {
            chunk::push(to - from, self.entries(from, to), out);
        }
    }

    #[inline]
    fn hash(&self, symbol: &str) -> u32 {
        self.hash_bytes(symbol.as_bytes())
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "32 bits of the hash are enough"
    )]
    fn hash_bytes(&self, symbol: &[u8]) -> u32 {
        self.hasher.hash_one(symbol) as u32
    }

    #[inline]
    fn find_hashed(&self, hash: u32, symbol: &str) -> Option<u32> {
        let same = |cell: &Cell| cell.hash == hash && self.text(cell.id) == symbol.as_bytes();
        self.cells
            .find(Cell::spread(hash), same)
            .map(|cell| cell.id)
    }

    /// The string of an id below `len()`.
    #[inline]
    fn text(&self, id: u32) -> &[u8] {
        let entry = self.entries(id, id + 1);
        // A varint below 128 takes one byte, one up to ENTRY_BYTES_MAX at most three.
        let head = 1 + entry.iter().take_while(|byte| **byte >= 0x80).count();
        &entry[head..]
    }

    #[cold]
    fn add(&mut self, hash: u32, symbol: &str, entries_max: u32) -> Result<u32, DictionaryFull> {
        let id = self.len();
        let string_bytes = self.string_bytes + symbol.len() as u64;
        if symbol.len() > ENTRY_BYTES_MAX {
            return Err(DictionaryFull::EntryBytes(symbol.len()));
        }
        if id >= entries_max {
            return Err(DictionaryFull::Entries(entries_max));
        }
        if string_bytes > STRING_BYTES_MAX {
            return Err(DictionaryFull::Bytes(self.string_bytes));
        }
        let known = self.find_hashed(hash, symbol).is_some();
        varint::push(symbol.len() as u64, &mut self.arena);
        self.arena.extend_from_slice(symbol.as_bytes());
        // 256 MiB of strings and 2,000,000 lengths of at most 3 bytes stay below 2^32.
        let end = u32::try_from(self.arena.len()).expect("bounded by STRING_BYTES_MAX");
        self.starts.push(end);
        self.string_bytes = string_bytes;
        if !known {
            let rehash = |cell: &Cell| Cell::spread(cell.hash);
            self.cells
                .insert_unique(Cell::spread(hash), Cell { hash, id }, rehash);
        }
        Ok(id)
    }
}

#[cfg(test)]
mod tests;
