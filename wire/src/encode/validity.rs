//! Which rows of a caller's column hold a value.

use std::ops::Range;

/// A bitmap in the caller's memory, as columnar formats have it: one bit per row, least
/// significant first, 1 for a value, 0 for NULL.
#[derive(Clone, Copy, Debug)]
pub struct Validity<'a> {
    bits: &'a [u8],
    offset: usize,
}

impl<'a> Validity<'a> {
    /// Row r is bit `(offset + r) % 8` of byte `(offset + r) / 8`.
    pub fn new(bits: &'a [u8], offset: usize) -> Self {
        Self { bits, offset }
    }

    /// Rows that the bitmap can tell of.
    pub fn rows(&self) -> usize {
        (self.bits.len() * 8).saturating_sub(self.offset)
    }

    /// Whether the row holds a value.
    ///
    /// # Panics
    /// When the bitmap does not reach as far.
    #[inline]
    pub fn is_valid(&self, row: usize) -> bool {
        let bit = self.offset + row;
        self.bits[bit / 8] >> (bit % 8) & 1 == 1
    }

    /// The eight rows from `row` on, row `row` in the lowest bit; rows beyond the bitmap are 0.
    #[inline]
    fn byte(&self, row: usize) -> u8 {
        let bit = self.offset + row;
        let at = |index: usize| u16::from(self.bits.get(index).copied().unwrap_or(0));
        let pair = at(bit / 8) | at(bit / 8 + 1) << 8;
        (pair >> (bit % 8)).to_le_bytes()[0]
    }

    /// Nulls among `rows`.
    pub fn nulls(&self, rows: Range<usize>) -> usize {
        let mut valid = 0;
        for row in rows.clone().step_by(8) {
            valid += (self.byte(row) & mask(rows.end - row)).count_ones() as usize;
        }
        rows.len() - valid
    }

    /// Writes the wire's bitmap of `rows`: a 1 for each NULL.
    pub fn write_nulls(&self, rows: Range<usize>, out: &mut [u8]) {
        for (place, row) in out.iter_mut().zip(rows.clone().step_by(8)) {
            *place = !self.byte(row) & mask(rows.end - row);
        }
    }
}

/// The lowest `rows` bits, at most eight.
fn mask(rows: usize) -> u8 {
    if rows >= 8 { 0xff } else { (1 << rows) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_writes_like_single_bits_at_every_offset() {
        let bits: Vec<u8> = (0..40_u8).map(|n| n.wrapping_mul(37) ^ 0x5a).collect();
        for offset in 0..17 {
            let validity = Validity::new(&bits, offset);
            for start in 0..20 {
                for len in 0..40 {
                    let rows = start..start + len;
                    let nulls: Vec<usize> = rows
                        .clone()
                        .filter(|row| !validity.is_valid(*row))
                        .collect();
                    assert_eq!(validity.nulls(rows.clone()), nulls.len());
                    let mut out = vec![0xaa; len.div_ceil(8)];
                    validity.write_nulls(rows, &mut out);
                    let read: Vec<usize> = (0..out.len() * 8)
                        .filter(|bit| out[bit / 8] >> (bit % 8) & 1 == 1)
                        .map(|bit| start + bit)
                        .collect();
                    assert_eq!(read, nulls);
                }
            }
        }
    }
}
