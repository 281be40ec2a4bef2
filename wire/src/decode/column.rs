//! One column of a table block: its null section and its values.

use super::table::Context;
use super::{Cell, DecodeError, Nulls, NullsIter, Values};
use crate::reader::Reader;
use crate::types::ColumnType;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// Its name; empty for the designated timestamp.
    pub name: &'a str,
    /// Its type.
    pub ty: ColumnType,
    /// Which rows have no value.
    pub nulls: Nulls<'a>,
    /// The values on the wire.
    pub values: Values<'a>,
    /// Where the column's data begins, in bytes from the start of the message.
    pub offset: usize,
    /// Bytes of the column's data, null section included.
    pub byte_len: usize,
}

impl<'a> Column<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        name: &'a str,
        ty: ColumnType,
        rows: usize,
        context: Context,
    ) -> Result<Self, DecodeError> {
        let offset = reader.at();
        let nulls = Nulls::read(reader, rows)?;
        let values = Values::read(reader, ty, nulls.present(), context)?;
        let byte_len = reader.at().saturating_sub(offset);
        Ok(Self {
            name,
            ty,
            nulls,
            values,
            offset,
            byte_len,
        })
    }

    /// One entry per row, `None` where the bitmap says NULL. Sentinels show as what they are.
    pub fn cells(&self) -> Cells<'a> {
        Cells {
            nulls: self.nulls.iter(),
            values: CellSource::new(self.values),
        }
    }
}

/// Iterator over the rows of a column.
#[derive(Debug)]
pub struct Cells<'a> {
    nulls: NullsIter<'a>,
    values: CellSource<'a>,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Option<Cell<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let null = self.nulls.next()?;
        Some(if null { None } else { self.values.next() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.nulls.size_hint()
    }
}

impl ExactSizeIterator for Cells<'_> {}

/// The present values as cells. Types without random access keep an iterator.
#[derive(Debug)]
enum CellSource<'a> {
    Symbols(super::SymbolIdsIter<'a>),
    Times(super::TimestampsIter<'a>),
    Doubles(super::ArraysIter<'a, f64>),
    Longs(super::ArraysIter<'a, i64>),
    Other { values: Values<'a>, at: usize },
}

impl<'a> CellSource<'a> {
    fn new(values: Values<'a>) -> Self {
        match values {
            Values::Symbol(ids) => Self::Symbols(ids.iter()),
            Values::Timestamp(times) | Values::TimestampNanos(times) => Self::Times(times.iter()),
            Values::DoubleArray(arrays) => Self::Doubles(arrays.iter()),
            Values::LongArray(arrays) => Self::Longs(arrays.iter()),
            other => Self::Other {
                values: other,
                at: 0,
            },
        }
    }

    fn next(&mut self) -> Option<Cell<'a>> {
        match self {
            Self::Symbols(ids) => ids.next().map(Cell::Symbol),
            Self::Times(times) => times.next().map(Cell::Time),
            Self::Doubles(arrays) => arrays.next().map(Cell::DoubleArray),
            Self::Longs(arrays) => arrays.next().map(Cell::LongArray),
            Self::Other { values, at } => {
                let index = *at;
                *at = at.saturating_add(1);
                indexed(values, index)
            }
        }
    }
}

fn indexed<'a>(values: &Values<'a>, at: usize) -> Option<Cell<'a>> {
    match values {
        Values::Boolean(values) => values.get(at).map(Cell::Boolean),
        Values::Byte(values) => values.get(at).map(|v| Cell::Integer(v.into())),
        Values::Short(values) => values.get(at).map(|v| Cell::Integer(v.into())),
        Values::Int(values) => values.get(at).map(|v| Cell::Integer(v.into())),
        Values::Long(values) => values.get(at).map(Cell::Integer),
        Values::Float(values) => values.get(at).map(Cell::Float),
        Values::Double(values) => values.get(at).map(Cell::Double),
        Values::Date(values) => values.get(at).map(Cell::Time),
        Values::Uuid(values) => values.get(at).map(Cell::Uuid),
        Values::Long256(values) => values.get(at).map(Cell::Long256),
        Values::Geohash(values) => values.get(at).map(|bits| Cell::Geohash {
            bits,
            precision: values.precision(),
            sentinel: bits == values.sentinel(),
        }),
        Values::Varchar(values) => {
            let bytes = values.as_binary().get(at)?;
            Some(Cell::Text(std::str::from_utf8(bytes).map_err(|_| bytes)))
        }
        Values::Binary(values) => values.get(at).map(Cell::Bytes),
        Values::Decimal(values) => values.get(at).map(|unscaled| Cell::Decimal {
            unscaled,
            scale: values.scale(),
        }),
        Values::Char(values) => values.get(at).map(Cell::Char),
        Values::Ipv4(values) => values.get(at).map(Cell::Ipv4),
        Values::Symbol(_)
        | Values::Timestamp(_)
        | Values::TimestampNanos(_)
        | Values::DoubleArray(_)
        | Values::LongArray(_) => None,
    }
}
