//! A chunk's columns: one call per type.

use forebay_wire::encode::{ARRAY_DIM_MAX, SliceColumn, Values, array_elements};
use forebay_wire::types::ColumnType;

use super::{Chunk, Nulls, Symbols};
use crate::error::Error;
use crate::producer::ids::Symbol;
use crate::producer::names::check_symbol;

macro_rules! column {
    ($(#[$doc:meta])* $name:ident($ty:ty) $column:ident $values:ident) => {
        $(#[$doc])*
        pub fn $name(
            &mut self,
            name: &'a str,
            values: &'a [$ty],
            nulls: Nulls<'a>,
        ) -> Result<&mut Self, Error> {
            self.add(name, ColumnType::$column, Values::$values(values), nulls, 0)
        }
    };
}

macro_rules! decimal {
    ($(#[$doc:meta])* $name:ident($ty:ty) $column:ident $values:ident) => {
        $(#[$doc])*
        pub fn $name(
            &mut self,
            name: &'a str,
            unscaled: &'a [$ty],
            scale: u8,
            nulls: Nulls<'a>,
        ) -> Result<&mut Self, Error> {
            let (ty, values) = (ColumnType::$column, Values::$values(unscaled));
            self.check_scale(name, ty, scale)?;
            self.add(name, ty, values, nulls, scale)
        }
    };
}

impl<'a> Chunk<'a> {
    column!(
        /// A BOOLEAN column.
        bool(bool) Boolean Bool);
    column!(
        /// A BYTE column.
        i8(i8) Byte I8);
    column!(
        /// A SHORT column.
        i16(i16) Short I16);
    column!(
        /// An INT column. `i32::MIN` is stored as NULL.
        i32(i32) Int I32);
    column!(
        /// A LONG column. `i64::MIN` is stored as NULL.
        i64(i64) Long I64);
    column!(
        /// A FLOAT column. NaN is stored as NULL.
        f32(f32) Float F32);
    column!(
        /// A DOUBLE column. NaN is stored as NULL.
        f64(f64) Double F64);
    column!(
        /// A CHAR column: UTF-16 code units.
        char(u16) Char U16);
    column!(
        /// A DATE column: milliseconds since the Unix epoch.
        date(i64) Date I64);
    column!(
        /// A TIMESTAMP column that is not the designated one: microseconds since the Unix epoch.
        ts_micros(i64) Timestamp I64);
    column!(
        /// A `TIMESTAMP_NANOS` column that is not the designated one: nanoseconds since the epoch.
        ts_nanos(i64) TimestampNanos I64);
    column!(
        /// A UUID column: 128-bit numbers.
        uuid(u128) Uuid U128);
    column!(
        /// A LONG256 column: 32 bytes each, least significant first.
        long256([u8; 32]) Long256 Wide);
    column!(
        /// An IPv4 column: addresses as numbers. 0 is stored as NULL.
        ipv4(u32) Ipv4 U32);

    /// A BOOLEAN column of bits, least significant first; row 0 is bit `offset`.
    pub fn bits(
        &mut self,
        name: &'a str,
        bits: &'a [u8],
        offset: usize,
        rows: usize,
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        if offset
            .checked_add(rows)
            .is_none_or(|end| end > bits.len().saturating_mul(8))
        {
            let reason = format!("{} bytes of bits do not hold {rows} rows", bits.len());
            return Err(self.refused(name, reason));
        }
        let values = Values::Bits { bits, offset, rows };
        self.add(name, ColumnType::Boolean, values, nulls, 0)
    }

    /// A VARCHAR column: row r is `text[offsets[r]..offsets[r + 1]]`, which must begin and end
    /// between characters.
    pub fn text(
        &mut self,
        name: &'a str,
        offsets: &'a [u32],
        text: &'a str,
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        self.check_text(name, offsets, text)?;
        let bytes = text.as_bytes();
        let values = Values::Bytes { offsets, bytes };
        self.add(name, ColumnType::Varchar, values, nulls, 0)
    }

    /// A BINARY column: row r is `bytes[offsets[r]..offsets[r + 1]]`.
    pub fn binary(
        &mut self,
        name: &'a str,
        offsets: &'a [u32],
        bytes: &'a [u8],
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        self.check_offsets(name, offsets, bytes.len())?;
        let values = Values::Bytes { offsets, bytes };
        self.add(name, ColumnType::Binary, values, nulls, 0)
    }

    /// A GEOHASH column of one precision (1 to 60 bits).
    pub fn geohash(
        &mut self,
        name: &'a str,
        values: &'a [u64],
        precision: u8,
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        if !(1..=60).contains(&precision) {
            let reason = format!("geohash precision is {precision} bits, it must be 1 to 60");
            return Err(self.refused(name, reason));
        }
        let wide = |(row, bits): (usize, &u64)| {
            (bits >> precision != 0 && nulls.holds(row)).then_some(row)
        };
        if let Some(row) = values.iter().enumerate().find_map(wide) {
            let reason = format!(
                "row {row}: {:#x} does not fit {precision} bits",
                values[row]
            );
            return Err(self.refused(name, reason));
        }
        let values = Values::Geohash(values);
        self.add(name, ColumnType::Geohash, values, nulls, precision)
    }

    decimal!(
        /// A DECIMAL64 column: `unscaled / 10^scale`, one scale (0 to 18) for all rows.
        dec64(i64) Decimal64 I64);
    decimal!(
        /// A DECIMAL128 column: two's complement, one scale (0 to 38) for all rows.
        dec128(i128) Decimal128 I128);
    decimal!(
        /// A DECIMAL256 column: 32 bytes of a two's complement each, least significant first, one
        /// scale (0 to 76) for all rows.
        dec256([u8; 32]) Decimal256 Wide);

    fn check_scale(&self, name: &str, ty: ColumnType, scale: u8) -> Result<(), Error> {
        let most = ty.decimal_limits().map_or(0, |limits| limits.1);
        if scale > most {
            let reason = format!("decimal scale is {scale}, the type takes at most {most}");
            return Err(self.refused(name, reason));
        }
        Ok(())
    }

    /// A `DOUBLE_ARRAY` column whose rows are arrays of one shape (outermost dimension first),
    /// their elements behind each other, row-major. `rows` only matters for a shape without
    /// elements.
    pub fn arrays(
        &mut self,
        name: &'a str,
        shape: &'a [u32],
        values: &'a [f64],
        rows: usize,
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        let elements = array_elements(shape.iter().map(|length| *length as usize))
            .map_err(|error| self.refused(name, error.to_string()))?;
        if elements.checked_mul(rows) != Some(values.len()) {
            let given = values.len();
            let reason = format!("{given} elements do not fill {rows} arrays of {shape:?}");
            return Err(self.refused(name, reason));
        }
        let values = Values::Arrays {
            shape,
            values,
            rows,
        };
        self.add(name, ColumnType::DoubleArray, values, nulls, 0)
    }

    /// A `DOUBLE_ARRAY` column whose rows are vectors: row r is `values[offsets[r]..offsets[r + 1]]`.
    pub fn vectors(
        &mut self,
        name: &'a str,
        offsets: &'a [u32],
        values: &'a [f64],
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        self.check_offsets(name, offsets, values.len())?;
        if offsets
            .windows(2)
            .any(|pair| (pair[1] - pair[0]) as usize > ARRAY_DIM_MAX / 4)
        {
            let reason = format!("a vector is longer than {} elements", ARRAY_DIM_MAX / 4);
            return Err(self.refused(name, reason));
        }
        let values = Values::Vectors { offsets, values };
        self.add(name, ColumnType::DoubleArray, values, nulls, 0)
    }

    /// A SYMBOL column of handles from [`Producer::intern`](crate::Producer::intern): the fastest
    /// way. They must come from the producer that publishes the chunk.
    pub fn symbols(
        &mut self,
        name: &'a str,
        handles: &'a [Symbol],
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        self.add_symbols(name, Symbols::Handles(handles), handles.len(), nulls)
    }

    /// A SYMBOL column: row r is `dictionary[codes[r]]`.
    pub fn symbol_codes(
        &mut self,
        name: &'a str,
        codes: &'a [u32],
        dictionary: &'a [&'a str],
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        let known = dictionary.len();
        // One pass without branches, for almost always nothing is wrong.
        let largest = codes.iter().copied().max().unwrap_or(0);
        if largest as usize >= known {
            let bad = |(row, code): (usize, &u32)| {
                (*code as usize >= known && nulls.holds(row)).then_some(row)
            };
            if let Some(row) = codes.iter().enumerate().find_map(bad) {
                let code = codes[row];
                let reason = format!("row {row}: code {code}, the dictionary has {known} entries");
                return Err(self.refused(name, reason));
            }
        }
        for text in dictionary {
            check_symbol(text.len()).map_err(|reason| self.refused(name, reason))?;
        }
        let symbols = Symbols::Codes { codes, dictionary };
        self.add_symbols(name, symbols, codes.len(), nulls)
    }

    /// A SYMBOL column: row r is `text[offsets[r]..offsets[r + 1]]`.
    pub fn symbol_text(
        &mut self,
        name: &'a str,
        offsets: &'a [u32],
        text: &'a str,
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        self.check_text(name, offsets, text)?;
        for pair in offsets.windows(2) {
            check_symbol((pair[1] - pair[0]) as usize)
                .map_err(|reason| self.refused(name, reason))?;
        }
        let symbols = Symbols::Text { offsets, text };
        self.add_symbols(name, symbols, offsets.len() - 1, nulls)
    }

    fn add_symbols(
        &mut self,
        name: &'a str,
        symbols: Symbols<'a>,
        rows: usize,
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        // A placeholder of the right length until the ids are known.
        let values = Values::Bits {
            bits: &[],
            offset: 0,
            rows,
        };
        let slice = SliceColumn {
            ty: ColumnType::Symbol,
            values,
            validity: nulls.0,
            parameter: 0,
        };
        self.add_slice(name, slice, Some(symbols))
    }

    /// The designated timestamps in microseconds; none may lie before 1970.
    pub fn at_micros(&mut self, values: &'a [i64]) -> Result<&mut Self, Error> {
        self.stamp(ColumnType::Timestamp, values)
    }

    /// The designated timestamps in nanoseconds; none may lie before 1970.
    pub fn at_nanos(&mut self, values: &'a [i64]) -> Result<&mut Self, Error> {
        self.stamp(ColumnType::TimestampNanos, values)
    }

    fn stamp(&mut self, ty: ColumnType, values: &'a [i64]) -> Result<&mut Self, Error> {
        if let Some(row) = values.iter().position(|value| *value < 0) {
            let value = values[row];
            let reason = format!("row {row}: designated timestamp {value} lies before 1970");
            return Err(self.refused("", reason));
        }
        let slice = SliceColumn {
            ty,
            values: Values::I64(values),
            validity: None,
            parameter: 0,
        };
        self.push("", slice, None)
    }
}
