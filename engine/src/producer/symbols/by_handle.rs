//! Symbols by their handles: a table is asked once for the id of each, and a batch once.

use std::hash::BuildHasher;

use super::Symbols;

impl Symbols {
    /// A handle of `text`, good for every table to come; `None` when there are too many.
    pub(in crate::producer) fn handle(&mut self, text: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(text.as_bytes());
        self.handles.of(text, hash)
    }

    /// The id that the present table has for a handle, not noted as used; `None` if it has none.
    #[inline]
    pub(in crate::producer) fn id_of(&mut self, handle: u32) -> Option<u32> {
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
    pub(in crate::producer) fn noted(&self, handle: u32) -> Option<u32> {
        self.handles.noted(handle, self.uses)
    }

    /// As [`id_of`](Self::id_of), noted as used by this batch.
    pub(in crate::producer) fn cell_of(&mut self, handle: u32) -> Option<u32> {
        let id = self.id_of(handle)?;
        self.mark_used(id);
        self.handles.note(handle, self.uses);
        Some(id)
    }

    /// As [`add`](Self::add), the text of a handle.
    pub(in crate::producer) fn add_handle(&mut self, handle: u32) -> Option<u32> {
        let handles = std::mem::take(&mut self.handles);
        let id = self.add(handles.text(handle));
        self.handles = handles;
        self.handles.set(handle, id?);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::cell;
    use super::*;

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
}
