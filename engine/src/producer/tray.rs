//! Rows side by side, before they go into their table's columns.
//!
//! A value that goes straight into its column costs a look at the table, the column, its type, its
//! length and its room. Here it costs a comparison and a store: rows of one table gather as 64-bit
//! cells, and some thirty of them go into the columns at once, by one copy a column.
//!
//! The tray holds rows of one table at a time, and only of one whose columns all have cells. What
//! it cannot take (another type, a new column, a value that is refused) is said by `false`: the
//! caller then takes the row off the tray and goes on at the table, which knows how to refuse.

use forebay_wire::encode::ColumnBuffer;
use forebay_wire::types::ColumnType;

use super::Symbols;
use super::ends::Ends;
use super::ids::{ColumnId, TableId};
use super::outline::Outline;
use super::table::{ROWS_MAX, Table};
use crate::router::entry::EntryHeader;

/// Most columns of a table whose rows gather here: one bit each.
pub(super) const COLUMNS_MAX: usize = 64;
/// Most rows: the cells of a dozen columns stay in the first cache.
const ROWS: usize = 32;
/// Cells of all columns, [`ROWS`] for each.
const CELLS: usize = COLUMNS_MAX * ROWS;

/// What a column takes, by its place.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Ends of its name, [`Ends::NONE`] where they are not all of it.
    name: Ends,
    ty: ColumnType,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Tray {
    /// Table of the row under construction, [`TableId::NONE`] while there is none here.
    open: TableId,
    /// Table that the tray is laid for, or none.
    table: TableId,
    /// Columns that the row has set.
    given: u64,
    /// Those of them that are NULL.
    nulls: u64,
    /// Place where the next column by name is expected.
    next: usize,
    /// Whole rows, and the place of the row under construction.
    rows: usize,
    /// Whole rows that go on it.
    rows_max: usize,
    /// Some of the rows have not set all columns.
    is_partial: bool,
    /// All columns.
    all: u64,
    /// Place and type of the designated timestamp, where the table has had one.
    designated: Option<(usize, ColumnType)>,
    cells: Box<[u64; CELLS]>,
    /// What each row has set that is not NULL.
    given_of: [u64; ROWS],
    shapes: Box<[Shape; COLUMNS_MAX]>,
    /// Where the rows become an entry as they are.
    outline: Outline,
}

impl Default for Tray {
    fn default() -> Self {
        let shape = Shape {
            name: Ends::NONE,
            ty: ColumnType::Boolean,
        };
        let cells = vec![0; CELLS].into_boxed_slice();
        Self {
            open: TableId::NONE,
            table: TableId::NONE,
            given: 0,
            nulls: 0,
            next: 0,
            rows: 0,
            rows_max: 0,
            is_partial: false,
            all: 0,
            designated: None,
            cells: cells.try_into().expect("as many cells"),
            given_of: [0; ROWS],
            shapes: Box::new([shape; COLUMNS_MAX]),
            outline: Outline::default(),
        }
    }
}

impl Tray {
    /// Whether the row under construction is here.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.open != TableId::NONE
    }

    /// Table that the tray is laid for, or [`TableId::NONE`].
    #[inline]
    pub(super) fn table(&self) -> TableId {
        self.table
    }

    /// Lays the tray, which is empty, for a table's rows; `false` if its rows do not fit on one.
    #[cold]
    pub(super) fn lay(&mut self, table: &Table) -> bool {
        let columns = &table.columns;
        if !table.has_cells() || columns.is_empty() || table.rows >= ROWS_MAX {
            return false;
        }
        self.table = table.id;
        self.outline.forget();
        self.all = u64::MAX >> (COLUMNS_MAX - columns.len());
        for (shape, column) in self.shapes.iter_mut().zip(columns) {
            let name = Ends::of(column.name.as_bytes());
            // The designated timestamp's name is not one to ask for.
            let is_name = name.are_all() && !column.name.is_empty();
            *shape = Shape {
                name: if is_name { name } else { Ends::NONE },
                ty: column.buffer.column_type(),
            };
        }
        if let Some(behind) = self.shapes.get_mut(columns.len()) {
            behind.name = Ends::NONE;
        }
        self.designated = table.designated_place().map(|place| {
            let ty = columns[place].buffer.column_type();
            (place, ty)
        });
        self.rows_max = ROWS.min(ROWS_MAX - table.rows);
        true
    }

    /// Begins a row, if the tray is laid for its table and the row before is whole.
    #[inline]
    pub(super) fn begin(&mut self, table: TableId) -> bool {
        if table != self.table || self.is_open() {
            return false;
        }
        self.open = table;
        self.given = 0;
        self.nulls = 0;
        self.next = 0;
        true
    }

    /// The value of a column, if it takes it (`fits`).
    #[inline]
    pub(super) fn put(
        &mut self,
        column: ColumnId,
        fits: impl FnOnce(ColumnId) -> bool,
        cell: u64,
    ) -> bool {
        column.table == self.open && fits(column) && self.store(column.place(), cell)
    }

    /// Whether a value of this type would be taken.
    #[inline]
    pub(super) fn takes(&self, column: ColumnId, ty: ColumnType) -> bool {
        column.table == self.open && column.is(ty) && self.given & bit(column.place()) == 0
    }

    /// The value of the next column, if it has this name and type.
    #[inline]
    pub(super) fn set(&mut self, name: Ends, ty: ColumnType, cell: u64) -> bool {
        let shape = &self.shapes[self.next % COLUMNS_MAX];
        if !self.is_open() || shape.name != name || shape.ty != ty || !self.store(self.next, cell) {
            return false;
        }
        self.next += 1;
        true
    }

    /// The value of the column at `place`, NULL without a cell; the next one is expected behind it.
    pub(super) fn set_at(&mut self, place: usize, ty: ColumnType, cell: Option<u64>) -> bool {
        if self.shapes[place].ty != ty || !self.store(place, cell.unwrap_or(0)) {
            return false;
        }
        if cell.is_none() {
            self.nulls |= bit(place);
        }
        self.next = place + 1;
        true
    }

    #[inline]
    fn store(&mut self, place: usize, cell: u64) -> bool {
        let bit = bit(place);
        if self.given & bit != 0 {
            return false;
        }
        self.given |= bit;
        self.cells[cell_of(place, self.rows)] = cell;
        true
    }

    /// Place where the next column by name is expected.
    pub(super) fn next(&self) -> usize {
        self.next
    }

    /// Completes the row with its designated timestamp.
    #[inline]
    pub(super) fn end(&mut self, ty: ColumnType, value: u64) -> bool {
        match self.designated {
            Some((place, unit)) if unit == ty && self.is_open() && self.given != 0 => {
                // No name and no handle leads to it: it is not set yet.
                self.given |= bit(place);
                self.cells[cell_of(place, self.rows)] = value;
                self.end_unstamped()
            }
            _ => false,
        }
    }

    /// Completes the row without one.
    #[inline]
    pub(super) fn end_unstamped(&mut self) -> bool {
        if self.given == 0 || !self.is_open() {
            return false;
        }
        let given = self.given & !self.nulls;
        self.given_of[self.rows % ROWS] = given;
        self.is_partial |= given != self.all;
        self.open = TableId::NONE;
        self.rows += 1;
        true
    }

    /// Whether the next row needs an empty tray.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.rows_max
    }

    /// Whole rows that are here.
    #[inline]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether there are rows, all of them with a value in every column, and none is under
    /// construction.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.rows > 0 && !self.is_partial && !self.is_open()
    }

    /// Prepares the entry of the rows, which [are whole](Self::is_whole), of the table that the tray
    /// is laid for; `None` if they have to go into the columns.
    #[inline]
    pub(super) fn begin_entry(
        &mut self,
        table: &Table,
        symbols: &Symbols,
        accepted_ns: u64,
    ) -> Option<EntryHeader> {
        self.outline.begin(table, self.rows, symbols, accepted_ns)
    }

    /// The entry whose header was made just before.
    #[inline]
    pub(super) fn finish_entry(&mut self, header: &EntryHeader, symbols: &Symbols) -> &[u8] {
        let Self {
            outline,
            cells,
            rows,
            ..
        } = self;
        outline.finish(header, symbols, |place| {
            let first = cell_of(place, 0);
            &cells[first..first + *rows]
        })
    }

    /// The rows are published: the tray stays laid for their table.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.rows = 0;
    }

    /// Forgets the row under construction.
    pub(super) fn drop_row(&mut self) {
        self.open = TableId::NONE;
    }

    /// Moves the whole rows into the table that the tray is laid for, which stays so while that
    /// takes more. No row is under construction.
    pub(super) fn empty_into(&mut self, table: &mut Table) {
        self.move_rows(table);
        self.rows_max = ROWS.min(ROWS_MAX - table.rows);
        if self.is_full() {
            self.table = TableId::NONE;
        }
    }

    /// Moves everything into the table that the tray is laid for: the row under construction goes
    /// on there. From now on the tray is laid for none.
    pub(super) fn put_away_into(&mut self, table: &mut Table) {
        let row = self.rows;
        self.move_rows(table);
        if self.is_open() {
            table.begin_row();
            for place in (0..table.columns.len()).filter(|place| self.given & bit(*place) != 0) {
                let is_given = self.nulls & bit(place) == 0;
                push(
                    table.resume(place),
                    is_given,
                    self.cells[cell_of(place, row)],
                );
            }
            table.expect_at(self.next);
            self.drop_row();
        }
        self.table = TableId::NONE;
    }

    fn move_rows(&mut self, table: &mut Table) {
        if self.rows == 0 {
            return;
        }
        for (place, column) in table.columns.iter_mut().enumerate() {
            let first = cell_of(place, 0);
            let cells = &self.cells[first..first + self.rows];
            if self.is_partial {
                for (cell, given) in cells.iter().zip(&self.given_of) {
                    push(&mut column.buffer, given & bit(place) != 0, *cell);
                }
            } else {
                column.buffer.push_cells(cells);
            }
        }
        table.rows += self.rows;
        self.rows = 0;
        self.is_partial = false;
    }

    /// Touches its memory, so that no row meets a new page, and makes room for entries of these
    /// tables' rows, up to `rows` of them. It is empty.
    pub(super) fn warm(&mut self, tables: &[Table], rows: usize) {
        self.cells.fill(0);
        let fit = |table: &&Table| table.has_cells() && table.rows == 0;
        for table in tables.iter().filter(fit) {
            self.outline.warm(table, rows.clamp(1, ROWS));
        }
    }

    /// Bytes of a table's columns as they are encoded, with what is here; 0 if it has no rows.
    pub(super) fn encoded_len_of(&self, table: &Table) -> usize {
        let is_here = table.id == self.table;
        if table.rows == 0 && !(is_here && self.rows > 0) {
            return 0;
        }
        if !is_here {
            return table.encoded_len();
        }
        let (given, nulls) = if self.is_open() {
            (self.given & !self.nulls, self.nulls)
        } else {
            (0, 0)
        };
        let columns = table.columns.iter().enumerate();
        let bytes = columns.map(|(place, column)| {
            let count = |set: u64| usize::from(set & bit(place) != 0);
            let cells = if self.is_partial {
                let rows = self.given_of[..self.rows].iter();
                rows.map(|set| count(*set)).sum()
            } else {
                self.rows
            };
            let buffer = &column.buffer;
            buffer.encoded_len_with(cells + count(given), self.rows - cells + count(nulls))
        });
        bytes.sum()
    }
}

/// The bit of a place, which is below [`COLUMNS_MAX`].
#[inline]
fn bit(place: usize) -> u64 {
    1 << (place % COLUMNS_MAX)
}

/// The cell of a row in the column at a place: a column's cells lie side by side.
#[inline]
fn cell_of(place: usize, row: usize) -> usize {
    (place * ROWS + row) % CELLS
}

fn push(buffer: &mut ColumnBuffer, is_given: bool, cell: u64) {
    if is_given {
        buffer.push_cell(cell);
    } else {
        buffer.push_null();
    }
}
