//! Symbols that the application looked up once: they outlive the tables of ids.

use hashbrown::HashTable;

use super::names::same;

/// Most handles of a producer.
const HANDLES_MAX: usize = 1_000_000;

const NO_ID: u32 = u32::MAX;

#[derive(Debug)]
struct Handle {
    text: Box<str>,
    hash: u64,
    /// In the present table, or [`NO_ID`].
    id: u32,
}

/// Handles are numbered from 0; each knows its text, and its id where the table has one.
#[derive(Debug, Default)]
pub(super) struct Handles {
    all: Vec<Handle>,
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
            id: NO_ID,
        });
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
        let id = self.all[handle as usize].id;
        (id != NO_ID).then_some(id)
    }

    /// The table has `id` for it.
    pub(super) fn set(&mut self, handle: u32, id: u32) {
        self.all[handle as usize].id = id;
    }

    /// Its text.
    pub(super) fn text(&self, handle: u32) -> &str {
        &self.all[handle as usize].text
    }

    /// The table holds fewer than `known` symbols now.
    #[cold]
    pub(super) fn forget(&mut self, known: usize) {
        for handle in self.all.iter_mut().filter(|h| h.id as usize >= known) {
            handle.id = NO_ID;
        }
    }
}
