//! Bit-packed booleans.

/// The values of a BOOLEAN column, least significant bit first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bools<'a> {
    bits: &'a [u8],
    count: usize,
}

impl<'a> Bools<'a> {
    pub(super) fn new(bits: &'a [u8], count: usize) -> Self {
        Self { bits, count }
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

    /// The value at `index` among the values present.
    #[inline]
    pub fn get(&self, index: usize) -> Option<bool> {
        if index >= self.count {
            return None;
        }
        self.bits
            .get(index >> 3)
            .map(|byte| (byte >> (index & 7)) & 1 == 1)
    }

    /// The values in order.
    #[inline]
    pub fn iter(&self) -> BoolsIter<'a> {
        BoolsIter {
            bools: *self,
            at: 0,
        }
    }
}

impl<'a> IntoIterator for &Bools<'a> {
    type Item = bool;
    type IntoIter = BoolsIter<'a>;

    fn into_iter(self) -> BoolsIter<'a> {
        self.iter()
    }
}

/// Iterator over [`Bools`].
#[derive(Clone, Debug)]
pub struct BoolsIter<'a> {
    bools: Bools<'a>,
    at: usize,
}

impl Iterator for BoolsIter<'_> {
    type Item = bool;

    #[inline]
    fn next(&mut self) -> Option<bool> {
        let value = self.bools.get(self.at)?;
        self.at = self.at.saturating_add(1);
        Some(value)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.bools.count.saturating_sub(self.at);
        (left, Some(left))
    }
}

impl ExactSizeIterator for BoolsIter<'_> {}
