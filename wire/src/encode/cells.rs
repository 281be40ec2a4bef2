//! Values as 64-bit cells: for whoever gathers whole rows first and hands over many at once, which
//! costs a value less than its own push does.
//!
//! A cell holds the value's bytes on the wire from its least significant byte on: integers as two's
//! complement, floats by their bits, a BOOLEAN as 0 or 1, a SYMBOL as its id.

use super::ColumnBuffer;
use super::form::{has_bitmap, has_sentinel, parameter_len};
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
    #[should_panic(expected = "without cells")]
    fn a_text_has_no_cell() {
        ColumnBuffer::new(ColumnType::Varchar).push_cell(1);
    }
}
