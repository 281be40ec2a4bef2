//! From a filled column to the bytes of its block.

use super::ColumnBuffer;
use super::form::{has_bitmap, parameter_len};
use crate::types::ColumnType;
use crate::{gorilla, varint};

impl ColumnBuffer {
    /// Bytes that [`ColumnBuffer::encode`] writes: null section and data, with symbols at four
    /// bytes each.
    pub fn encoded_len(&self) -> usize {
        if self.is_plain() {
            return 1 + self.data.len();
        }
        let offsets = match self.ty {
            ColumnType::Varchar | ColumnType::Binary => 4 * (self.ends.len() + 1),
            _ => 0,
        };
        self.null_section_len() + parameter_len(self.ty) + offsets + self.data.len()
    }

    /// Writes null section and data at the start of `out` and returns the bytes written.
    ///
    /// Symbol cells are 32-bit ids, least significant byte first, which whoever knows the
    /// connection's ids turns into varints; [`ColumnBuffer::symbol_run`] says where they stand.
    /// Timestamps are plain and without an encoding byte.
    ///
    /// # Panics
    /// When `out` is shorter than [`ColumnBuffer::encoded_len`].
    pub fn encode(&self, out: &mut [u8]) -> usize {
        if self.is_plain() {
            let (column, _) = out.split_at_mut(1 + self.data.len());
            let (nulls, data) = column.split_at_mut(1);
            nulls[0] = 0;
            data.copy_from_slice(&self.data);
            return column.len();
        }
        let length = self.encoded_len();
        let (out, _) = out.split_at_mut(length);
        let (nulls, rest) = out.split_at_mut(self.null_section_len());
        self.write_nulls(nulls);
        let (parameter, rest) = rest.split_at_mut(parameter_len(self.ty));
        parameter.fill(self.parameter_on_wire());
        let (offsets, data) = rest.split_at_mut(rest.len() - self.data.len());
        self.write_offsets(offsets);
        data.copy_from_slice(&self.data);
        length
    }

    /// Appends the column as it finally stands in a message: symbol ids as varints, and, when
    /// the message has the Gorilla flag, timestamps with their encoding byte.
    pub fn encode_wire(&self, gorilla: bool, out: &mut Vec<u8>) {
        let length = self.null_section_len();
        if self.ty == ColumnType::Symbol {
            self.append_nulls(length, out);
            for id in self.symbol_ids() {
                varint::push(id.into(), out);
            }
        } else if self.ty.is_timestamp() && gorilla {
            self.append_nulls(length, out);
            let marker = out.len();
            out.push(1);
            let values = self
                .data
                .as_chunks()
                .0
                .iter()
                .map(|raw| i64::from_le_bytes(*raw));
            if !gorilla::encode_from(values, out) {
                out[marker] = 0;
                out.extend_from_slice(&self.data);
            }
        } else {
            let start = out.len();
            out.resize(start + self.encoded_len(), 0);
            self.encode(&mut out[start..]);
        }
    }

    /// Where the symbol cells of an encoded column stand: the offset of the first from the
    /// column's first byte, and their number. `None` for other types.
    pub fn symbol_run(&self) -> Option<(usize, usize)> {
        (self.ty == ColumnType::Symbol).then(|| (self.null_section_len(), self.values()))
    }

    /// The ids of a symbol column's rows that are not NULL; empty for other types.
    pub fn symbol_ids(&self) -> impl Iterator<Item = u32> + '_ {
        let cells = if self.ty == ColumnType::Symbol {
            self.data.as_chunks().0
        } else {
            &[]
        };
        cells.iter().map(|raw| u32::from_le_bytes(*raw))
    }

    fn append_nulls(&self, length: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + length, 0);
        self.write_nulls(&mut out[start..]);
    }

    /// Whether the column is a byte that says there is no bitmap, and the values: most are.
    #[inline]
    fn is_plain(&self) -> bool {
        self.nulls.count() == 0 && Self::has_cells(self.ty)
    }

    fn has_bitmap(&self) -> bool {
        has_bitmap(self.ty, self.parameter, self.nulls.count())
    }

    pub(super) fn null_section_len(&self) -> usize {
        if self.has_bitmap() {
            1 + self.rows.div_ceil(8)
        } else {
            1
        }
    }

    fn write_nulls(&self, out: &mut [u8]) {
        let bitmap = self.has_bitmap();
        out[0] = u8::from(bitmap);
        if bitmap {
            self.nulls.write(self.rows, &mut out[1..]);
        }
    }

    /// A geohash column that never had a value has to name some precision.
    fn parameter_on_wire(&self) -> u8 {
        if self.ty == ColumnType::Geohash {
            self.parameter.max(1)
        } else {
            self.parameter
        }
    }

    fn write_offsets(&self, out: &mut [u8]) {
        let (cells, _) = out.as_chunks_mut();
        if let Some((first, rest)) = cells.split_first_mut() {
            *first = [0; 4];
            for (cell, end) in rest.iter_mut().zip(&self.ends) {
                *cell = end.to_le_bytes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gorilla::Decoder;

    /// Field report: what does not fit the delta-of-delta code is written plain, and says so.
    #[test]
    fn gorilla_overflow() {
        let cases: [(&[i64], u8); 6] = [
            (&[0, 1, 1 << 40, 5], 0),
            (&[i64::MAX - 1, 0, i64::MAX - 1], 0),
            (&[7], 1),
            (&[7, 9], 1),
            (&[5, 5, 5, 5], 1),
            (&[9_000, 8_000, 7_000, 6_500], 1),
        ];
        for (values, encoding) in cases {
            let mut column = ColumnBuffer::new(ColumnType::TimestampNanos);
            for value in values {
                column.push_i64(*value);
            }
            let mut out = Vec::new();
            column.encode_wire(true, &mut out);
            assert_eq!(
                out[..2],
                [0, encoding],
                "no nulls, then the encoding: {values:?}"
            );
            let back: Vec<i64> = if encoding == 1 {
                Decoder::new(&out[2..], values.len()).flatten().collect()
            } else {
                let (cells, _) = out[2..].as_chunks();
                cells.iter().map(|cell| i64::from_le_bytes(*cell)).collect()
            };
            assert_eq!(back, values);
        }
    }
}
