//! The null bitmap of a growing column. It costs nothing until the first null.

use std::ops::Range;

use super::column::touch;

/// Null rows; bits past the last null are not stored.
#[derive(Clone, Debug, Default)]
pub(super) struct NullBits {
    bits: Vec<u8>,
    count: usize,
}

impl NullBits {
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Marks rows `first` to `first + rows - 1`, which lie behind every marked row.
    pub(super) fn push(&mut self, first: usize, rows: usize) {
        if rows == 0 {
            return;
        }
        let end = first + rows;
        self.bits.resize(end.div_ceil(8), 0);
        let (first_byte, last_byte) = (first / 8, (end - 1) / 8);
        let head = 0xff << (first % 8);
        let tail = 0xff >> (7 - (end - 1) % 8);
        if first_byte == last_byte {
            self.bits[first_byte] |= head & tail;
        } else {
            self.bits[first_byte] |= head;
            self.bits[first_byte + 1..last_byte].fill(0xff);
            self.bits[last_byte] |= tail;
        }
        self.count += rows;
    }

    /// Forgets the marks of rows from `rows` on.
    pub(super) fn truncate(&mut self, rows: usize) {
        let Some(byte) = self.bits.get_mut(rows / 8) else {
            return;
        };
        let gone = *byte & (0xff << (rows % 8));
        *byte &= !gone;
        let behind: u32 = self.bits[rows / 8 + 1..]
            .iter()
            .map(|byte| byte.count_ones())
            .sum();
        self.count -= (behind + gone.count_ones()) as usize;
        self.bits.truncate(rows.div_ceil(8));
    }

    /// Marked rows below `row`.
    pub(super) fn count_below(&self, row: usize) -> usize {
        if self.count == 0 {
            return 0;
        }
        let whole = &self.bits[..self.bits.len().min(row / 8)];
        let last = self.bits.get(row / 8).copied().unwrap_or(0);
        let last = last & !(0xff << (row % 8));
        let marked = whole.iter().chain([&last]).map(|byte| byte.count_ones());
        marked.sum::<u32>() as usize
    }

    /// Becomes the marks of `rows` in `from`, counted from the first of them.
    pub(super) fn assign(&mut self, from: &Self, rows: Range<usize>) {
        self.clear();
        if from.count == 0 {
            return;
        }
        for (index, row) in rows.enumerate() {
            let byte = from.bits.get(row / 8).copied().unwrap_or(0);
            if byte >> (row % 8) & 1 == 1 {
                self.push(index, 1);
            }
        }
    }

    /// Room for the marks of `rows` rows.
    pub(super) fn reserve(&mut self, rows: usize) {
        let bytes = rows.div_ceil(8).saturating_sub(self.bits.len());
        touch(&mut self.bits, bytes);
    }

    pub(super) fn clear(&mut self) {
        self.bits.clear();
        self.count = 0;
    }

    /// Writes the bitmap of `rows` rows at the start of `out`.
    pub(super) fn write(&self, rows: usize, out: &mut [u8]) {
        let (bitmap, _) = out.split_at_mut(rows.div_ceil(8));
        let (marked, rest) = bitmap.split_at_mut(self.bits.len());
        marked.copy_from_slice(&self.bits);
        rest.fill(0);
    }
}

#[cfg(test)]
impl NullBits {
    /// Where the bits lie, to see whether they move.
    pub(super) fn memory(&self) -> (*const u8, usize) {
        (self.bits.as_ptr(), self.bits.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_truncation_match_a_list_of_rows() {
        for first in 0..20 {
            for len in 0..40 {
                let mut bits = NullBits::default();
                bits.push(3, 1);
                bits.push(first + 4, len);
                for kept in (0..first + len + 6).rev() {
                    bits.truncate(kept);
                    let marked =
                        |row: usize| row == 3 || (first + 4..first + 4 + len).contains(&row);
                    let mut out = vec![0xaa; kept.div_ceil(8)];
                    bits.write(kept, &mut out);
                    let read = (0..kept).filter(|row| out[row / 8] >> (row % 8) & 1 == 1);
                    let expected: Vec<_> = (0..kept).filter(|row| marked(*row)).collect();
                    assert_eq!(read.collect::<Vec<_>>(), expected);
                    assert_eq!(bits.count(), expected.len());
                    for below in 0..first + len + 6 {
                        let count = expected.iter().filter(|row| **row < below).count();
                        assert_eq!(bits.count_below(below), count);
                    }
                }
            }
        }
    }
}
