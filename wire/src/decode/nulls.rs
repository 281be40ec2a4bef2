//! The null section in front of every column's values: a flag byte, then maybe a bitmap.

use super::{DecodeError, Reason};
use crate::reader::Reader;

/// Which rows of a column have no value on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nulls<'a> {
    bitmap: Option<&'a [u8]>,
    rows: usize,
    count: usize,
}

impl<'a> Nulls<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, rows: usize) -> Result<Self, DecodeError> {
        let short = Reason::NullsTruncated;
        if reader.byte(short)? == 0 {
            return Ok(Self {
                bitmap: None,
                rows,
                count: 0,
            });
        }
        let bitmap = reader.take(rows.div_ceil(8), short)?;
        let ones: usize = bitmap.iter().map(|byte| ones(*byte)).sum();
        let surplus = bitmap.last().map_or(0, |last| ones_past(*last, rows));
        Ok(Self {
            bitmap: Some(bitmap),
            rows,
            count: ones.saturating_sub(surplus),
        })
    }

    /// Whether the column carries a bitmap. Without one, nulls show as sentinel values.
    #[inline]
    pub fn has_bitmap(&self) -> bool {
        self.bitmap.is_some()
    }

    /// The bitmap: row r is bit `r & 7` of byte `r >> 3`, 1 is NULL.
    #[inline]
    pub fn bitmap(&self) -> Option<&'a [u8]> {
        self.bitmap
    }

    /// Rows of the block.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that the bitmap marks.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Values on the wire: rows that the bitmap does not mark.
    #[inline]
    pub fn present(&self) -> usize {
        self.rows.saturating_sub(self.count)
    }

    /// Whether the bitmap marks `row`; false past the last row.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        let byte = self
            .bitmap
            .and_then(|map| map.get(row >> 3))
            .copied()
            .unwrap_or(0);
        row < self.rows && (byte >> (row & 7)) & 1 == 1
    }

    /// One flag per row, true for NULL.
    #[inline]
    pub fn iter(&self) -> NullsIter<'a> {
        NullsIter {
            nulls: *self,
            row: 0,
        }
    }
}

impl<'a> IntoIterator for &Nulls<'a> {
    type Item = bool;
    type IntoIter = NullsIter<'a>;

    fn into_iter(self) -> NullsIter<'a> {
        self.iter()
    }
}

/// Iterator over the rows of [`Nulls`].
#[derive(Clone, Debug)]
pub struct NullsIter<'a> {
    nulls: Nulls<'a>,
    row: usize,
}

impl Iterator for NullsIter<'_> {
    type Item = bool;

    #[inline]
    fn next(&mut self) -> Option<bool> {
        if self.row >= self.nulls.rows {
            return None;
        }
        let null = self.nulls.is_null(self.row);
        self.row = self.row.saturating_add(1);
        Some(null)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.nulls.rows.saturating_sub(self.row);
        (left, Some(left))
    }
}

impl ExactSizeIterator for NullsIter<'_> {}

#[inline]
fn ones(byte: u8) -> usize {
    usize::try_from(byte.count_ones()).unwrap_or(0)
}

/// Bits of the last byte that stand for rows the block does not have.
#[inline]
fn ones_past(last: u8, rows: usize) -> usize {
    match rows & 7 {
        0 => 0,
        used => ones(last >> used),
    }
}
