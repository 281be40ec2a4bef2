//! Whole columns as slices of the caller's memory, encoded without a copy in between.
//!
//! [`SliceColumn`] is to a chunk what [`ColumnBuffer`](super::ColumnBuffer) is to rows: it knows
//! its size and writes its null section and data, here for any range of rows, so that a chunk
//! larger than a message is sent in pieces. Nulls take the forms that the row sender uses:
//! sentinels for numbers and booleans, a bitmap for everything else.

use std::ops::Range;

use super::form::{NAN_32, NAN_64, has_bitmap, has_sentinel, parameter_len, value_width};
use super::validity::Validity;
use super::varlen::array_elements;
use crate::types::ColumnType;

/// The values of a column, one per row (those of null rows are ignored).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Values<'a> {
    /// BOOLEAN.
    Bool(&'a [bool]),
    /// BOOLEAN, one bit per row, least significant first.
    Bits {
        /// The bits; row r is bit `(offset + r) % 8` of byte `(offset + r) / 8`.
        bits: &'a [u8],
        /// Bit of row 0.
        offset: usize,
        /// Number of rows.
        rows: usize,
    },
    /// BYTE.
    I8(&'a [i8]),
    /// SHORT.
    I16(&'a [i16]),
    /// INT.
    I32(&'a [i32]),
    /// LONG, DATE, TIMESTAMP or `TIMESTAMP_NANOS`.
    I64(&'a [i64]),
    /// FLOAT.
    F32(&'a [f32]),
    /// DOUBLE.
    F64(&'a [f64]),
    /// CHAR (UTF-16 units).
    U16(&'a [u16]),
    /// IPv4, or a SYMBOL's ids.
    U32(&'a [u32]),
    /// UUID.
    U128(&'a [u128]),
    /// DECIMAL128.
    I128(&'a [i128]),
    /// LONG256, DECIMAL256: 32 bytes, least significant first.
    Wide(&'a [[u8; 32]]),
    /// GEOHASH: bits in the low end.
    Geohash(&'a [u64]),
    /// VARCHAR, BINARY: row r is `bytes[offsets[r]..offsets[r + 1]]`.
    Bytes {
        /// One more than rows, not decreasing, within `bytes`.
        offsets: &'a [u32],
        /// All values, one behind the other.
        bytes: &'a [u8],
    },
    /// `DOUBLE_ARRAY`: every row is an array of the same dimensions.
    Arrays {
        /// Length of each dimension, outermost first.
        shape: &'a [u32],
        /// All elements, row by row, row-major.
        values: &'a [f64],
        /// Number of rows.
        rows: usize,
    },
    /// `DOUBLE_ARRAY`: every row is a vector of its own length.
    Vectors {
        /// One more than rows, not decreasing, within `values`.
        offsets: &'a [u32],
        /// All elements.
        values: &'a [f64],
    },
}

impl Values<'_> {
    /// Rows, nulls included.
    pub fn rows(&self) -> usize {
        match self {
            Self::Bool(v) => v.len(),
            Self::Bits { rows, .. } | Self::Arrays { rows, .. } => *rows,
            Self::I8(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::U128(v) => v.len(),
            Self::I128(v) => v.len(),
            Self::Wide(v) => v.len(),
            Self::Geohash(v) => v.len(),
            Self::Bytes { offsets, .. } | Self::Vectors { offsets, .. } => {
                offsets.len().saturating_sub(1)
            }
        }
    }
}

/// A column of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct SliceColumn<'a> {
    /// Type on the wire.
    pub ty: ColumnType,
    /// The values.
    pub values: Values<'a>,
    /// Which rows are not NULL; `None` if all are.
    pub validity: Option<Validity<'a>>,
    /// Scale of decimals, precision of geohashes.
    pub parameter: u8,
}

impl SliceColumn<'_> {
    /// Nulls within `rows`.
    fn nulls(&self, rows: Range<usize>) -> usize {
        self.validity.map_or(0, |valid| valid.nulls(rows))
    }

    fn has_bitmap(&self, nulls: usize) -> bool {
        has_bitmap(self.ty, self.parameter, nulls)
    }

    /// Bytes that [`encode`](Self::encode) writes for `rows`, symbols at four bytes each.
    pub fn encoded_len(&self, rows: Range<usize>) -> usize {
        let nulls = self.nulls(rows.clone());
        let bitmap = if self.has_bitmap(nulls) {
            rows.len().div_ceil(8)
        } else {
            0
        };
        let present = if has_sentinel(self.ty) {
            rows.len()
        } else {
            rows.len() - nulls
        };
        1 + bitmap + parameter_len(self.ty) + self.data_len(rows, nulls, present)
    }

    fn data_len(&self, rows: Range<usize>, nulls: usize, present: usize) -> usize {
        if let Some(width) = value_width(self.ty, self.parameter) {
            return width * present;
        }
        match self.values {
            Values::Bytes { offsets, .. } => {
                4 * (present + 1)
                    + self
                        .spans(rows, nulls, offsets)
                        .map(|s| s.len())
                        .sum::<usize>()
            }
            Values::Arrays { shape, .. } => present * array_bytes(shape),
            Values::Vectors { offsets, .. } => self
                .spans(rows, nulls, offsets)
                .map(|span| 8 * span.len())
                .sum::<usize>()
                .saturating_add(5 * present),
            _ => rows.len().div_ceil(8),
        }
    }

    /// Where the present values lie: one span for all bytes if there is no null, else one each.
    fn spans<'s>(
        &'s self,
        rows: Range<usize>,
        nulls: usize,
        offsets: &'s [u32],
    ) -> impl Iterator<Item = Range<usize>> + 's {
        let whole = (nulls == 0).then(|| offsets[rows.start] as usize..offsets[rows.end] as usize);
        let single = rows
            .filter(move |row| nulls > 0 && self.is_valid(*row))
            .map(|row| offsets[row] as usize..offsets[row + 1] as usize);
        whole.into_iter().chain(single)
    }

    /// Whether a row holds a value.
    #[inline]
    pub fn is_valid(&self, row: usize) -> bool {
        self.validity.is_none_or(|valid| valid.is_valid(row))
    }

    /// Where the symbol cells of `rows` stand in the encoded column, and their number.
    pub fn symbol_run(&self, rows: Range<usize>) -> Option<(usize, usize)> {
        if self.ty != ColumnType::Symbol {
            return None;
        }
        let nulls = self.nulls(rows.clone());
        let bitmap = if nulls > 0 { rows.len().div_ceil(8) } else { 0 };
        Some((1 + bitmap, rows.len() - nulls))
    }

    /// Writes null section and data of `rows` at the start of `out`; returns the bytes written.
    ///
    /// # Panics
    /// When `out` is shorter than [`encoded_len`](Self::encoded_len), or values and offsets are
    /// not as [`Values`] demands.
    pub fn encode(&self, rows: Range<usize>, out: &mut [u8]) -> usize {
        let length = self.encoded_len(rows.clone());
        let nulls = self.nulls(rows.clone());
        let bitmap = self.has_bitmap(nulls);
        let (out, _) = out.split_at_mut(length);
        out[0] = u8::from(bitmap);
        let mut at = 1;
        if bitmap {
            let bytes = rows.len().div_ceil(8);
            let map = &mut out[at..at + bytes];
            match self.validity {
                Some(valid) => valid.write_nulls(rows.clone(), map),
                None => map.fill(0),
            }
            at += bytes;
        }
        if parameter_len(self.ty) > 0 {
            out[at] = self.parameter;
            at += 1;
        }
        self.write_data(rows, nulls, &mut out[at..]);
        length
    }

    fn write_data(&self, rows: Range<usize>, nulls: usize, out: &mut [u8]) {
        match self.values {
            Values::Bool(values) => self.write_bits(rows, out, |row| values[row]),
            Values::Bits { bits, offset, .. } => self.write_bits(rows, out, |row| {
                bits[(offset + row) / 8] >> ((offset + row) % 8) & 1 == 1
            }),
            Values::I8(v) => self.write_fixed(v, rows, nulls, 0, out, i8::to_le_bytes),
            Values::I16(v) => self.write_fixed(v, rows, nulls, 0, out, i16::to_le_bytes),
            Values::U16(v) => self.write_fixed(v, rows, nulls, 0, out, u16::to_le_bytes),
            Values::I32(v) => self.write_fixed(v, rows, nulls, i32::MIN, out, i32::to_le_bytes),
            Values::I64(v) => self.write_fixed(v, rows, nulls, i64::MIN, out, i64::to_le_bytes),
            Values::F32(v) => self.write_fixed(
                v,
                rows,
                nulls,
                f32::from_bits(NAN_32),
                out,
                f32::to_le_bytes,
            ),
            Values::F64(v) => self.write_fixed(
                v,
                rows,
                nulls,
                f64::from_bits(NAN_64),
                out,
                f64::to_le_bytes,
            ),
            Values::U32(v) => self.write_fixed(v, rows, nulls, 0, out, u32::to_le_bytes),
            Values::U128(v) => self.write_fixed(v, rows, nulls, 0, out, u128::to_le_bytes),
            Values::I128(v) => self.write_fixed(v, rows, nulls, 0, out, i128::to_le_bytes),
            Values::Wide(v) => self.write_fixed(v, rows, nulls, [0; 32], out, |wide| wide),
            Values::Geohash(values) => {
                let width = usize::from(self.parameter.div_ceil(8));
                let present = rows.filter(|row| self.is_valid(*row));
                for (cell, row) in out.chunks_exact_mut(width).zip(present) {
                    cell.copy_from_slice(&values[row].to_le_bytes()[..width]);
                }
            }
            Values::Bytes { offsets, bytes } => self.write_bytes(rows, nulls, offsets, bytes, out),
            Values::Arrays { shape, values, .. } => self.write_arrays(rows, shape, values, out),
            Values::Vectors { offsets, values } => self.write_vectors(rows, offsets, values, out),
        }
    }

    #[inline]
    fn write_fixed<T: Copy, const N: usize>(
        &self,
        values: &[T],
        rows: Range<usize>,
        nulls: usize,
        sentinel: T,
        out: &mut [u8],
        bytes: impl Fn(T) -> [u8; N],
    ) {
        let (cells, _) = out.as_chunks_mut::<N>();
        if nulls == 0 {
            for (cell, value) in cells.iter_mut().zip(&values[rows]) {
                *cell = bytes(*value);
            }
        } else if has_sentinel(self.ty) {
            for (cell, row) in cells.iter_mut().zip(rows) {
                let value = if self.is_valid(row) {
                    values[row]
                } else {
                    sentinel
                };
                *cell = bytes(value);
            }
        } else {
            let present = rows.filter(|row| self.is_valid(*row));
            for (cell, row) in cells.iter_mut().zip(present) {
                *cell = bytes(values[row]);
            }
        }
    }

    fn write_bits(&self, rows: Range<usize>, out: &mut [u8], value: impl Fn(usize) -> bool) {
        out.fill(0);
        for (index, row) in rows.enumerate() {
            out[index / 8] |= u8::from(self.is_valid(row) && value(row)) << (index % 8);
        }
    }

    fn write_bytes(
        &self,
        rows: Range<usize>,
        nulls: usize,
        offsets: &[u32],
        bytes: &[u8],
        out: &mut [u8],
    ) {
        let present = rows.len() - nulls;
        let (ends, data) = out.split_at_mut(4 * (present + 1));
        let (ends, _) = ends.as_chunks_mut::<4>();
        ends[0] = [0; 4];
        if nulls == 0 {
            let base = offsets[rows.start];
            let upper = &offsets[rows.start + 1..=rows.end];
            for (end, offset) in ends[1..].iter_mut().zip(upper) {
                *end = (offset - base).to_le_bytes();
            }
            data.copy_from_slice(&bytes[base as usize..offsets[rows.end] as usize]);
            return;
        }
        let mut at = 0;
        for (end, span) in ends[1..].iter_mut().zip(self.spans(rows, nulls, offsets)) {
            data[at..at + span.len()].copy_from_slice(&bytes[span.clone()]);
            at += span.len();
            *end = u32::try_from(at)
                .expect("spans of 32-bit offsets")
                .to_le_bytes();
        }
    }

    fn write_arrays(&self, rows: Range<usize>, shape: &[u32], values: &[f64], out: &mut [u8]) {
        let elements = elements(shape);
        let present = rows.filter(|row| self.is_valid(*row));
        for (cell, row) in out.chunks_exact_mut(array_bytes(shape)).zip(present) {
            let (head, data) = cell.split_at_mut(1 + 4 * shape.len());
            head[0] = u8::try_from(shape.len()).expect("at most 32 dimensions");
            for (place, length) in head[1..].as_chunks_mut::<4>().0.iter_mut().zip(shape) {
                *place = length.to_le_bytes();
            }
            write_doubles(&values[row * elements..(row + 1) * elements], data);
        }
    }

    fn write_vectors(&self, rows: Range<usize>, offsets: &[u32], values: &[f64], out: &mut [u8]) {
        let mut at = 0;
        for row in rows.filter(|row| self.is_valid(*row)) {
            let span = offsets[row] as usize..offsets[row + 1] as usize;
            out[at] = 1;
            out[at + 1..at + 5].copy_from_slice(&(offsets[row + 1] - offsets[row]).to_le_bytes());
            at += 5;
            let bytes = 8 * span.len();
            write_doubles(&values[span], &mut out[at..at + bytes]);
            at += bytes;
        }
    }
}

fn write_doubles(values: &[f64], out: &mut [u8]) {
    for (cell, value) in out.as_chunks_mut::<8>().0.iter_mut().zip(values) {
        *cell = value.to_le_bytes();
    }
}

/// Elements of an array of this shape, which was accepted before.
fn elements(shape: &[u32]) -> usize {
    array_elements(shape.iter().map(|length| *length as usize)).unwrap_or(0)
}

fn array_bytes(shape: &[u32]) -> usize {
    1 + 4 * shape.len() + 8 * elements(shape)
}
