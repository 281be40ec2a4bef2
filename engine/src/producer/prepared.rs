//! The fastest row path: tables, columns and symbols that were looked up once.
//!
//! Handles are plain numbers, good for the producer that gave them and for as long as it lives.
//! One of another producer is refused, never misread.

use forebay_wire::encode::{ColumnBuffer, PushError};
use forebay_wire::names;
use forebay_wire::types::ColumnType;

use super::Producer;
use super::ids::{ColumnId, Symbol, TableId};
use super::names::{check_column, check_symbol};
use super::table::Table;
use super::tray::Tray;
use crate::error::Error;

macro_rules! put {
    ($(#[$doc:meta])* $name:ident($value:ident: $ty:ty) $column:ident, cell $cell:expr,
     $push:expr) => {
        put!(
            $(#[$doc])* $name($value: $ty) $column,
            tray |tray: &mut Tray, column| {
                tray.put(column, |column| column.is(ColumnType::$column), $cell)
            },
            $push);
    };
    ($(#[$doc:meta])* $name:ident($value:ident: $ty:ty) $column:ident, tray $on_tray:expr,
     $push:expr) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self, column: ColumnId, $value: $ty) -> Result<&mut Self, Error> {
            if ($on_tray)(&mut self.tray, column) {
                return Ok(self);
            }
            let push = $push;
            let fits = |buffer: &ColumnBuffer| buffer.column_type() == ColumnType::$column;
            self.put(column, fits, move |buffer| { push(buffer, $value); Ok(()) })
        }
    };
    ($(#[$doc:meta])* $name:ident($value:ident: $ty:ty) $column:ident, $push:expr) => {
        put!($(#[$doc])* $name($value: $ty) $column, tray |_: &mut Tray, _| false, $push);
    };
}

impl Producer {
    /// Looks a table up once, for [`row`](Self::row).
    pub fn prepare(&mut self, table: &str) -> Result<TableId, Error> {
        self.not_in_a_row()?;
        self.go_to_table(table)?;
        Ok(self.desk.tables[self.desk.current].id)
    }

    /// Looks a column up once, for the `put_` calls. A column that a batch never sets is sent as
    /// NULLs.
    pub fn prepare_column(
        &mut self,
        table: TableId,
        name: &str,
        ty: ColumnType,
    ) -> Result<ColumnId, Error> {
        self.not_in_a_row()?;
        self.put_tray_away();
        if ty == ColumnType::LongArray {
            return Err(Error::Misuse(
                "servers store no LONG_ARRAY: use DoubleArray",
            ));
        }
        let limit = self.options.name_bytes_max;
        let Some(desk) = self.desks_mut().find(|desk| desk.id == table.owner()) else {
            return Err(Error::Misuse("a table of another producer"));
        };
        let place = &mut desk.tables[table.place()];
        // A name that is known was checked when it was new, but for the designated timestamp's.
        let known = if name.is_empty() {
            Err(names::NameError::Empty.to_string())
        } else {
            place.index_of(name, ty, |name| check_column(name, limit))
        };
        match known {
            Ok(place) => Ok(ColumnId::new(table, place, ty)),
            Err(reason) => Err(Error::Row {
                table: place.name.clone(),
                column: name.to_owned(),
                reason,
            }),
        }
    }

    /// Looks a symbol up once, for [`put_symbol`](Self::put_symbol) and
    /// [`Chunk::symbols`](crate::Chunk::symbols). At most 1 MiB.
    pub fn intern(&mut self, text: &str) -> Result<Symbol, Error> {
        let refused = |reason: String| Error::Row {
            table: String::new(),
            column: String::new(),
            reason,
        };
        self.home.check()?;
        check_symbol(text.len()).map_err(refused)?;
        // Every desk numbers them alike: all hold the same texts in the same order.
        let handles = self.desks_mut().map(|desk| desk.symbols.handle(text));
        match handles.min().flatten() {
            Some(id) => Ok(Symbol { owner: self.id, id }),
            None => Err(refused(
                "this producer holds 1,000,000 interned symbols".to_owned(),
            )),
        }
    }

    /// Makes everything ready that batches of up to `rows` rows need, so that filling and
    /// publishing them allocates nothing and meets no new page: the buffers of the tables named
    /// here and of those prepared before (a column that comes later costs its making, no more),
    /// the interned symbols, the memory for cutting batches, the notes of what is acked. Values of varying size are
    /// taken to have 64 bytes on average.
    pub fn warm(&mut self, tables: &[&str], rows: usize) -> Result<(), Error> {
        self.not_in_a_row()?;
        for name in tables {
            self.go_to_table(name)?;
        }
        self.put_tray_away();
        self.at_each_desk(|this| this.warm_desk(rows));
        Ok(())
    }

    fn warm_desk(&mut self, rows: usize) {
        for table in &mut self.desk.tables {
            table.warm(rows);
        }
        self.tray.warm(&self.desk.tables, rows);
        self.warm_pieces(rows);
        let desk = &mut *self.desk;
        desk.symbols.warm();
        let symbolic = desk.tables.iter().map(Table::symbol_columns).max();
        let symbols = desk.symbols.len();
        self.scratch.warm(rows, symbolic.unwrap_or(0), symbols);
        let columns = desk.tables.iter().map(|table| table.columns.len().max(16));
        self.plan.reserve(columns.sum());
        desk.lane.ledger.reserve();
        desk.lane.marks.reserve();
    }

    fn not_in_a_row(&self) -> Result<(), Error> {
        self.home.check()?;
        if self.row_open() {
            return Err(Error::Misuse(
                "prepare while a row is open: call at(), at_now() or discard_row() first",
            ));
        }
        Ok(())
    }

    /// Begins a row of a prepared table. A row begun before and not completed is an error.
    #[inline]
    pub fn row(&mut self, table: TableId) -> Result<&mut Self, Error> {
        self.home.check()?;
        if self.tray.begin(table) {
            let desk = &mut *self.desk;
            desk.current = table.place();
            desk.symbol_mark = desk.symbols.mark();
            return Ok(self);
        }
        let mut table = table;
        if self.row_open() || table.owner() != self.desk.id {
            table = self.visit(table)?;
        }
        self.desk.current = table.place();
        self.begin_row();
        Ok(self)
    }

    #[inline]
    fn put(
        &mut self,
        column: ColumnId,
        fits: impl Fn(&ColumnBuffer) -> bool,
        push: impl FnOnce(&mut ColumnBuffer) -> Result<(), PushError>,
    ) -> Result<&mut Self, Error> {
        if !self.is_here(column) {
            return self.put_as_guest(column, fits, push);
        }
        // The buffer says what fits, not the handle, though they agree: `push` asks it the same
        // once more, and the compiler sees that.
        let desk = &mut *self.desk;
        match desk.tables[desk.current].slot(column.place()) {
            Some(buffer) if fits(buffer) => match push(buffer) {
                Ok(()) => Ok(self),
                Err(error) => self.refuse_value(column, error),
            },
            _ => self.misput(column),
        }
    }

    /// Whether the column belongs to the table of the open row.
    #[inline]
    fn is_here(&self, column: ColumnId) -> bool {
        column.table == self.open
    }

    // What follows is off the way of a row that is taken: kept out of line, and the last thing that
    // its caller does, so that the way itself saves no registers.

    /// A column of another desk, of a row on the tray that does not fit there, or of none that is
    /// open.
    #[cold]
    fn put_as_guest(
        &mut self,
        column: ColumnId,
        fits: impl Fn(&ColumnBuffer) -> bool,
        push: impl FnOnce(&mut ColumnBuffer) -> Result<(), PushError>,
    ) -> Result<&mut Self, Error> {
        if self.take_row_off_tray() && self.is_here(column) {
            return self.put(column, fits, push);
        }
        match self.visiting_column(column) {
            Some(local) => self.put(local, fits, push),
            None => self.misplaced(),
        }
    }

    #[cold]
    fn foreign_symbol(&mut self, column: ColumnId, symbol: Symbol) -> Result<&mut Self, Error> {
        let column = self.visiting_column(column).unwrap_or(column);
        if self.is_here(column) {
            if symbol.owner == self.id {
                return self.put_symbol(column, symbol);
            }
            return Err(self.refuse_put(column, "a symbol of another producer".to_owned()));
        }
        self.misplaced()
    }

    #[cold]
    fn refuse_value(&mut self, column: ColumnId, error: PushError) -> Result<&mut Self, Error> {
        Err(self.refuse_put(column, error.to_string()))
    }

    fn refuse_put(&mut self, column: ColumnId, reason: String) -> Error {
        let name = self.column_name(column);
        self.refuse_row(&name, reason)
    }

    fn column_name(&self, column: ColumnId) -> String {
        let columns = &self.desk.tables[self.desk.current].columns;
        columns[column.place()].name.clone()
    }

    /// A put that does not belong to the open row.
    #[cold]
    fn misplaced(&mut self) -> Result<&mut Self, Error> {
        if !self.row_open() {
            return Err(Error::Misuse("put before row()"));
        }
        self.discard_row();
        Err(Error::Misuse(
            "a column of another table or producer; the row is left out",
        ))
    }

    /// A value of another type, or a second one.
    #[cold]
    fn misput(&mut self, column: ColumnId) -> Result<&mut Self, Error> {
        let table = &self.desk.tables[self.desk.current];
        let buffer = &table.columns[column.place()].buffer;
        let reason = if buffer.rows() == table.rows {
            let ty = buffer.column_type();
            format!("is {ty:?} and cannot take this value")
        } else {
            "the row has this column already".to_owned()
        };
        Err(self.refuse_put(column, reason))
    }

    /// A SYMBOL.
    #[inline]
    pub fn put_symbol(&mut self, column: ColumnId, symbol: Symbol) -> Result<&mut Self, Error> {
        if symbol.owner == self.id
            && let Some(id) = self.desk.symbols.noted(symbol.id)
        {
            let fits = |column: ColumnId| column.is(ColumnType::Symbol);
            if self.tray.put(column, fits, id.into()) {
                return Ok(self);
            }
            if self.is_here(column) {
                return self.put_cell(column, id);
            }
        }
        self.put_symbol_elsewhere(column, symbol)
    }

    #[inline]
    fn put_cell(&mut self, column: ColumnId, id: u32) -> Result<&mut Self, Error> {
        let fits = |buffer: &ColumnBuffer| buffer.column_type() == ColumnType::Symbol;
        self.put(column, fits, |buffer| {
            buffer.push_symbol(id);
            Ok(())
        })
    }

    /// A symbol that this batch has not used yet, and whatever is not taken at once.
    #[inline(never)]
    fn put_symbol_elsewhere(
        &mut self,
        column: ColumnId,
        symbol: Symbol,
    ) -> Result<&mut Self, Error> {
        if symbol.owner == self.id
            && self.tray.takes(column, ColumnType::Symbol)
            && let Some(id) = self.desk.symbols.cell_of(symbol.id)
            && self.tray.put(column, |_| true, id.into())
        {
            return Ok(self);
        }
        self.put_new_symbol(column, symbol)
    }

    /// A symbol that the table does not have yet, or of a row that is not on the tray.
    #[inline(never)]
    fn put_new_symbol(&mut self, column: ColumnId, symbol: Symbol) -> Result<&mut Self, Error> {
        let is_own = symbol.owner == self.id;
        if !is_own || !self.tray.takes(column, ColumnType::Symbol) {
            self.put_tray_away();
        }
        if !is_own || !(self.tray.is_open() || self.is_here(column)) {
            return self.foreign_symbol(column, symbol);
        }
        let Some(id) = self.cell_of_symbol(symbol) else {
            let name = self.column_name(column);
            return Err(self.refuse_symbol(&name));
        };
        if self.tray.put(column, |_| true, id.into()) {
            return Ok(self);
        }
        self.put_cell(column, id)
    }

    /// The id of a symbol of this producer, noted as used; `None` if the slot has no room for it.
    #[inline]
    pub(super) fn cell_of_symbol(&mut self, symbol: Symbol) -> Option<u32> {
        let noted = self.desk.symbols.noted(symbol.id);
        noted.or_else(|| self.first_cell_of(symbol))
    }

    /// The same of a symbol that this batch has not used yet.
    #[inline(never)]
    fn first_cell_of(&mut self, symbol: Symbol) -> Option<u32> {
        if let Some(id) = self.desk.symbols.cell_of(symbol.id) {
            return Some(id);
        }
        let id = self.new_symbol(|symbols| symbols.add_handle(symbol.id))?;
        self.desk.symbols.mark_used(id);
        Some(id)
    }

    /// The id of a text, noted as used; `None` if the slot has no room for it.
    #[inline]
    pub(super) fn cell_of_text(&mut self, text: &str) -> Option<u32> {
        if let Some(id) = self.desk.symbols.cell(text) {
            return Some(id);
        }
        let id = self.new_symbol(|symbols| symbols.add(text))?;
        self.desk.symbols.mark_used(id);
        Some(id)
    }

    put!(
        /// A BOOLEAN.
        put_bool(value: bool) Boolean, cell value.into(), ColumnBuffer::push_bool);
    put!(
        /// A BYTE.
        put_i8(value: i8) Byte, cell value.cast_unsigned().into(), ColumnBuffer::push_i8);
    put!(
        /// A SHORT.
        put_i16(value: i16) Short, cell value.cast_unsigned().into(), ColumnBuffer::push_i16);
    put!(
        /// An INT.
        put_i32(value: i32) Int, cell value.cast_unsigned().into(), ColumnBuffer::push_i32);
    /// A LONG, DATE, TIMESTAMP or `TIMESTAMP_NANOS`, in the column's unit.
    #[inline]
    pub fn put_i64(&mut self, column: ColumnId, value: i64) -> Result<&mut Self, Error> {
        let fits = |column: ColumnId| {
            column.is(ColumnType::Long)
                || column.is(ColumnType::TimestampNanos)
                || column.is(ColumnType::Timestamp)
                || column.is(ColumnType::Date)
        };
        if self.tray.put(column, fits, value.cast_unsigned()) {
            return Ok(self);
        }
        self.put(column, ColumnBuffer::takes_i64, |buffer| {
            buffer.push_i64(value);
            Ok(())
        })
    }

    put!(
        /// A FLOAT.
        put_f32(value: f32) Float, cell value.to_bits().into(), ColumnBuffer::push_f32);
    put!(
        /// A DOUBLE.
        put_f64(value: f64) Double, cell value.to_bits(), ColumnBuffer::push_f64);
    put!(
        /// A VARCHAR.
        put_str(value: &str) Varchar, ColumnBuffer::push_str);
    put!(
        /// A BINARY.
        put_binary(value: &[u8]) Binary, ColumnBuffer::push_bytes);
    put!(
        /// A CHAR: one UTF-16 code unit.
        put_char(value: u16) Char, cell value.into(), ColumnBuffer::push_char);
    put!(
    /// A UUID.
    put_uuid(value: u128) Uuid, |buffer: &mut ColumnBuffer, value: u128| {
        let [lo, hi] = [value, value >> 64].map(|half| half & u128::from(u64::MAX));
        // Both halves were cut to 64 bits.
        buffer.push_uuid(u64::try_from(lo).unwrap_or(0), u64::try_from(hi).unwrap_or(0));
    });
    put!(
        /// A LONG256, least significant word first.
        put_long256(words: [u64; 4]) Long256, ColumnBuffer::push_long256);
    put!(
        /// An IPv4 address as a number.
        put_ipv4(value: u32) Ipv4, cell value.into(), ColumnBuffer::push_ipv4);

    /// A GEOHASH of `precision` bits (1 to 60).
    pub fn put_geohash(
        &mut self,
        column: ColumnId,
        bits: u64,
        precision: u8,
    ) -> Result<&mut Self, Error> {
        let fits = |buffer: &ColumnBuffer| buffer.column_type() == ColumnType::Geohash;
        self.put(column, fits, |buffer| buffer.push_geohash(bits, precision))
    }

    /// A DECIMAL64 or DECIMAL128: `unscaled / 10^scale`.
    pub fn put_decimal(
        &mut self,
        column: ColumnId,
        unscaled: i128,
        scale: u8,
    ) -> Result<&mut Self, Error> {
        let fits = |buffer: &ColumnBuffer| buffer.column_type().decimal_limits().is_some();
        self.put(column, fits, |buffer| buffer.push_decimal(unscaled, scale))
    }

    /// A DECIMAL256: `unscaled / 10^scale`, the unscaled number as 32 little-endian bytes of a
    /// two's complement.
    pub fn put_dec256(
        &mut self,
        column: ColumnId,
        unscaled: [u8; 32],
        scale: u8,
    ) -> Result<&mut Self, Error> {
        let fits = |buffer: &ColumnBuffer| buffer.column_type() == ColumnType::Decimal256;
        self.put(column, fits, |buffer| buffer.push_decimal(unscaled, scale))
    }

    /// A `DOUBLE_ARRAY`: the length of each dimension, outermost first, and the elements.
    pub fn put_arr(
        &mut self,
        column: ColumnId,
        shape: &[usize],
        values: &[f64],
    ) -> Result<&mut Self, Error> {
        let fits = |buffer: &ColumnBuffer| buffer.column_type() == ColumnType::DoubleArray;
        let values = values.iter().copied();
        self.put(column, fits, |buffer| {
            buffer.push_double_array(shape, values)
        })
    }
}
