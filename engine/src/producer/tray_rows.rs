//! How rows get on the producer's tray, and off it.
//!
//! Whoever looks at the tables, changes their columns or goes to another desk puts the tray away
//! first. While it is laid, no row is under construction at a table.

use forebay_wire::types::ColumnType;

use super::Producer;
use super::ids::TableId;
use super::names::same;
use crate::error::Error;

/// Rows of a batch, or of one table in a row whatever their batches, that go to their table at once:
/// to lay the tray and to empty it costs a few rows. Rows of tables in turn never get there: the row
/// before must have been of the same table.
const ROWS_BEFORE: u32 = 8;

impl Producer {
    /// Whether a row is begun and not completed.
    #[inline]
    pub(super) fn row_open(&self) -> bool {
        self.tray.is_open() || self.open != TableId::NONE
    }

    /// Begins a row of the current table.
    #[inline]
    pub(super) fn begin_row(&mut self) {
        let id = self.desk.tables[self.desk.current].id;
        if self.tray.begin(id) {
            self.desk.symbol_mark = self.desk.symbols.mark();
        } else {
            self.begin_row_at_table();
        }
    }

    /// Begins a row of the current table while the tray is laid for none, or for another table: lays
    /// it, if that is likely to pay.
    #[inline(never)]
    fn begin_row_at_table(&mut self) {
        self.put_tray_away();
        let desk = &mut *self.desk;
        desk.symbol_mark = desk.symbols.mark();
        let table = &mut desk.tables[desk.current];
        let is_repeated = std::mem::replace(&mut self.last, table.id) == table.id;
        self.run = if is_repeated {
            self.run.saturating_add(1)
        } else {
            0
        };
        let many = desk.rows >= ROWS_BEFORE as usize || self.run >= ROWS_BEFORE;
        let may_pay = is_repeated && many && self.stamps.is_none();
        if may_pay && self.tray.lay(table) && self.tray.begin(table.id) {
            return;
        }
        table.begin_row();
        self.open = table.id;
    }

    /// Moves what is on the tray to its table, also the row under construction, and lays it for
    /// none.
    #[inline]
    pub(super) fn put_tray_away(&mut self) {
        if self.tray.table() != TableId::NONE {
            self.take_row_off_tray();
        }
    }

    /// As [`put_tray_away`](Self::put_tray_away), if there are rows on it, before what is buffered
    /// goes the ordinary way into the ring. The tray has not paid: the next rows of the table do
    /// without.
    #[inline]
    pub(super) fn give_tray_up(&mut self) {
        if self.tray.rows() > 0 {
            self.take_row_off_tray();
            self.run = 0;
        }
    }

    /// As [`put_tray_away`](Self::put_tray_away); `false` if no row was under construction on it.
    #[inline(never)]
    pub(super) fn take_row_off_tray(&mut self) -> bool {
        let table = self.tray.table();
        if table == TableId::NONE {
            return false;
        }
        let is_open = self.tray.is_open();
        if is_open {
            self.open = table;
        }
        self.tray
            .put_away_into(&mut self.desk.tables[table.place()]);
        is_open
    }

    #[inline(never)]
    fn empty_full_tray(&mut self) {
        let place = self.tray.table().place();
        self.tray.empty_into(&mut self.desk.tables[place]);
    }

    /// A value by name of the row on the tray, of a column that is not the next one or has a long
    /// name; NULL without a cell. `false` if the row is not there, or cannot take it there.
    #[inline(never)]
    pub(super) fn set_on_tray(&mut self, name: &str, ty: ColumnType, cell: Option<u64>) -> bool {
        if !self.tray.is_open() || name.is_empty() {
            return false;
        }
        let columns = &self.desk.tables[self.tray.table().place()].columns;
        let next = self.tray.next();
        let (before, behind) = columns.split_at(next.min(columns.len()));
        let found = (next..).zip(behind).chain((0..).zip(before));
        let mut found = found.filter(|(_, column)| same(&column.name, name));
        found
            .next()
            .is_some_and(|(place, _)| self.tray.set_at(place, ty, cell))
    }

    /// A row on the tray is whole.
    #[inline]
    pub(super) fn end_row_on_tray(&mut self) -> Result<(), Error> {
        self.desk.rows += 1;
        if self.tray.is_full() {
            self.empty_full_tray();
        }
        if self.auto_flush {
            return self.after_row();
        }
        Ok(())
    }
}
