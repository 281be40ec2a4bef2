//! The row's values by column name: one call per type, and its `_opt` form where `None` is NULL.

use std::net::Ipv4Addr;

use forebay_wire::encode::ColumnBuffer;
use forebay_wire::types::ColumnType;

use super::names::check_symbol;
use super::timestamp::Timestamp;
use super::{Producer, Symbols};
use crate::error::Error;

macro_rules! setter {
    ($(#[$doc:meta])* $name:ident $opt:ident($arg:ident: $ty:ty) $column:ident, cell $cell:expr,
     $push:expr) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self, name: &str, $arg: $ty) -> Result<&mut Self, Error> {
            let push = $push;
            self.set_cell(name, ColumnType::$column, $cell, move |buffer| push(buffer, $arg))
        }

        setter!($(#[$doc])* or $name $opt($arg: $ty) $column);
    };
    ($(#[$doc:meta])* $name:ident $opt:ident($($arg:ident: $ty:ty),*) $column:ident, try $push:expr) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self, name: &str, $($arg: $ty),*) -> Result<&mut Self, Error> {
            let push = $push;
            self.set(name, ColumnType::$column, None, move |buffer| push(buffer, $($arg),*))
        }

        setter!($(#[$doc])* or $name $opt($($arg: $ty),*) $column);
    };
    ($(#[$doc:meta])* $name:ident $opt:ident($($arg:ident: $ty:ty),*) $column:ident, $push:expr) => {
        setter!(
            $(#[$doc])* $name $opt($($arg: $ty),*) $column,
            try |buffer: &mut ColumnBuffer, $($arg: $ty),*| { ($push)(buffer, $($arg),*); Ok(()) });
    };
    ($(#[$doc:meta])* or $name:ident $opt:ident($($arg:ident: $ty:ty),*) $column:ident) => {
        $(#[$doc])*
        ///
        /// `None` is NULL.
        #[inline]
        #[allow(unused_parens, reason = "a tuple where there are several arguments")]
        pub fn $opt(&mut self, name: &str, value: Option<($($ty),*)>) -> Result<&mut Self, Error> {
            match value {
                Some(($($arg),*)) => self.$name(name, $($arg),*),
                None => self.null(name, ColumnType::$column),
            }
        }
    };
}

impl Producer {
    /// A NULL, in a column that is made if this row is the first to name it.
    fn null(&mut self, name: &str, ty: ColumnType) -> Result<&mut Self, Error> {
        self.set(name, ty, None, |buffer| {
            buffer.push_null();
            Ok(())
        })
    }

    /// A SYMBOL: text that repeats, stored once. At most 1 MiB.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "as of set_cell, which has the name from here"
    )]
    pub fn symbol(&mut self, name: &str, value: &str) -> Result<&mut Self, Error> {
        if !self.row_open() {
            return Err(Error::Misuse("a column before table()"));
        }
        match self.desk.symbols.cell(value) {
            Some(id) => self.set_id(name, id),
            None => self.set_new_symbol(name, value),
        }
    }

    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "as of set_cell, which has the name from here"
    )]
    fn set_id(&mut self, name: &str, id: u32) -> Result<&mut Self, Error> {
        self.set_cell(name, ColumnType::Symbol, id.into(), move |buffer| {
            buffer.push_symbol(id);
        })
    }

    /// Takes up a symbol that is new to this producer as a cell of the open row.
    #[cold]
    fn set_new_symbol(&mut self, column: &str, value: &str) -> Result<&mut Self, Error> {
        if let Err(reason) = check_symbol(value.len()) {
            return Err(self.refuse_row(column, reason));
        }
        let Some(id) = self.new_symbol(|symbols| symbols.add(value)) else {
            return Err(self.refuse_symbol(column));
        };
        self.desk.symbols.mark_used(id);
        self.set_id(column, id)
    }

    /// Leaves the row out: the slot has no room for its symbol.
    #[cold]
    pub(super) fn refuse_symbol(&mut self, column: &str) -> Error {
        self.refuse_row(column, String::new());
        self.symbols_full(column)
    }

    /// What a symbol of the present table is told that finds no room.
    #[cold]
    pub(super) fn symbols_full(&self, column: &str) -> Error {
        Error::SymbolsFull {
            table: self.desk.tables[self.desk.current].name.clone(),
            column: column.to_owned(),
            symbols_max: self.options.symbols_max,
        }
    }

    /// Takes up a symbol that is new to this producer; `None` if the slot has no room for it.
    #[cold]
    pub(super) fn new_symbol(
        &mut self,
        add: impl FnOnce(&mut Symbols) -> Option<u32>,
    ) -> Option<u32> {
        // First what was taken: its symbols are among those of the slot then.
        let pending = self.desk.symbols.pending(self.desk.lane.taken()) as u64;
        let slot = self.desk.gate.counters.symbols.get();
        if slot + pending < self.options.symbols_max.into()
            && let Some(id) = add(&mut self.desk.symbols)
        {
            return Some(id);
        }
        self.desk.gate.lack_symbols();
        None
    }

    /// A SYMBOL; `None` is NULL.
    #[inline]
    pub fn symbol_opt(&mut self, name: &str, value: Option<&str>) -> Result<&mut Self, Error> {
        match value {
            Some(value) => self.symbol(name, value),
            None => self.null(name, ColumnType::Symbol),
        }
    }

    setter!(
        /// A BOOLEAN. There is no NULL in storage: it becomes false.
        column_bool column_bool_opt(value: bool) Boolean, cell value.into(),
        ColumnBuffer::push_bool);
    setter!(
        /// A BYTE. There is no NULL in storage: it becomes 0.
        column_i8 column_i8_opt(value: i8) Byte, cell value.cast_unsigned().into(),
        ColumnBuffer::push_i8);
    setter!(
        /// A SHORT. There is no NULL in storage: it becomes 0.
        column_i16 column_i16_opt(value: i16) Short, cell value.cast_unsigned().into(),
        ColumnBuffer::push_i16);
    setter!(
        /// An INT. `i32::MIN` is stored as NULL.
        column_i32 column_i32_opt(value: i32) Int, cell value.cast_unsigned().into(),
        ColumnBuffer::push_i32);
    setter!(
        /// A LONG. `i64::MIN` is stored as NULL.
        column_i64 column_i64_opt(value: i64) Long, cell value.cast_unsigned(),
        ColumnBuffer::push_i64);
    setter!(
        /// A FLOAT. NaN is stored as NULL.
        column_f32 column_f32_opt(value: f32) Float, cell value.to_bits().into(),
        ColumnBuffer::push_f32);
    setter!(
        /// A DOUBLE. NaN is stored as NULL.
        column_f64 column_f64_opt(value: f64) Double, cell value.to_bits(),
        ColumnBuffer::push_f64);
    setter!(
        /// A VARCHAR.
        column_str column_str_opt(value: &str) Varchar, ColumnBuffer::push_str);
    setter!(
        /// A BINARY.
        column_binary column_binary_opt(value: &[u8]) Binary, ColumnBuffer::push_bytes);
    setter!(
        /// A CHAR: one UTF-16 code unit. There is no NULL in storage: it becomes 0.
        column_char column_char_opt(value: u16) Char, cell value.into(),
        ColumnBuffer::push_char);
    setter!(
        /// A DATE: milliseconds since the Unix epoch.
        column_date column_date_opt(millis: i64) Date, cell millis.cast_unsigned(),
        ColumnBuffer::push_i64);
    setter!(
        /// A UUID by its more and its less significant half.
        column_uuid column_uuid_opt(hi: u64, lo: u64) Uuid,
        |b: &mut ColumnBuffer, hi, lo| b.push_uuid(lo, hi));
    setter!(
        /// A LONG256, least significant word first.
        column_long256 column_long256_opt(words: [u64; 4]) Long256, ColumnBuffer::push_long256);
    setter!(
        /// An IPv4 address. 0.0.0.0 is stored as NULL.
        column_ipv4 column_ipv4_opt(value: Ipv4Addr) Ipv4, cell u32::from(value).into(),
        |b: &mut ColumnBuffer, v: Ipv4Addr| b.push_ipv4(u32::from(v)));
    setter!(
        /// A TIMESTAMP column that is not the designated one: microseconds since the Unix epoch.
        column_ts_micros column_ts_micros_opt(micros: i64) Timestamp, cell micros.cast_unsigned(),
        ColumnBuffer::push_i64);
    setter!(
        /// A `TIMESTAMP_NANOS` column that is not the designated one: nanoseconds since the Unix
        /// epoch.
        column_ts_nanos column_ts_nanos_opt(nanos: i64) TimestampNanos, cell nanos.cast_unsigned(),
        ColumnBuffer::push_i64);
    setter!(
        /// A GEOHASH of `precision` bits (1 to 60); one precision per column and batch.
        column_geohash column_geohash_opt(bits: u64, precision: u8) Geohash,
        try ColumnBuffer::push_geohash);
    setter!(
        /// A DECIMAL64: `unscaled / 10^scale`.
        column_dec64 column_dec64_opt(unscaled: i64, scale: u8) Decimal64,
        try |b: &mut ColumnBuffer, unscaled, scale| b.push_decimal(i128::from(unscaled), scale));
    setter!(
        /// A DECIMAL128: `unscaled / 10^scale`.
        column_dec128 column_dec128_opt(unscaled: i128, scale: u8) Decimal128,
        try |b: &mut ColumnBuffer, unscaled: i128, scale| b.push_decimal(unscaled, scale));
    setter!(
        /// A DECIMAL256: `unscaled / 10^scale`, the unscaled number as 32 little-endian bytes of a
        /// two's complement.
        column_dec256 column_dec256_opt(unscaled: [u8; 32], scale: u8) Decimal256,
        try |b: &mut ColumnBuffer, unscaled: [u8; 32], scale| b.push_decimal(unscaled, scale));
    setter!(
    /// A `DOUBLE_ARRAY`: the length of each dimension, outermost first, and the elements in
    /// row-major order.
    column_arr column_arr_opt(shape: &[usize], values: &[f64]) DoubleArray,
    try |b: &mut ColumnBuffer, shape: &[usize], values: &[f64]| {
        b.push_double_array(shape, values.iter().copied())
    });

    /// A timestamp column that is not the designated one, in the unit of the value's type.
    #[inline]
    pub fn column_ts(
        &mut self,
        name: &str,
        value: impl Into<Timestamp>,
    ) -> Result<&mut Self, Error> {
        match value.into() {
            Timestamp::Micros(micros) => self.column_ts_micros(name, micros),
            Timestamp::Nanos(nanos) => self.column_ts_nanos(name, nanos),
        }
    }
}
