//! Values as 64-bit cells: for whoever gathers whole rows first and hands over many at once, which
//! costs a value less than its own push does.
//!
//! A cell holds the value's bytes on the wire from its least significant byte on: integers as two's
//! complement, floats by their bits, a BOOLEAN as 0 or 1, a SYMBOL as its id.

use super::ColumnBuffer;
use super::form::{has_bitmap, has_sentinel, parameter_len, value_width};
use crate::types::ColumnType;

const WITHOUT: &str = "a column of a type without cells";

impl ColumnBuffer {
    /// Whether every value of this type fits a cell.
    #[inline]
    pub fn has_cells(ty: ColumnType) -> bool {
        matches!(
            ty,
            ColumnType::Boolean
                | ColumnType::Byte
                | ColumnType::Short
                | ColumnType::Char
                | ColumnType::Int
                | ColumnType::Float
                | ColumnType::Ipv4
                | ColumnType::Symbol
                | ColumnType::Long
                | ColumnType::Double
                | ColumnType::Date
                | ColumnType::Timestamp
                | ColumnType::TimestampNanos
        )
    }

    /// Adds the value of a cell.
    ///
    /// # Panics
    /// When the type has no cells.
    #[inline]
    pub fn push_cell(&mut self, cell: u64) {
        match self.ty {
            ColumnType::Boolean => self.push_bool(cell & 1 == 1),
            ColumnType::Byte => self.append::<1>(low(cell)),
            ColumnType::Short | ColumnType::Char => self.append::<2>(low(cell)),
            ColumnType::Int | ColumnType::Float | ColumnType::Ipv4 | ColumnType::Symbol => {
                self.append::<4>(low(cell));
            }
            _ => {
                assert!(Self::has_cells(self.ty), "{WITHOUT}");
                self.append::<8>(low(cell));
            }
        }
    }

    /// Adds the values of all these cells.
    ///
    /// # Panics
    /// When the type has no cells.
    pub fn push_cells(&mut self, cells: &[u64]) {
        match self.ty {
            ColumnType::Boolean => cells.iter().for_each(|cell| self.push_cell(*cell)),
            ColumnType::Byte => self.append_all::<1>(cells),
            ColumnType::Short | ColumnType::Char => self.append_all::<2>(cells),
            ColumnType::Int | ColumnType::Float | ColumnType::Ipv4 | ColumnType::Symbol => {
                self.append_all::<4>(cells);
            }
            _ => {
                assert!(Self::has_cells(self.ty), "{WITHOUT}");
                self.append_all::<8>(cells);
            }
        }
    }

    #[inline]
    fn append_all<const N: usize>(&mut self, cells: &[u64]) {
        let before = self.data.len();
        self.data.resize(before + cells.len() * N, 0);
        let (places, _) = self.data[before..].as_chunks_mut();
        for (place, cell) in places.iter_mut().zip(cells) {
            *place = low::<N>(*cell);
        }
        self.rows += cells.len();
    }

    /// What [`encoded_len`](ColumnBuffer::encoded_len) will be once so many more cells and NULLs
    /// were pushed.
    pub fn encoded_len_with(&self, cells: usize, nulls: usize) -> usize {
        let rows = self.rows + cells + nulls;
        let bitmap = has_bitmap(self.ty, self.parameter, self.nulls.count() + nulls);
        let head = 1 + parameter_len(self.ty) + if bitmap { rows.div_ceil(8) } else { 0 };
        if self.ty == ColumnType::Boolean {
            return head + rows.div_ceil(8);
        }
        let stored = if has_sentinel(self.ty) {
            cells + nulls
        } else {
            cells
        };
        let width = self.value_width().unwrap_or(0);
        self.encoded_len() - self.null_section_len() - parameter_len(self.ty)
            + head
            + stored * width
    }
}

/// How cells stand in an encoded column without a NULL, behind the byte that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellForm {
    /// One bit each, the first in the lowest.
    Bits,
    /// One byte each.
    One,
    /// Two bytes each.
    Two,
    /// Four bytes each.
    Four,
    /// Eight bytes each.
    Eight,
}

impl CellForm {
    /// That of a type; `None` if it has no cells.
    pub fn of(ty: ColumnType) -> Option<Self> {
        if !ColumnBuffer::has_cells(ty) {
            return None;
        }
        Some(match value_width(ty, 0) {
            Some(1) => Self::One,
            Some(2) => Self::Two,
            Some(4) => Self::Four,
            Some(8) => Self::Eight,
            _ => Self::Bits,
        })
    }

    /// Bytes of so many cells.
    pub fn bytes(self, cells: usize) -> usize {
        match self {
            Self::Bits => cells.div_ceil(8),
            Self::One => cells,
            Self::Two => 2 * cells,
            Self::Four => 4 * cells,
            Self::Eight => 8 * cells,
        }
    }

    /// Writes the cells at the start of `out`.
    ///
    /// # Panics
    /// When `out` is shorter than their [`bytes`](Self::bytes).
    #[inline]
    pub fn write(self, cells: &[u64], out: &mut [u8]) {
        match self {
            Self::Bits => {
                let bytes = out[..cells.len().div_ceil(8)].iter_mut();
                for (byte, cells) in bytes.zip(cells.chunks(8)) {
                    let bits = cells.iter().rev();
                    *byte = bits.fold(0, |bits, cell| bits << 1 | u8::from(cell & 1 == 1));
                }
            }
            Self::One => write_low::<1>(cells, out),
            Self::Two => write_low::<2>(cells, out),
            Self::Four => write_low::<4>(cells, out),
            Self::Eight => write_low::<8>(cells, out),
        }
    }
}

#[inline]
fn write_low<const N: usize>(cells: &[u64], out: &mut [u8]) {
    let (places, _) = out.as_chunks_mut();
    // A batch of one row is what this is for: it costs a comparison and a store.
    if let ([cell], [place, ..]) = (cells, &mut *places) {
        *place = low::<N>(*cell);
        return;
    }
    for (place, cell) in places[..cells.len()].iter_mut().zip(cells) {
        *place = low::<N>(*cell);
    }
}

/// The value's bytes of a cell.
#[inline]
fn low<const N: usize>(cell: u64) -> [u8; N] {
    cell.to_le_bytes().first_chunk().copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [ColumnType; 13] = [
        ColumnType::Boolean,
        ColumnType::Byte,
        ColumnType::Short,
        ColumnType::Char,
        ColumnType::Int,
        ColumnType::Float,
        ColumnType::Ipv4,
        ColumnType::Symbol,
        ColumnType::Long,
        ColumnType::Double,
        ColumnType::Date,
        ColumnType::Timestamp,
        ColumnType::TimestampNanos,
    ];

    /// Bits that differ in every byte, and from row to row.
    fn cell(row: u64) -> u64 {
        (row + 1).wrapping_mul(0x0123_4567_89ab_cdef)
    }

    fn encoded(column: &ColumnBuffer) -> Vec<u8> {
        let mut out = vec![0; column.encoded_len()];
        column.encode(&mut out);
        out
    }

    /// As a caller would who has the value itself.
    fn push(column: &mut ColumnBuffer, cell: u64) {
        let [a, b, c, d, ..] = cell.to_le_bytes();
        match column.column_type() {
            ColumnType::Boolean => column.push_bool(cell & 1 == 1),
            ColumnType::Byte => column.push_i8(i8::from_le_bytes([a])),
            ColumnType::Short => column.push_i16(i16::from_le_bytes([a, b])),
            ColumnType::Char => column.push_char(u16::from_le_bytes([a, b])),
            ColumnType::Int => column.push_i32(i32::from_le_bytes([a, b, c, d])),
            ColumnType::Float => column.push_f32(f32::from_le_bytes([a, b, c, d])),
            ColumnType::Ipv4 => column.push_ipv4(u32::from_le_bytes([a, b, c, d])),
            ColumnType::Symbol => column.push_symbol(u32::from_le_bytes([a, b, c, d])),
            ColumnType::Double => column.push_f64(f64::from_bits(cell)),
            _ => column.push_i64(cell.cast_signed()),
        }
    }

    #[test]
    fn cells_become_the_bytes_of_single_pushes() {
        for ty in TYPES {
            let mut single = ColumnBuffer::new(ty);
            let mut many = ColumnBuffer::new(ty);
            let mut one_by_one = ColumnBuffer::new(ty);
            for rows in [0_u64, 1, 3, 8, 13] {
                let cells: Vec<u64> = (0..rows).map(cell).collect();
                many.push_cells(&cells);
                for row in 0..rows {
                    push(&mut single, cell(row));
                    one_by_one.push_cell(cell(row));
                }
                // What stands before does not matter, NULLs neither.
                for column in [&mut single, &mut many, &mut one_by_one] {
                    column.push_null();
                }
                assert_eq!(encoded(&many), encoded(&single), "{ty:?}");
                assert_eq!(encoded(&one_by_one), encoded(&single), "{ty:?}");
            }
        }
    }

    #[test]
    fn the_length_with_more_is_the_length_after_them() {
        for ty in TYPES
            .into_iter()
            .chain([ColumnType::Varchar, ColumnType::Geohash])
        {
            let more = if ColumnBuffer::has_cells(ty) { 20 } else { 0 };
            for (before, cells, nulls) in [(0, 0, 0), (0, more, 0), (5, more, 3), (9, 0, 9)] {
                let mut column = ColumnBuffer::new(ty);
                column.push_nulls(before);
                let expected = column.encoded_len_with(cells, nulls);
                (0..cells).for_each(|_| column.push_cell(1));
                column.push_nulls(nulls);
                assert_eq!(
                    column.encoded_len(),
                    expected,
                    "{ty:?} {before} {cells} {nulls}"
                );
            }
        }
    }

    #[test]
    fn a_form_writes_what_a_column_of_the_cells_encodes() {
        for ty in TYPES {
            let form = CellForm::of(ty).unwrap();
            for rows in [0_u64, 1, 7, 8, 9, 31] {
                let cells: Vec<u64> = (0..rows).map(cell).collect();
                let mut column = ColumnBuffer::new(ty);
                column.push_cells(&cells);
                let mut out = vec![0xaa; 1 + form.bytes(cells.len())];
                out[0] = 0;
                form.write(&cells, &mut out[1..]);
                assert_eq!(out, encoded(&column), "{ty:?} {rows}");
            }
        }
        assert_eq!(CellForm::of(ColumnType::Varchar), None);
        assert_eq!(CellForm::of(ColumnType::Uuid), None);
    }

    #[test]
    #[should_panic(expected = "without cells")]
    fn a_text_has_no_cell() {
        ColumnBuffer::new(ColumnType::Varchar).push_cell(1);
    }
}
