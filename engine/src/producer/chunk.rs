//! Whole columns of the caller's memory as a batch.

use std::ops::Range;

use forebay_wire::encode::{SliceColumn, Validity, Values};
use forebay_wire::names;
use forebay_wire::types::ColumnType;

use super::prepared::Symbol;
use super::row::check_length;
use super::table::{COLUMNS_MAX, ROWS_MAX};
use crate::error::Error;

/// Most dimensions of an array (protocol.md section 8).
const DIMS_MAX: usize = 32;
/// Longest dimension and most bytes of an array that clients send.
const DIM_MAX: u32 = 268_435_455;
const ARRAY_BYTES_MAX: usize = 512 << 20;
/// Longest symbol in bytes (protocol.md section 9).
const SYMBOL_BYTES_MAX: usize = 1 << 20;

/// A column's nulls: all rows hold a value, or a bitmap tells which do.
///
/// The bitmap has one bit per row, least significant first, 1 for a value and 0 for NULL, as in
/// Arrow: row r is bit `(offset + r) % 8` of byte `(offset + r) / 8`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nulls<'a>(pub(super) Option<Validity<'a>>);

impl<'a> Nulls<'a> {
    /// Every row holds a value.
    pub const NONE: Self = Self(None);

    /// As the bitmap says; bit `offset` is row 0.
    pub fn from_validity(bits: &'a [u8], offset: usize) -> Self {
        Self(Some(Validity::new(bits, offset)))
    }
}

/// Where a symbol column's texts come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Symbols<'a> {
    /// Ids of the producer, resolved by the caller.
    Handles(&'a [Symbol]),
    /// Row r is `dictionary[codes[r]]`.
    Codes {
        codes: &'a [u32],
        dictionary: &'a [&'a str],
    },
    /// Row r is `text[offsets[r]..offsets[r + 1]]`.
    Text { offsets: &'a [u32], text: &'a str },
}

/// A column as it was given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column<'a> {
    pub(super) name: &'a str,
    pub(super) slice: SliceColumn<'a>,
    /// For SYMBOL: `slice` gets its ids when the chunk is published.
    pub(super) symbols: Option<Symbols<'a>>,
}

/// Rows of one table as columns: slices of the caller's memory, which are read when the chunk is
/// published and copied once, into the ring.
///
/// All columns have the same number of rows, and the values of null rows are ignored. A chunk
/// larger than a frame is cut between rows.
///
/// ```no_run
/// use forebay::{Chunk, Engine, Nulls};
/// # fn main() -> Result<(), forebay::Error> {
/// # let engine = Engine::connect("ws::addr=localhost:9000;initial_connect_retry=async;")?;
/// let mut producer = engine.producer()?;
/// let (times, prices) = ([1_700_000_000_000_000_000_i64; 3], [1.0, 2.0, 3.0]);
/// let mut chunk = Chunk::new("trades");
/// chunk.symbol_codes("sym", &[0, 1, 0], &["BTC-USD", "ETH-USD"], Nulls::NONE)?;
/// chunk.f64("price", &prices, Nulls::NONE)?;
/// chunk.at_nanos(&times)?;
/// producer.publish_chunk(&chunk)?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Chunk<'a> {
    pub(super) table: &'a str,
    pub(super) columns: Vec<Column<'a>>,
    rows: Option<usize>,
    stamped: bool,
}

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

impl<'a> Chunk<'a> {
    /// A chunk of `table` without columns.
    pub fn new(table: &'a str) -> Self {
        Self {
            table,
            columns: Vec::new(),
            rows: None,
            stamped: false,
        }
    }

    /// Rows, once a column was added.
    pub fn rows(&self) -> usize {
        self.rows.unwrap_or(0)
    }

    /// Whether a designated timestamp was given.
    pub(super) fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Whether there is a column of this name, in whatever case.
    pub(super) fn has_column(&self, name: &str) -> bool {
        let mut names = self.columns.iter().map(|column| column.name);
        names.any(|column| column.eq_ignore_ascii_case(name))
    }

    pub(super) fn refused(&self, column: &str, reason: String) -> Error {
        Error::Row {
            table: self.table.to_owned(),
            column: column.to_owned(),
            reason,
        }
    }

    /// Adds a column after the checks that all columns share.
    fn add(
        &mut self,
        name: &'a str,
        ty: ColumnType,
        values: Values<'a>,
        nulls: Nulls<'a>,
        parameter: u8,
    ) -> Result<&mut Self, Error> {
        let slice = SliceColumn {
            ty,
            values,
            validity: nulls.0,
            parameter,
        };
        self.add_slice(name, slice, None)
    }

    pub(super) fn too_many_columns() -> String {
        format!("a table has at most {COLUMNS_MAX} columns")
    }

    fn add_slice(
        &mut self,
        name: &'a str,
        slice: SliceColumn<'a>,
        symbols: Option<Symbols<'a>>,
    ) -> Result<&mut Self, Error> {
        if let Err(error) = names::check_column(name) {
            return Err(self.refused(name, error.to_string()));
        }
        self.push(name, slice, symbols)
    }

    /// Adds a column whose name may be empty: the designated timestamp.
    fn push(
        &mut self,
        name: &'a str,
        slice: SliceColumn<'a>,
        symbols: Option<Symbols<'a>>,
    ) -> Result<&mut Self, Error> {
        let rows = slice.values.rows();
        self.check(name, rows, slice.validity)
            .map_err(|reason| self.refused(name, reason))?;
        self.rows = Some(rows);
        self.columns.push(Column {
            name,
            slice,
            symbols,
        });
        Ok(self)
    }

    fn check(&self, name: &str, rows: usize, validity: Option<Validity<'_>>) -> Result<(), String> {
        if self.columns.len() >= COLUMNS_MAX {
            return Err(Self::too_many_columns());
        }
        if let Some(twin) = self
            .columns
            .iter()
            .find(|column| column.name.eq_ignore_ascii_case(name))
        {
            return Err(format!("the chunk has column {:?} already", twin.name));
        }
        if let Some(first) = self.rows.filter(|first| *first != rows) {
            return Err(format!("{rows} rows where the first column has {first}"));
        }
        match validity {
            Some(validity) if validity.rows() < rows => {
                let known = validity.rows();
                Err(format!("the null bitmap tells of {known} of {rows} rows"))
            }
            _ => Ok(()),
        }
    }

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
        let valid = |row: usize| nulls.0.is_none_or(|v| row < v.rows() && v.is_valid(row));
        let wide =
            |(row, bits): (usize, &u64)| (bits >> precision != 0 && valid(row)).then_some(row);
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

    /// A DECIMAL64 column: `unscaled / 10^scale`, one scale (0 to 18) for all rows.
    pub fn dec64(
        &mut self,
        name: &'a str,
        unscaled: &'a [i64],
        scale: u8,
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        self.check_scale(name, ColumnType::Decimal64, scale)?;
        let values = Values::I64(unscaled);
        self.add(name, ColumnType::Decimal64, values, nulls, scale)
    }

    /// A DECIMAL128 column: two's complement, one scale (0 to 38) for all rows.
    pub fn dec128(
        &mut self,
        name: &'a str,
        unscaled: &'a [i128],
        scale: u8,
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        self.check_scale(name, ColumnType::Decimal128, scale)?;
        let values = Values::I128(unscaled);
        self.add(name, ColumnType::Decimal128, values, nulls, scale)
    }

    /// A DECIMAL256 column: 32 bytes of a two's complement each, least significant first, one
    /// scale (0 to 76) for all rows.
    pub fn dec256(
        &mut self,
        name: &'a str,
        unscaled: &'a [[u8; 32]],
        scale: u8,
        nulls: Nulls<'a>,
    ) -> Result<&mut Self, Error> {
        self.check_scale(name, ColumnType::Decimal256, scale)?;
        let values = Values::Wide(unscaled);
        self.add(name, ColumnType::Decimal256, values, nulls, scale)
    }

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
        let elements = array_elements(shape).map_err(|reason| self.refused(name, reason))?;
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
            .any(|pair| pair[1] - pair[0] > DIM_MAX / 4)
        {
            let reason = format!("a vector is longer than {} elements", DIM_MAX / 4);
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
            let valid = |row: usize| nulls.0.is_none_or(|v| row < v.rows() && v.is_valid(row));
            let bad =
                |(row, code): (usize, &u32)| (*code as usize >= known && valid(row)).then_some(row);
            if let Some(row) = codes.iter().enumerate().find_map(bad) {
                let code = codes[row];
                let reason = format!("row {row}: code {code}, the dictionary has {known} entries");
                return Err(self.refused(name, reason));
            }
        }
        for text in dictionary {
            self.check_symbol(name, text.len())?;
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
            self.check_symbol(name, (pair[1] - pair[0]) as usize)?;
        }
        let symbols = Symbols::Text { offsets, text };
        self.add_symbols(name, symbols, offsets.len() - 1, nulls)
    }

    fn check_symbol(&self, name: &str, bytes: usize) -> Result<(), Error> {
        if bytes > SYMBOL_BYTES_MAX {
            let reason = format!("a symbol of {bytes} bytes, at most {SYMBOL_BYTES_MAX}");
            return Err(self.refused(name, reason));
        }
        Ok(())
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
        self.push("", slice, None)?.stamped = true;
        Ok(self)
    }

    fn check_offsets(&self, name: &str, offsets: &[u32], bytes: usize) -> Result<(), Error> {
        let reason = match (offsets.first(), offsets.last()) {
            (None, _) | (_, None) => "no offsets: one more than rows is needed".to_owned(),
            (_, Some(last)) if *last as usize > bytes => {
                format!("offset {last} lies behind the {bytes} values")
            }
            _ if !offsets.is_sorted() => "offsets decrease".to_owned(),
            _ => return Ok(()),
        };
        Err(self.refused(name, reason))
    }

    fn check_text(&self, name: &str, offsets: &[u32], text: &str) -> Result<(), Error> {
        self.check_offsets(name, offsets, text.len())?;
        let inside = |offset: &&u32| !text.is_char_boundary(**offset as usize);
        if let Some(offset) = offsets.iter().find(inside) {
            let reason = format!("offset {offset} lies within a character");
            return Err(self.refused(name, reason));
        }
        Ok(())
    }

    /// What can only be judged of the whole chunk.
    pub(super) fn check_whole(&self, name_bytes_max: usize) -> Result<(), Error> {
        let refused = |reason: String| self.refused("", reason);
        names::check_table(self.table).map_err(|error| refused(error.to_string()))?;
        check_length(self.table, name_bytes_max).map_err(refused)?;
        for column in &self.columns {
            check_length(column.name, name_bytes_max)
                .map_err(|reason| self.refused(column.name, reason))?;
        }
        if self.columns.len() == usize::from(self.stamped) {
            return Err(refused("a row needs at least one column".to_owned()));
        }
        Ok(())
    }

    /// Longest run of rows that a block may hold.
    pub(super) fn fits_block(rows: &Range<usize>) -> bool {
        rows.len() <= ROWS_MAX
    }
}

fn array_elements(shape: &[u32]) -> Result<usize, String> {
    let rank = shape.len();
    if rank == 0 || rank > DIMS_MAX {
        return Err(format!("array has {rank} dimensions, it must have 1 to 32"));
    }
    let product = shape.iter().try_fold(1_usize, |product, length| {
        product.checked_mul(*length as usize)
    });
    match product {
        Some(elements)
            if elements <= ARRAY_BYTES_MAX / 8 && shape.iter().all(|length| *length <= DIM_MAX) =>
        {
            Ok(elements)
        }
        _ => Err(format!(
            "array of {shape:?} is larger than 268435455 per dimension or 512 MiB"
        )),
    }
}
