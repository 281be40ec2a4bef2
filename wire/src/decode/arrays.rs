//! N-dimensional arrays: per value `dims:u8 dims × length:i32 product × 8 bytes`, row-major.

use std::marker::PhantomData;

use super::fixed::{Fixed, FixedValue};
use super::{DecodeError, Mode, Reason};
use crate::reader::Reader;
use crate::types::ColumnType;

/// Most dimensions of an array.
const DIMS_MAX: u8 = 32;

/// The lengths of an array's dimensions, outermost first.
pub type Dims<'a> = Fixed<'a, u32>;

/// The values of an array column. They have no common size, so they are reached in order only.
#[derive(Clone, Copy, Debug)]
pub struct Arrays<'a, T> {
    bytes: &'a [u8],
    count: usize,
    element: PhantomData<T>,
}

impl<'a, T: FixedValue> Arrays<'a, T> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        ty: ColumnType,
        count: usize,
    ) -> Result<Self, DecodeError> {
        let start = reader.at();
        for _ in 0..count {
            read_array(reader, ty)?;
        }
        Ok(Self {
            bytes: reader.since(start),
            count,
            element: PhantomData,
        })
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The values in order.
    #[inline]
    pub fn iter(&self) -> ArraysIter<'a, T> {
        let rest = Reader::new(self.bytes, 0, Mode::Genuine);
        ArraysIter {
            rest,
            left: self.count,
            element: PhantomData,
        }
    }
}

impl<'a, T: FixedValue> IntoIterator for &Arrays<'a, T> {
    type Item = ArrayValue<'a, T>;
    type IntoIter = ArraysIter<'a, T>;

    fn into_iter(self) -> ArraysIter<'a, T> {
        self.iter()
    }
}

/// One array.
#[derive(Clone, Copy, Debug)]
pub struct ArrayValue<'a, T: FixedValue> {
    /// Length of each dimension, outermost first; never empty.
    pub dims: Dims<'a>,
    /// The elements, row-major.
    pub elements: Fixed<'a, T>,
}

/// Iterator over [`Arrays`].
#[derive(Clone, Debug)]
pub struct ArraysIter<'a, T> {
    rest: Reader<'a>,
    left: usize,
    element: PhantomData<T>,
}

impl<'a, T: FixedValue> Iterator for ArraysIter<'a, T> {
    type Item = ArrayValue<'a, T>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        // Checked when the column was read.
        let (dims, elements) = read_array(&mut self.rest, ColumnType::DoubleArray).ok()?;
        Some(ArrayValue {
            dims: Fixed::new(dims),
            elements: Fixed::new(elements),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T: FixedValue> ExactSizeIterator for ArraysIter<'_, T> {}

/// The bytes of one array's dimensions and elements.
fn read_array<'a>(
    reader: &mut Reader<'a>,
    ty: ColumnType,
) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
    let short = Reason::ValuesTruncated { ty };
    let start = *reader;
    let rank = reader.byte(short)?;
    if rank == 0 || rank > DIMS_MAX {
        return start.fail(Reason::ArrayRank { dims: rank });
    }
    let dims_at = *reader;
    let dims = reader.take_values(usize::from(rank), 4, short)?;
    let mut elements = 1_i32;
    for length in &Fixed::<i32>::new(dims) {
        if length < 0 {
            return dims_at.fail(Reason::ArrayDim { length });
        }
        let Some(product) = elements.checked_mul(length) else {
            return dims_at.fail(Reason::ArrayTooLarge);
        };
        elements = product;
    }
    let count = usize::try_from(elements).unwrap_or(usize::MAX);
    Ok((dims, reader.take_values(count, 8, short)?))
}
