//! The row API: `table`, then symbols and columns in any order, then `at` or `at_now`.
//!
//! A value that is refused takes its row with it: the row is left out, the batch stays as it was.

use std::net::Ipv4Addr;

use forebay_wire::encode::{ColumnBuffer, PushError};
use forebay_wire::names;
use forebay_wire::types::ColumnType;

use super::Producer;
use super::names::same;
use super::table::Table;
use super::timestamp::Timestamp;
use crate::error::Error;

/// Most tables of a message (protocol.md section 4.1).
const TABLES_MAX: usize = 65_535;
/// Longest symbol in bytes (protocol.md section 9).
pub(super) const SYMBOL_BYTES_MAX: usize = 1 << 20;

macro_rules! setter {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) $column:ident, $push:expr) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self, name: &str, $($arg: $ty),*) -> Result<&mut Self, Error> {
            let push = $push;
            self.set(name, ColumnType::$column, move |buffer| { push(buffer, $($arg),*); Ok(()) })
        }
    };
}

impl Producer {
    /// Begins a row of `name`. A row begun before and not completed is an error.
    #[inline]
    pub fn table(&mut self, name: &str) -> Result<&mut Self, Error> {
        if self.row_open {
            return Err(Error::Misuse(
                "table() while a row is open: call at(), at_now() or \
                                      discard_row() first",
            ));
        }
        let again = self
            .tables
            .get(self.current)
            .is_some_and(|table| same(&table.name, name));
        if !again {
            self.switch_table(name)?;
        }
        self.tables[self.current].begin_row();
        self.symbol_mark = self.symbols.mark();
        self.row_open = true;
        Ok(self)
    }

    #[cold]
    pub(super) fn switch_table(&mut self, name: &str) -> Result<(), Error> {
        if let Some(index) = self.tables.iter().position(|table| same(&table.name, name)) {
            self.current = index;
            return Ok(());
        }
        let refused = |reason: String| Error::Row {
            table: name.to_owned(),
            column: String::new(),
            reason,
        };
        names::check_table(name).map_err(|error| refused(error.to_string()))?;
        check_length(name, self.options.name_bytes_max).map_err(refused)?;
        if self.tables.len() >= TABLES_MAX {
            return Err(refused(format!(
                "a producer holds at most {TABLES_MAX} tables"
            )));
        }
        self.tables.push(Table::new(name));
        self.current = self.tables.len() - 1;
        Ok(())
    }

    /// Finds the row's column and pushes a value to it.
    #[inline]
    fn set(
        &mut self,
        name: &str,
        ty: ColumnType,
        push: impl FnOnce(&mut ColumnBuffer) -> Result<(), PushError>,
    ) -> Result<&mut Self, Error> {
        if !self.row_open {
            return Err(Error::Misuse("a column before table()"));
        }
        let limit = self.options.name_bytes_max;
        let table = &mut self.tables[self.current];
        let check = |name: &str| {
            names::check_column(name).map_err(|error| error.to_string())?;
            check_length(name, limit)
        };
        let outcome = table
            .column(name, ty, check)
            .and_then(|buffer| push(buffer).map_err(|error| error.to_string()));
        match outcome {
            Ok(()) => Ok(self),
            Err(reason) => Err(self.refuse_row(name, reason)),
        }
    }

    /// Leaves the row out and says why.
    #[cold]
    pub(super) fn refuse_row(&mut self, column: &str, reason: String) -> Error {
        let table = self.tables[self.current].name.clone();
        self.discard_row();
        Error::Row {
            table,
            column: column.to_owned(),
            reason,
        }
    }

    /// Takes the row under construction back, if there is one.
    pub fn discard_row(&mut self) {
        if self.row_open {
            self.tables[self.current].drop_row();
            self.symbols.rewind(self.symbol_mark);
            self.row_open = false;
        }
    }

    /// Forgets all buffered rows, the one under construction included. Their columns stay known.
    pub fn clear(&mut self) {
        self.discard_row();
        self.start_batch();
    }

    /// A SYMBOL: text that repeats, stored once. At most 1 MiB.
    #[inline]
    pub fn symbol(&mut self, name: &str, value: &str) -> Result<&mut Self, Error> {
        if !self.row_open {
            return Err(Error::Misuse("a column before table()"));
        }
        if value.len() > SYMBOL_BYTES_MAX {
            let reason = format!(
                "a symbol of {} bytes, at most {SYMBOL_BYTES_MAX}",
                value.len()
            );
            return Err(self.refuse_row(name, reason));
        }
        let Some(id) = self.symbols.cell(value) else {
            return Err(self.refuse_row(name, "this producer holds 1,000,000 symbols".to_owned()));
        };
        self.set(name, ColumnType::Symbol, |buffer| {
            buffer.push_symbol(id);
            Ok(())
        })
    }

    setter!(
        /// A BOOLEAN.
        column_bool(value: bool) Boolean, ColumnBuffer::push_bool);
    setter!(
        /// A BYTE.
        column_i8(value: i8) Byte, ColumnBuffer::push_i8);
    setter!(
        /// A SHORT.
        column_i16(value: i16) Short, ColumnBuffer::push_i16);
    setter!(
        /// An INT. `i32::MIN` is stored as NULL.
        column_i32(value: i32) Int, ColumnBuffer::push_i32);
    setter!(
        /// A LONG. `i64::MIN` is stored as NULL.
        column_i64(value: i64) Long, ColumnBuffer::push_i64);
    setter!(
        /// A FLOAT. NaN is stored as NULL.
        column_f32(value: f32) Float, ColumnBuffer::push_f32);
    setter!(
        /// A DOUBLE. NaN is stored as NULL.
        column_f64(value: f64) Double, ColumnBuffer::push_f64);
    setter!(
        /// A VARCHAR.
        column_str(value: &str) Varchar, ColumnBuffer::push_str);
    setter!(
        /// A BINARY.
        column_binary(value: &[u8]) Binary, ColumnBuffer::push_bytes);
    setter!(
        /// A CHAR: one UTF-16 code unit.
        column_char(value: u16) Char, ColumnBuffer::push_char);
    setter!(
        /// A DATE: milliseconds since the Unix epoch.
        column_date(millis: i64) Date, ColumnBuffer::push_i64);
    setter!(
        /// A UUID by its more and its less significant half.
        column_uuid(hi: u64, lo: u64) Uuid, |b: &mut ColumnBuffer, hi, lo| b.push_uuid(lo, hi));
    setter!(
        /// A LONG256, least significant word first.
        column_long256(words: [u64; 4]) Long256, ColumnBuffer::push_long256);
    setter!(
        /// An IPv4 address. 0.0.0.0 is stored as NULL.
        column_ipv4(value: Ipv4Addr) Ipv4,
        |b: &mut ColumnBuffer, v: Ipv4Addr| b.push_ipv4(u32::from(v)));
    setter!(
        /// A TIMESTAMP column that is not the designated one: microseconds since the Unix epoch.
        column_ts_micros(micros: i64) Timestamp, ColumnBuffer::push_i64);
    setter!(
        /// A `TIMESTAMP_NANOS` column that is not the designated one: nanoseconds since the Unix
        /// epoch.
        column_ts_nanos(nanos: i64) TimestampNanos, ColumnBuffer::push_i64);

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

    /// A GEOHASH of `precision` bits (1 to 60); one precision per column and batch.
    pub fn column_geohash(
        &mut self,
        name: &str,
        bits: u64,
        precision: u8,
    ) -> Result<&mut Self, Error> {
        self.set(name, ColumnType::Geohash, |buffer| {
            buffer.push_geohash(bits, precision)
        })
    }

    /// A DECIMAL64: `unscaled / 10^scale`.
    pub fn column_dec64(
        &mut self,
        name: &str,
        unscaled: i64,
        scale: u8,
    ) -> Result<&mut Self, Error> {
        self.set(name, ColumnType::Decimal64, |b| {
            b.push_decimal(i128::from(unscaled), scale)
        })
    }

    /// A DECIMAL128: `unscaled / 10^scale`.
    pub fn column_dec128(
        &mut self,
        name: &str,
        unscaled: i128,
        scale: u8,
    ) -> Result<&mut Self, Error> {
        self.set(name, ColumnType::Decimal128, |buffer| {
            buffer.push_decimal(unscaled, scale)
        })
    }

    /// A DECIMAL256: `unscaled / 10^scale`, the unscaled number as 32 little-endian bytes of a
    /// two's complement.
    pub fn column_dec256(
        &mut self,
        name: &str,
        unscaled: [u8; 32],
        scale: u8,
    ) -> Result<&mut Self, Error> {
        self.set(name, ColumnType::Decimal256, |buffer| {
            buffer.push_decimal(unscaled, scale)
        })
    }

    /// A `DOUBLE_ARRAY`: the length of each dimension, outermost first, and the elements in
    /// row-major order.
    pub fn column_arr(
        &mut self,
        name: &str,
        shape: &[usize],
        values: &[f64],
    ) -> Result<&mut Self, Error> {
        self.set(name, ColumnType::DoubleArray, |buffer| {
            buffer.push_double_array(shape, values.iter().copied())
        })
    }

    /// Completes the row with its designated timestamp, which must not lie before 1970.
    #[inline]
    pub fn at(&mut self, timestamp: impl Into<Timestamp>) -> Result<(), Error> {
        let (ty, value) = match timestamp.into() {
            Timestamp::Micros(value) => (ColumnType::Timestamp, value),
            Timestamp::Nanos(value) => (ColumnType::TimestampNanos, value),
        };
        if !self.row_open {
            return Err(Error::Misuse("at() before table()"));
        }
        if value < 0 {
            let reason = format!("designated timestamp {value} lies before 1970");
            return Err(self.refuse_row("", reason));
        }
        if self.tables[self.current].columns_set() == 0 {
            return Err(self.refuse_row("", "a row needs at least one column".to_owned()));
        }
        let outcome = self.tables[self.current]
            .column("", ty, |_| Ok(()))
            .map(|buffer| buffer.push_i64(value));
        match outcome {
            Ok(()) => self.end_row(),
            Err(reason) => Err(self.refuse_row("", reason)),
        }
    }

    /// Completes the row; the server stamps it when it arrives.
    pub fn at_now(&mut self) -> Result<(), Error> {
        if !self.row_open {
            return Err(Error::Misuse("at_now() before table()"));
        }
        if self.tables[self.current].columns_set() == 0 {
            return Err(self.refuse_row("", "a row needs at least one column".to_owned()));
        }
        self.end_row()
    }

    #[inline]
    fn end_row(&mut self) -> Result<(), Error> {
        match self.tables[self.current].end_row() {
            Ok(()) => {
                self.row_open = false;
                self.rows += 1;
                Ok(())
            }
            Err(reason) => Err(self.refuse_row("", reason)),
        }
    }
}

pub(super) fn check_length(name: &str, limit: usize) -> Result<(), String> {
    if name.len() > limit {
        return Err(format!(
            "a name of {} bytes, at most {limit} (max_name_len)",
            name.len()
        ));
    }
    Ok(())
}
