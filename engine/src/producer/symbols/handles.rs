//! Symbols that the application looked up once: they outlive the tables of ids.

use hashbrown::HashTable;

use crate::producer::names::same;

/// Most handles of a producer.
const HANDLES_MAX: usize = 1_000_000;

const NO_ID: u32 = u32::MAX;

#[derive(Debug)]
struct Handle {
    text: Box<str>,
    hash: u64,
}

/// What the present table knows of a handle.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// In the table, or [`NO_ID`].
    id: u32,
    /// The uses among which it was last noted.
    uses: u64,
}

/// Handles are numbered from 0; each knows its text, and its id where the table has one.
#[derive(Debug, Default)]
pub(super) struct Handles {
    all: Vec<Handle>,
    /// One for each of `all`, apart from them so that a row touches little memory.
    cells: Vec<Cell>,
    index: HashTable<u32>,
}

impl Handles {
    /// The handle of `text`, one for every text; `None` when there are too many.
    pub(super) fn of(&mut self, text: &str, hash: u64) -> Option<u32> {
        let all = &self.all;
        let is_it = |handle: &u32| {
            let handle = &all[*handle as usize];
            handle.hash == hash && same(&handle.text, text)
        };
        if let Some(handle) = self.index.find(hash, is_it) {
            return Some(*handle);
        }
        if self.all.len() >= HANDLES_MAX {
            return None;
        }
        let handle = u32::try_from(self.all.len()).ok()?;
        self.all.push(Handle {
            text: text.into(),
            hash,
        });
        self.cells.push(Cell { id: NO_ID, uses: 0 });
        let all = &self.all;
        self.index
            .insert_unique(hash, handle, |handle| all[*handle as usize].hash);
        Some(handle)
    }

    /// Its id, if that was set since the table was begun.
    ///
    /// # Panics
    /// If there is no such handle.
    #[inline]
    pub(super) fn id(&self, handle: u32) -> Option<u32> {
        let id = self.cells[handle as usize].id;
        (id != NO_ID).then_some(id)
    }

    /// Its id, if it was [noted](Self::note) among these uses.
    #[inline]
    pub(super) fn noted(&self, handle: u32, uses: u64) -> Option<u32> {
        let cell = self.cells.get(handle as usize)?;
        (cell.uses == uses).then_some(cell.id)
    }

    /// Its id stands among the batch's symbols, for as long as the uses have this number.
    pub(super) fn note(&mut self, handle: u32, uses: u64) {
        self.cells[handle as usize].uses = uses;
    }

    /// The table has `id` for it.
    pub(super) fn set(&mut self, handle: u32, id: u32) {
        self.cells[handle as usize].id = id;
    }

    /// How many there are, and the bytes of their texts.
    pub(super) fn size(&self) -> (usize, usize) {
        let bytes = self.all.iter().map(|handle| handle.text.len());
        (self.all.len(), bytes.sum())
    }

    /// Its text.
    pub(super) fn text(&self, handle: u32) -> &str {
        &self.all[handle as usize].text
    }

    /// The table holds fewer than `known` symbols now.
    #[cold]
    pub(super) fn forget(&mut self, known: usize) {
        for cell in self.cells.iter_mut().filter(|c| c.id as usize >= known) {
            cell.id = NO_ID;
        }
    }
}
