//! The rows of one table in the batch under construction, column by column.

use std::ops::Range;
use std::sync::Arc;

use forebay_wire::encode::ColumnBuffer;
use forebay_wire::types::ColumnType;

use super::ids::TableId;
use super::names::same;
use super::tray;
use crate::observe::TableCounters;

/// Most columns of a table block (protocol.md section 10.7).
pub(super) const COLUMNS_MAX: usize = 2048;
/// Most rows of a table block (protocol.md section 10.7).
pub(super) const ROWS_MAX: usize = 1_000_000;
/// Bytes that room is made for where values differ in size.
const VALUE_BYTES: usize = 64;

/// A named column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) buffer: ColumnBuffer,
}

/// A table's columns and how many whole rows they hold.
#[derive(Debug)]
pub(super) struct Table {
    /// Its handle; [`TableId::NONE`] for a part of a batch.
    pub(super) id: TableId,
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: usize,
    pub(super) counters: Arc<TableCounters>,
    /// Position where the next column of the row is expected.
    next: usize,
    /// Columns set in the row under construction.
    set: usize,
    /// Columns there were before it.
    known: usize,
    /// Rows that a new column is sized for.
    warm_rows: usize,
    /// Encoded bytes when they were last asked for.
    pub(super) bytes_seen: usize,
    /// Place of the designated timestamp, `usize::MAX` before a row has had one.
    designated: usize,
    /// Its rows fit on a tray.
    has_cells: bool,
}

impl Table {
    pub(super) fn new(name: &str, counters: Arc<TableCounters>) -> Self {
        Self {
            id: TableId::NONE,
            name: name.to_owned(),
            columns: Vec::new(),
            rows: 0,
            counters,
            next: 0,
            set: 0,
            known: 0,
            warm_rows: 0,
            bytes_seen: 0,
            designated: usize::MAX,
            has_cells: true,
        }
    }

    /// A row begins.
    #[inline]
    pub(super) fn begin_row(&mut self) {
        self.next = 0;
        self.set = 0;
        self.known = self.columns.len();
    }

    /// Unit of the designated timestamp, where a row has had one.
    pub(super) fn designated_type(&self) -> Option<ColumnType> {
        let designated = self.columns.iter().find(|column| column.name.is_empty())?;
        Some(designated.buffer.column_type())
    }

    /// Place of the designated timestamp, where a row has had one.
    pub(super) fn designated_place(&self) -> Option<usize> {
        (self.designated < self.columns.len()).then_some(self.designated)
    }

    /// Whether rows of these columns fit on a tray.
    pub(super) fn has_cells(&self) -> bool {
        self.has_cells
    }

    /// The column at a place, which a row that comes from a tray has set.
    pub(super) fn resume(&mut self, place: usize) -> &mut ColumnBuffer {
        self.set += 1;
        &mut self.columns[place].buffer
    }

    /// The next column of the row is expected at `place`.
    pub(super) fn expect_at(&mut self, place: usize) {
        self.next = place;
    }

    /// How many columns are symbols.
    pub(super) fn symbol_columns(&self) -> usize {
        let symbolic = |column: &&Column| column.buffer.column_type() == ColumnType::Symbol;
        self.columns.iter().filter(symbolic).count()
    }

    /// Columns set in this row.
    pub(super) fn columns_set(&self) -> usize {
        self.set
    }

    /// The buffer for this row's value of `name` if that is the next column, as mostly it is:
    /// rows repeat their shape.
    #[inline]
    pub(super) fn expected(&mut self, name: &str, ty: ColumnType) -> Option<&mut ColumnBuffer> {
        let column = self.columns.get_mut(self.next)?;
        let buffer = &mut column.buffer;
        let fits = same(&column.name, name) && buffer.column_type() == ty;
        if !fits || buffer.rows() != self.rows {
            return None;
        }
        self.next += 1;
        self.set += 1;
        Some(buffer)
    }

    /// The buffer for this row's value of `name`: found by position first, then by name. `check`
    /// judges the name of a new column.
    pub(super) fn column(
        &mut self,
        name: &str,
        ty: ColumnType,
        check: impl FnOnce(&str) -> Result<(), String>,
    ) -> Result<&mut ColumnBuffer, String> {
        let expected = self
            .columns
            .get(self.next)
            .is_some_and(|column| same(&column.name, name));
        let index = if expected {
            self.next
        } else {
            self.find(name, ty, check)?
        };
        let column = &mut self.columns[index];
        if column.buffer.column_type() != ty {
            return Err(type_change(&column.buffer, ty));
        }
        if column.buffer.rows() != self.rows {
            return Err("the row has this column already".to_owned());
        }
        self.next = index + 1;
        self.set += 1;
        Ok(&mut column.buffer)
    }

    /// The buffer of the row's designated timestamp, as [`column`](Self::column) finds it.
    #[inline]
    pub(super) fn designated(&mut self, ty: ColumnType) -> Result<&mut ColumnBuffer, String> {
        let (place, rows) = (self.designated, self.rows);
        let fits =
            |column: &Column| column.buffer.column_type() == ty && column.buffer.rows() == rows;
        if self.columns.get(place).is_some_and(fits) {
            self.set += 1;
            return Ok(&mut self.columns[place].buffer);
        }
        self.find_designated(ty)
    }

    #[cold]
    fn find_designated(&mut self, ty: ColumnType) -> Result<&mut ColumnBuffer, String> {
        self.column("", ty, |_| Ok(()))?;
        self.designated = self.next - 1;
        Ok(&mut self.columns[self.designated].buffer)
    }

    /// The place of a column, made if it is new; outside rows.
    pub(super) fn index_of(
        &mut self,
        name: &str,
        ty: ColumnType,
        check: impl FnOnce(&str) -> Result<(), String>,
    ) -> Result<usize, String> {
        let index = self.find(name, ty, check)?;
        let buffer = &self.columns[index].buffer;
        if buffer.column_type() != ty {
            return Err(type_change(buffer, ty));
        }
        Ok(index)
    }

    /// The buffer of a column that this row has not set yet.
    #[inline]
    pub(super) fn slot(&mut self, index: usize) -> Option<&mut ColumnBuffer> {
        let rows = self.rows;
        let buffer = &mut self.columns.get_mut(index)?.buffer;
        if buffer.rows() != rows {
            return None;
        }
        self.set += 1;
        self.next = index + 1;
        Some(buffer)
    }

    #[cold]
    fn find(
        &mut self,
        name: &str,
        ty: ColumnType,
        check: impl FnOnce(&str) -> Result<(), String>,
    ) -> Result<usize, String> {
        if let Some(index) = self
            .columns
            .iter()
            .position(|column| same(&column.name, name))
        {
            return Ok(index);
        }
        check(name)?;
        if self.columns.len() >= COLUMNS_MAX {
            return Err(format!("a table has at most {COLUMNS_MAX} columns"));
        }
        if let Some(twin) = self
            .columns
            .iter()
            .find(|c| c.name.eq_ignore_ascii_case(name))
        {
            return Err(format!("differs only in case from column {:?}", twin.name));
        }
        let mut buffer = ColumnBuffer::new(ty);
        buffer.reserve(self.warm_rows, VALUE_BYTES);
        buffer.push_nulls(self.rows);
        self.columns.push(Column {
            name: name.to_owned(),
            buffer,
        });
        self.has_cells &= ColumnBuffer::has_cells(ty) && self.columns.len() <= tray::COLUMNS_MAX;
        Ok(self.columns.len() - 1)
    }

    /// Completes the row: columns it did not set get a NULL.
    #[inline]
    pub(super) fn end_row(&mut self) -> Result<(), String> {
        if self.rows >= ROWS_MAX {
            return Err(format!(
                "a batch holds at most {ROWS_MAX} rows of a table: flush first"
            ));
        }
        if self.set < self.columns.len() {
            for column in &mut self.columns {
                if column.buffer.rows() == self.rows {
                    column.buffer.push_null();
                }
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Takes back what the row under construction has set; columns it brought go with it.
    #[cold]
    pub(super) fn drop_row(&mut self) {
        let rows = self.rows;
        if self.columns.len() > self.known {
            self.forget_new_columns();
        }
        for column in &mut self.columns {
            column.buffer.truncate(rows);
        }
        self.begin_row();
    }

    fn forget_new_columns(&mut self) {
        self.columns.truncate(self.known);
        if self.designated >= self.known {
            self.designated = usize::MAX;
        }
        let has_cells = |column: &Column| ColumnBuffer::has_cells(column.buffer.column_type());
        self.has_cells =
            self.columns.len() <= tray::COLUMNS_MAX && self.columns.iter().all(has_cells);
    }

    /// A copy with the rows `rows` alone.
    pub(super) fn slice(&self, rows: Range<usize>) -> Self {
        let columns = self.columns.iter().map(|column| Column {
            name: column.name.clone(),
            buffer: column.buffer.slice(rows.clone()),
        });
        Self {
            id: self.id,
            columns: columns.collect(),
            rows: rows.len(),
            has_cells: self.has_cells,
            ..Self::new(&self.name, Arc::clone(&self.counters))
        }
    }

    /// Bytes of the columns as they are encoded.
    pub(super) fn encoded_len(&self) -> usize {
        self.columns
            .iter()
            .map(|column| column.buffer.encoded_len())
            .sum()
    }

    /// Whether both have the same columns in the same order.
    pub(super) fn has_columns_of(&self, other: &Self) -> bool {
        let same = |(a, b): (&Column, &Column)| {
            a.buffer.column_type() == b.buffer.column_type() && a.name == b.name
        };
        self.name == other.name
            && self.columns.len() == other.columns.len()
            && self.columns.iter().zip(&other.columns).all(same)
    }

    /// Becomes a copy of the rows `rows` of `from`, which has the same columns.
    pub(super) fn assign(&mut self, from: &Self, rows: Range<usize>) {
        self.rows = rows.len();
        for (column, from) in self.columns.iter_mut().zip(&from.columns) {
            column.buffer.assign(&from.buffer, rows.clone());
        }
    }

    /// Sizes the columns, those to come too, for `rows` rows; values of varying size are taken to
    /// have [`VALUE_BYTES`].
    pub(super) fn warm(&mut self, rows: usize) {
        self.warm_rows = rows;
        for column in &mut self.columns {
            column.buffer.reserve(rows, VALUE_BYTES);
        }
    }

    /// Forgets the rows and keeps the columns.
    pub(super) fn clear(&mut self) {
        for column in &mut self.columns {
            column.buffer.clear();
        }
        self.rows = 0;
        self.bytes_seen = 0;
    }
}

fn type_change(buffer: &ColumnBuffer, ty: ColumnType) -> String {
    format!(
        "is {:?} in this producer and cannot take a {ty:?}: another producer may",
        buffer.column_type()
    )
}
