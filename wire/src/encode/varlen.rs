//! Text, bytes and arrays: values that differ in size.

use super::{ColumnBuffer, PushError};
use crate::types::ColumnType;

/// Most dimensions of an array (protocol.md section 8).
pub const ARRAY_DIMS_MAX: usize = 32;
/// Longest dimension of an array that clients send.
pub const ARRAY_DIM_MAX: usize = 268_435_455;
/// Most bytes of an array's elements that clients send.
pub const ARRAY_BYTES_MAX: usize = 512 << 20;

impl ColumnBuffer {
    /// Adds a VARCHAR.
    ///
    /// # Panics
    /// When the column's text exceeds 4 GiB, far beyond any batch that can be sent.
    #[inline]
    pub fn push_str(&mut self, value: &str) {
        self.expect(ColumnType::Varchar);
        self.append_slice(value.as_bytes());
    }

    /// Adds a BINARY.
    ///
    /// # Panics
    /// When the column's bytes exceed 4 GiB, far beyond any batch that can be sent.
    #[inline]
    pub fn push_bytes(&mut self, value: &[u8]) {
        self.expect(ColumnType::Binary);
        self.append_slice(value);
    }

    /// Adds a `DOUBLE_ARRAY`: the length of each dimension, outermost first, and the elements in
    /// row-major order. An array without elements has a dimension of 0.
    pub fn push_double_array<I>(&mut self, shape: &[usize], values: I) -> Result<(), PushError>
    where
        I: IntoIterator<Item = f64>,
    {
        self.expect(ColumnType::DoubleArray);
        self.append_array(shape, values.into_iter().map(f64::to_le_bytes))
    }

    /// Adds a `LONG_ARRAY`. Servers parse them but have no such column type.
    pub fn push_long_array<I>(&mut self, shape: &[usize], values: I) -> Result<(), PushError>
    where
        I: IntoIterator<Item = i64>,
    {
        self.expect(ColumnType::LongArray);
        self.append_array(shape, values.into_iter().map(i64::to_le_bytes))
    }

    fn append_array(
        &mut self,
        shape: &[usize],
        values: impl Iterator<Item = [u8; 8]>,
    ) -> Result<(), PushError> {
        let expected = array_elements(shape.iter().copied())?;
        let start = self.data.len();
        // At most 32, and each at most `ARRAY_DIM_MAX`: nothing is cut.
        self.data.push(u8::try_from(shape.len()).unwrap_or(0));
        for length in shape {
            let length = i32::try_from(*length).unwrap_or(0);
            self.data.extend_from_slice(&length.to_le_bytes());
        }
        let mut count = 0;
        for value in values.take(expected + 1) {
            self.data.extend_from_slice(&value);
            count += 1;
        }
        if count != expected {
            self.data.truncate(start);
            return Err(PushError::ArrayShape {
                expected,
                values: count,
            });
        }
        self.end_value();
        Ok(())
    }

    #[inline]
    fn append_slice(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.end_value();
    }

    #[inline]
    fn end_value(&mut self) {
        let end = u32::try_from(self.data.len()).expect("a batch's column is smaller than 4 GiB");
        self.ends.push(end);
        self.rows += 1;
    }
}

/// Elements of an array whose dimensions have these lengths, outermost first: what clients may
/// send, by rows and by chunks.
///
/// A dimension of 0 leaves no elements. The others then count as servers multiply them, from the
/// outermost on and in 32 bits: `[268435455, 0]` can be sent, `[268435455, 268435455, 0]` cannot.
pub fn array_elements(shape: impl ExactSizeIterator<Item = usize>) -> Result<usize, PushError> {
    let rank = shape.len();
    if rank == 0 || rank > ARRAY_DIMS_MAX {
        return Err(PushError::ArrayRank { rank });
    }
    let mut product = 1_i32;
    for length in shape {
        let factor = i32::try_from(length)
            .ok()
            .filter(|_| length <= ARRAY_DIM_MAX);
        product = factor
            .and_then(|factor| product.checked_mul(factor))
            .ok_or(PushError::ArrayTooLarge)?;
    }
    usize::try_from(product)
        .ok()
        .filter(|elements| *elements <= ARRAY_BYTES_MAX / 8)
        .ok_or(PushError::ArrayTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_that_do_not_fill_their_shape_are_refused_whole() {
        let mut column = ColumnBuffer::new(ColumnType::DoubleArray);
        let refused = column.push_double_array(&[2, 2], [1.0; 3]);
        assert_eq!(
            refused,
            Err(PushError::ArrayShape {
                expected: 4,
                values: 3
            })
        );
        let refused = column.push_double_array(&[1], [1.0; 9]);
        assert_eq!(
            refused,
            Err(PushError::ArrayShape {
                expected: 1,
                values: 2
            })
        );
        let refused = column.push_double_array(&[], []);
        assert_eq!(refused, Err(PushError::ArrayRank { rank: 0 }));
        let refused = column.push_double_array(&[1; 33], []);
        assert_eq!(refused, Err(PushError::ArrayRank { rank: 33 }));
        let refused = column.push_double_array(&[1 << 28], []);
        assert_eq!(refused, Err(PushError::ArrayTooLarge));
        assert_eq!((column.rows(), column.encoded_len()), (0, 1));
        column.push_double_array(&[2, 0], []).unwrap();
        assert_eq!((column.rows(), column.encoded_len()), (1, 10));
    }

    #[test]
    fn a_dimension_of_0_leaves_no_elements_where_the_others_fit_32_bits() {
        let longest = ARRAY_DIM_MAX;
        let elements = |shape: &[usize]| array_elements(shape.iter().copied());
        for shape in [
            &[longest, 0][..],
            &[0, longest, longest],
            &[8, longest, 0],
            &[0],
        ] {
            assert_eq!(elements(shape), Ok(0), "{shape:?}");
        }
        assert_eq!(elements(&[64 << 20]), Ok(64 << 20));
        assert_eq!(elements(&[8 << 20, 8]), Ok(64 << 20));
        for shape in [
            &[(64 << 20) + 1][..],
            &[64 << 20, 2],
            &[longest, longest, 0],
            &[9, longest, 0],
            &[longest + 1, 0],
            &[0, usize::MAX],
        ] {
            assert_eq!(elements(shape), Err(PushError::ArrayTooLarge), "{shape:?}");
        }
        let mut column = ColumnBuffer::new(ColumnType::DoubleArray);
        column.push_double_array(&[longest, 0], []).unwrap();
        assert_eq!((column.rows(), column.encoded_len()), (1, 10));
    }
}
