//! One column of a batch as a producer fills it.
//!
//! Values are kept as they will stand on the wire (symbol ids as four bytes), so that encoding is
//! a copy. Only the producer's thread touches a buffer.

use std::ops::Range;

use super::form::{NAN_32, NAN_64, value_width};
use super::nulls::NullBits;
use crate::types::ColumnType;

/// A growing column.
///
/// The push methods panic when the column has another type: the caller looked the column up by
/// name and type, so that would be a bug in it, and the bytes would be garbage for every row.
/// Nulls follow the official row sender: sentinels for numbers and booleans, a bitmap as soon as
/// there is a null for everything else.
#[derive(Clone, Debug)]
pub struct ColumnBuffer {
    pub(super) ty: ColumnType,
    /// Nulls included.
    pub(super) rows: usize,
    pub(super) nulls: NullBits,
    /// The values present, as on the wire.
    pub(super) data: Vec<u8>,
    /// Where each value ends in `data`; for types whose values differ in size.
    pub(super) ends: Vec<u32>,
    /// Whether values are 64-bit integers.
    pub(super) integer: bool,
    /// Scale of decimals; precision of geohashes, 0 before the first value.
    pub(super) parameter: u8,
}

impl ColumnBuffer {
    /// An empty column.
    pub fn new(ty: ColumnType) -> Self {
        Self {
            ty,
            integer: matches!(
                ty,
                ColumnType::Long
                    | ColumnType::Timestamp
                    | ColumnType::TimestampNanos
                    | ColumnType::Date
            ),
            rows: 0,
            nulls: NullBits::default(),
            data: Vec::new(),
            ends: Vec::new(),
            parameter: 0,
        }
    }

    /// The column's type.
    #[inline]
    pub fn column_type(&self) -> ColumnType {
        self.ty
    }

    /// Rows, nulls included.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that are NULL by the bitmap; sentinels are not counted.
    #[inline]
    pub fn null_count(&self) -> usize {
        self.nulls.count()
    }

    /// Values present in `data`.
    #[inline]
    pub(super) fn values(&self) -> usize {
        self.rows - self.nulls.count()
    }

    /// Forgets all rows and keeps the memory. A geohash column keeps its precision for batches
    /// in which it is all NULL.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.nulls.clear();
        self.data.clear();
        self.ends.clear();
        if self.ty != ColumnType::Geohash {
            self.parameter = 0;
        }
    }

    /// Forgets the rows from `rows` on; nothing happens when there are no more than that.
    ///
    /// A decimal column keeps the scale that a forgotten value brought: the other values were
    /// rescaled to it and mean the same.
    pub fn truncate(&mut self, rows: usize) {
        if rows >= self.rows {
            return;
        }
        self.nulls.truncate(rows);
        self.rows = rows;
        let values = self.values();
        if self.ty == ColumnType::Boolean {
            self.data.truncate(rows.div_ceil(8));
            if !rows.is_multiple_of(8)
                && let Some(last) = self.data.last_mut()
            {
                *last &= 0xff >> (8 - rows % 8);
            }
        } else if let Some(width) = self.value_width() {
            self.data.truncate(values * width);
        } else {
            self.ends.truncate(values);
            self.data
                .truncate(self.ends.last().map_or(0, |end| *end as usize));
        }
    }

    /// A copy of the rows `rows` alone, for a batch that must go in pieces.
    ///
    /// # Panics
    /// When the column has fewer rows.
    #[must_use]
    pub fn slice(&self, rows: Range<usize>) -> Self {
        let mut copy = Self::new(self.ty);
        copy.assign(self, rows);
        copy
    }

    /// Becomes a copy of the rows `rows` of `from`, in the memory that it has.
    ///
    /// # Panics
    /// When `from` has fewer rows or another type.
    pub fn assign(&mut self, from: &Self, rows: Range<usize>) {
        assert!(rows.end <= from.rows, "{rows:?} of {}", from.rows);
        self.expect(from.ty);
        self.clear();
        self.parameter = from.parameter;
        if self.ty == ColumnType::Boolean {
            for row in rows {
                self.push_bool(from.data[row / 8] >> (row % 8) & 1 == 1);
            }
            return;
        }
        let first = rows.start - from.nulls.count_below(rows.start);
        self.rows = rows.len();
        self.nulls.assign(&from.nulls, rows);
        let values = first..first + self.values();
        if let Some(width) = from.value_width() {
            let bytes = values.start * width..values.end * width;
            self.data.extend_from_slice(&from.data[bytes]);
        } else {
            let start = |value: usize| match value {
                0 => 0,
                value => from.ends[value - 1],
            };
            let (begin, end) = (start(values.start), start(values.end));
            let bytes = begin as usize..end as usize;
            self.data.extend_from_slice(&from.data[bytes]);
            let ends = from.ends[values].iter();
            self.ends.extend(ends.map(|end| end - begin));
        }
    }

    /// Makes room for `rows` rows in all, with `value_bytes` bytes each where values differ in
    /// size, and touches it, so that filling them moves no memory and meets no new page.
    pub fn reserve(&mut self, rows: usize, value_bytes: usize) {
        let more = rows.saturating_sub(self.rows);
        let bytes = match (self.ty, self.value_width()) {
            (ColumnType::Boolean, _) => more.div_ceil(8),
            (ColumnType::Geohash, _) => more * 8,
            (_, Some(width)) => more * width,
            (_, None) => more * value_bytes,
        };
        touch(&mut self.data, bytes);
        if self.value_width().is_none() && self.ty != ColumnType::Boolean {
            touch(&mut self.ends, more);
        }
        self.nulls.reserve(rows);
    }

    /// Bytes per value in `data`; `None` for booleans and for types with `ends`.
    pub(super) fn value_width(&self) -> Option<usize> {
        value_width(self.ty, self.parameter)
    }

    /// Adds a BOOLEAN.
    #[inline]
    pub fn push_bool(&mut self, value: bool) {
        self.expect(ColumnType::Boolean);
        if self.rows.is_multiple_of(8) {
            self.data.push(0);
        }
        if let Some(last) = self.data.last_mut() {
            *last |= u8::from(value) << (self.rows % 8);
        }
        self.rows += 1;
    }

    /// Adds a BYTE.
    #[inline]
    pub fn push_i8(&mut self, value: i8) {
        self.expect(ColumnType::Byte);
        self.append(value.to_le_bytes());
    }

    /// Adds a SHORT.
    #[inline]
    pub fn push_i16(&mut self, value: i16) {
        self.expect(ColumnType::Short);
        self.append(value.to_le_bytes());
    }

    /// Adds an INT. The smallest number means NULL.
    #[inline]
    pub fn push_i32(&mut self, value: i32) {
        self.expect(ColumnType::Int);
        self.append(value.to_le_bytes());
    }

    /// Adds a LONG, TIMESTAMP, `TIMESTAMP_NANOS` or DATE, in the column's unit. The smallest LONG
    /// means NULL.
    #[inline]
    pub fn push_i64(&mut self, value: i64) {
        assert!(
            self.takes_i64(),
            "a column of another type takes no 64-bit integer"
        );
        self.append(value.to_le_bytes());
    }

    /// Whether [`push_i64`](Self::push_i64) may be called.
    #[inline]
    pub fn takes_i64(&self) -> bool {
        self.integer
    }

    /// Adds a FLOAT. NaN means NULL.
    #[inline]
    pub fn push_f32(&mut self, value: f32) {
        self.expect(ColumnType::Float);
        self.append(value.to_le_bytes());
    }

    /// Adds a DOUBLE. NaN means NULL.
    #[inline]
    pub fn push_f64(&mut self, value: f64) {
        self.expect(ColumnType::Double);
        self.append(value.to_le_bytes());
    }

    /// Adds a CHAR: one UTF-16 code unit.
    #[inline]
    pub fn push_char(&mut self, value: u16) {
        self.expect(ColumnType::Char);
        self.append(value.to_le_bytes());
    }

    /// Adds an IPv4 address as a number. 0.0.0.0 means NULL.
    #[inline]
    pub fn push_ipv4(&mut self, value: u32) {
        self.expect(ColumnType::Ipv4);
        self.append(value.to_le_bytes());
    }

    /// Adds a UUID by its less and its more significant half.
    #[inline]
    pub fn push_uuid(&mut self, lo: u64, hi: u64) {
        self.expect(ColumnType::Uuid);
        let value = u128::from(lo) | (u128::from(hi) << 64);
        self.append(value.to_le_bytes());
    }

    /// Adds a LONG256, least significant word first.
    #[inline]
    pub fn push_long256(&mut self, words: [u64; 4]) {
        self.expect(ColumnType::Long256);
        for word in words {
            self.data.extend_from_slice(&word.to_le_bytes());
        }
        self.rows += 1;
    }

    /// Adds a SYMBOL by the id that the sender's dictionary gave it.
    #[inline]
    pub fn push_symbol(&mut self, id: u32) {
        self.expect(ColumnType::Symbol);
        self.append(id.to_le_bytes());
    }

    /// Adds a NULL.
    #[inline]
    pub fn push_null(&mut self) {
        self.push_nulls(1);
    }

    /// Adds `count` NULLs.
    pub fn push_nulls(&mut self, count: usize) {
        match self.ty {
            ColumnType::Boolean => {
                // Bits past the last row are always 0, which is what NULL becomes.
                self.data.resize((self.rows + count).div_ceil(8), 0);
            }
            ColumnType::Byte => self.fill([0; 1], count),
            ColumnType::Short | ColumnType::Char => self.fill([0; 2], count),
            ColumnType::Int => self.fill(i32::MIN.to_le_bytes(), count),
            ColumnType::Long => self.fill(i64::MIN.to_le_bytes(), count),
            ColumnType::Float => self.fill(NAN_32.to_le_bytes(), count),
            ColumnType::Double => self.fill(NAN_64.to_le_bytes(), count),
            _ => self.nulls.push(self.rows, count),
        }
        self.rows += count;
    }

    fn fill<const N: usize>(&mut self, value: [u8; N], count: usize) {
        self.data.reserve(N * count);
        for _ in 0..count {
            self.data.extend_from_slice(&value);
        }
    }

    #[inline]
    pub(super) fn append<const N: usize>(&mut self, value: [u8; N]) {
        if self.data.capacity() - self.data.len() < N {
            return self.grow_and_append(value);
        }
        self.data.extend_from_slice(&value);
        self.rows += 1;
    }

    /// Out of line and called last, so that a value that finds room saves no registers.
    #[cold]
    fn grow_and_append<const N: usize>(&mut self, value: [u8; N]) {
        self.data.extend_from_slice(&value);
        self.rows += 1;
    }

    #[inline]
    pub(super) fn expect(&self, ty: ColumnType) {
        assert!(self.ty == ty, "the column has another type");
    }
}

/// Room for `more` elements, written once.
pub(super) fn touch<T: Copy + Default>(list: &mut Vec<T>, more: usize) {
    let len = list.len();
    list.resize(len + more, T::default());
    list.truncate(len);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(column: &mut ColumnBuffer) {
        for row in 0..1000_u16 {
            match column.ty {
                _ if row % 10 == 3 => column.push_null(),
                ColumnType::Boolean => column.push_bool(true),
                ColumnType::Double => column.push_f64(row.into()),
                ColumnType::Symbol => column.push_symbol(row.into()),
                ColumnType::TimestampNanos => column.push_i64(row.into()),
                ColumnType::Varchar => column.push_str("some text"),
                ColumnType::Decimal64 => column.push_decimal(i64::from(row), 2).unwrap(),
                ColumnType::Geohash => column.push_geohash(row.into(), 20).unwrap(),
                _ => column.push_double_array(&[1, 2], [1.0, 2.0]).unwrap(),
            }
        }
    }

    #[test]
    fn a_second_batch_of_the_same_size_moves_no_memory() {
        let types = [
            ColumnType::Boolean,
            ColumnType::Double,
            ColumnType::Symbol,
            ColumnType::TimestampNanos,
            ColumnType::Varchar,
            ColumnType::Decimal64,
            ColumnType::Geohash,
            ColumnType::DoubleArray,
        ];
        for ty in types {
            let mut column = ColumnBuffer::new(ty);
            fill(&mut column);
            let memory = |column: &ColumnBuffer| {
                let data = (column.data.as_ptr(), column.data.capacity());
                (data, column.ends.as_ptr(), column.nulls.memory())
            };
            let before = memory(&column);
            let mut first = vec![0; column.encoded_len()];
            column.encode(&mut first);
            column.clear();
            fill(&mut column);
            assert_eq!(memory(&column), before, "{ty:?}");
            let mut second = vec![0; column.encoded_len()];
            column.encode(&mut second);
            assert_eq!(first, second);
        }
    }

    #[test]
    #[should_panic(expected = "another type")]
    fn a_value_of_another_type_is_a_bug() {
        ColumnBuffer::new(ColumnType::Long).push_f64(1.0);
    }
}
