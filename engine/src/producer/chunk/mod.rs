//! Whole columns of the caller's memory as a batch.

mod columns;
mod publish;
mod stamps;

use std::ops::Range;

use forebay_wire::encode::{SliceColumn, Validity, Values};
use forebay_wire::names;
use forebay_wire::types::ColumnType;

use super::ids::Symbol;
use super::names::check_length;
use super::table::{COLUMNS_MAX, ROWS_MAX};
use crate::error::Error;

pub(super) use publish::Scratch;

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

    /// Whether a row holds a value; none behind the bitmap does.
    fn holds(&self, row: usize) -> bool {
        self.0
            .is_none_or(|validity| row < validity.rows() && validity.is_valid(row))
    }
}

/// Where a symbol column's texts come from.
#[derive(Debug, Clone, Copy)]
enum Symbols<'a> {
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
struct Column<'a> {
    name: &'a str,
    slice: SliceColumn<'a>,
    /// For SYMBOL: `slice` gets its ids when the chunk is published.
    symbols: Option<Symbols<'a>>,
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
    table: &'a str,
    columns: Vec<Column<'a>>,
    rows: Option<usize>,
}

impl<'a> Chunk<'a> {
    /// A chunk of `table` without columns.
    pub fn new(table: &'a str) -> Self {
        Self {
            table,
            columns: Vec::new(),
            rows: None,
        }
    }

    /// A chunk of `table` without columns in the memory of this one: a loop that hands the chunk on
    /// from batch to batch asks for no memory once it is warm.
    ///
    /// ```no_run
    /// # use forebay::{Chunk, Error, Nulls, Producer};
    /// # fn prices() -> Vec<f64> { vec![1.0] }
    /// # fn publish(producer: &mut Producer) -> Result<(), Error> {
    /// let mut spare = Chunk::new("trades");
    /// for _ in 0..3 {
    ///     let prices = prices();
    ///     let mut chunk = spare.emptied("trades");
    ///     chunk.f64("price", &prices, Nulls::NONE)?;
    ///     producer.publish_chunk(&chunk)?;
    ///     spare = chunk.emptied("trades");
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn emptied(mut self, table: &str) -> Chunk<'_> {
        self.columns.clear();
        // An empty list of one lifetime becomes one of another: `collect` keeps its memory.
        let columns = self.columns.into_iter();
        let columns = columns.map(|_| unreachable!("the list was cleared"));
        Chunk {
            table,
            columns: columns.collect(),
            rows: None,
        }
    }

    /// Rows, once a column was added.
    pub fn rows(&self) -> usize {
        self.rows.unwrap_or(0)
    }

    /// The column of designated timestamps, if they were given.
    fn designated(&self) -> Option<&Column<'a>> {
        self.column("")
    }

    /// The column of this name, in whatever case.
    fn column(&self, name: &str) -> Option<&Column<'a>> {
        let mut columns = self.columns.iter();
        columns.find(|column| column.name.eq_ignore_ascii_case(name))
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

    fn too_many_columns() -> String {
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
        if let Some(twin) = self.column(name) {
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
    fn check_whole(&self, name_bytes_max: usize) -> Result<(), Error> {
        let refused = |reason: String| self.refused("", reason);
        names::check_table(self.table).map_err(|error| refused(error.to_string()))?;
        check_length(self.table, name_bytes_max).map_err(refused)?;
        for column in &self.columns {
            check_length(column.name, name_bytes_max)
                .map_err(|reason| self.refused(column.name, reason))?;
        }
        if self.columns.len() == usize::from(self.designated().is_some()) {
            return Err(refused("a row needs at least one column".to_owned()));
        }
        Ok(())
    }

    /// Longest run of rows that a block may hold.
    fn fits_block(rows: &Range<usize>) -> bool {
        rows.len() <= ROWS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::{Chunk, Nulls};

    #[test]
    fn an_emptied_chunk_has_the_memory_of_the_other_and_nothing_of_its_columns() {
        let (mut spare, mut places) = (Chunk::new("a"), Vec::new());
        for table in ["b", "c"] {
            let values = vec![1_i64; 3];
            let mut chunk = spare.emptied(table);
            assert_eq!((chunk.table, chunk.rows()), (table, 0));
            for name in ["v", "w", "x", "y", "z"] {
                chunk.i64(name, &values, Nulls::NONE).unwrap();
            }
            assert_eq!((chunk.rows(), chunk.columns.len()), (3, 5));
            spare = chunk.emptied("a");
            assert!(spare.columns.is_empty());
            places.push((spare.columns.as_ptr(), spare.columns.capacity()));
        }
        assert_eq!(places[0], places[1]);
    }
}
