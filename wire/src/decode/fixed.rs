//! Values of one width, read in place from the message.

/// A value that takes the same number of bytes in every cell.
///
/// Implemented for the numbers of the protocol; there is nothing to implement elsewhere.
pub trait FixedValue: Copy + sealed::Sealed {
    /// The bytes of one cell.
    type Raw: Copy + std::fmt::Debug + 'static;

    /// Cuts a column's data into cells; bytes that do not fill a cell are left out.
    fn split(data: &[u8]) -> &[Self::Raw];

    /// The value of one cell.
    fn from_raw(raw: Self::Raw) -> Self;
}

mod sealed {
    /// Keeps [`super::FixedValue`] to this crate.
    pub trait Sealed {}
}

macro_rules! fixed_values {
    ($($ty:ty: $width:literal),* $(,)?) => {$(
        impl sealed::Sealed for $ty {}

        impl FixedValue for $ty {
            type Raw = [u8; $width];

            #[inline]
            fn split(data: &[u8]) -> &[[u8; $width]] {
                data.as_chunks().0
            }

            #[inline]
            fn from_raw(raw: [u8; $width]) -> Self {
                Self::from_le_bytes(raw)
            }
        }
    )*};
}

fixed_values!(i8: 1, i16: 2, u16: 2, i32: 4, u32: 4, i64: 8, f32: 4, f64: 8, i128: 16);

/// A UUID as the two halves it travels in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Uuid {
    /// The less significant 64 bits.
    pub lo: u64,
    /// The more significant 64 bits.
    pub hi: u64,
}

impl sealed::Sealed for Uuid {}

impl FixedValue for Uuid {
    type Raw = [u8; 16];

    #[inline]
    fn split(data: &[u8]) -> &[[u8; 16]] {
        data.as_chunks().0
    }

    #[inline]
    fn from_raw(raw: [u8; 16]) -> Self {
        let [lo, hi] = words(raw);
        Self { lo, hi }
    }
}

impl sealed::Sealed for [u64; 4] {}

/// LONG256: four words, least significant first.
impl FixedValue for [u64; 4] {
    type Raw = [u8; 32];

    #[inline]
    fn split(data: &[u8]) -> &[[u8; 32]] {
        data.as_chunks().0
    }

    #[inline]
    fn from_raw(raw: [u8; 32]) -> Self {
        words(raw)
    }
}

/// The little-endian words of a cell.
#[inline]
fn words<const BYTES: usize, const WORDS: usize>(raw: [u8; BYTES]) -> [u64; WORDS] {
    let mut out = [0; WORDS];
    for (word, bytes) in out.iter_mut().zip(raw.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    out
}

/// A run of values of one width.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<'a, T: FixedValue> {
    cells: &'a [T::Raw],
}

impl<'a, T: FixedValue> Fixed<'a, T> {
    #[inline]
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self {
            cells: T::split(data),
        }
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The value at `index` among the values present.
    #[inline]
    pub fn get(&self, index: usize) -> Option<T> {
        self.cells.get(index).map(|raw| T::from_raw(*raw))
    }

    /// The values in order.
    #[inline]
    pub fn iter(&self) -> FixedIter<'a, T> {
        FixedIter {
            cells: self.cells.iter(),
        }
    }
}

impl<'a, T: FixedValue> IntoIterator for &Fixed<'a, T> {
    type Item = T;
    type IntoIter = FixedIter<'a, T>;

    fn into_iter(self) -> FixedIter<'a, T> {
        self.iter()
    }
}

/// Iterator over [`Fixed`].
#[derive(Clone, Debug)]
pub struct FixedIter<'a, T: FixedValue> {
    cells: std::slice::Iter<'a, T::Raw>,
}

impl<T: FixedValue> Iterator for FixedIter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.cells.next().map(|raw| T::from_raw(*raw))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.cells.size_hint()
    }
}

impl<T: FixedValue> ExactSizeIterator for FixedIter<'_, T> {}
