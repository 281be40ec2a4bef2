//! Text and bytes: `(n + 1) × u32` offsets, then everything concatenated.

use super::fixed::Fixed;
use super::{DecodeError, Mode, Reason, StrictRule};
use crate::reader::Reader;
use crate::types::ColumnType;

/// The values of a BINARY column.
///
/// Offsets that fall or point outside are tolerated in [`Mode::Genuine`]: such a value has no
/// bytes to show, and [`Binary::get`] is `None` for it.
#[derive(Clone, Copy, Debug)]
pub struct Binary<'a> {
    /// One more than there are values.
    offsets: Fixed<'a, u32>,
    data: &'a [u8],
}

impl<'a> Binary<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        ty: ColumnType,
        count: usize,
        mode: Mode,
    ) -> Result<Self, DecodeError> {
        let short = Reason::ValuesTruncated { ty };
        let start = *reader;
        let Some(offsets) = count.checked_add(1) else {
            return start.fail(short);
        };
        let offsets = Fixed::<u32>::new(reader.take_values(offsets, 4, short)?);
        if mode == Mode::Strict {
            check_rising(start, &offsets)?;
        }
        let total = offsets.get(count).unwrap_or(0);
        let data = reader.take(usize::try_from(total).unwrap_or(usize::MAX), short)?;
        Ok(Self { offsets, data })
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all values together.
    #[inline]
    pub fn data_len(&self) -> usize {
        self.data.len()
    }

    /// The value at `index` among the values present.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offsets.get(index)?).ok()?;
        let end = usize::try_from(self.offsets.get(index.checked_add(1)?)?).ok()?;
        self.data.get(start..end)
    }

    /// The values in order; `None` for one whose offsets make no sense.
    #[inline]
    pub fn iter(&self) -> BinaryIter<'a> {
        BinaryIter {
            values: *self,
            at: 0,
        }
    }
}

fn check_rising(start: Reader<'_>, offsets: &Fixed<'_, u32>) -> Result<(), DecodeError> {
    let mut previous = None;
    for (index, offset) in offsets.iter().enumerate() {
        if previous.map_or(offset != 0, |before| offset < before) {
            let at = start.at().saturating_add(index.saturating_mul(4));
            return Err(DecodeError::new(at, Reason::Strict(StrictRule::Offsets)));
        }
        previous = Some(offset);
    }
    Ok(())
}

/// Iterator over [`Binary`].
#[derive(Clone, Debug)]
pub struct BinaryIter<'a> {
    values: Binary<'a>,
    at: usize,
}

impl<'a> Iterator for BinaryIter<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.values.len() {
            return None;
        }
        let value = self.values.get(self.at);
        self.at = self.at.saturating_add(1);
        Some(value)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.values.len().saturating_sub(self.at);
        (left, Some(left))
    }
}

impl ExactSizeIterator for BinaryIter<'_> {}

/// The values of a VARCHAR column. In [`Mode::Genuine`] a value may turn out not to be text.
#[derive(Clone, Copy, Debug)]
pub struct Strings<'a> {
    bytes: Binary<'a>,
}

impl<'a> Strings<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        count: usize,
        mode: Mode,
    ) -> Result<Self, DecodeError> {
        let bytes = Binary::read(reader, ColumnType::Varchar, count, mode)?;
        let strings = Self { bytes };
        if mode == Mode::Strict && strings.iter().any(|text| text.is_none()) {
            let at = reader.at().saturating_sub(bytes.data.len());
            return Err(DecodeError::new(
                at,
                Reason::Strict(StrictRule::VarcharNotUtf8),
            ));
        }
        Ok(strings)
    }

    /// The values without the promise that they are text.
    #[inline]
    pub fn as_binary(&self) -> Binary<'a> {
        self.bytes
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The value at `index` among the values present; `None` when it is not UTF-8.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a str> {
        std::str::from_utf8(self.bytes.get(index)?).ok()
    }

    /// The values in order; `None` for one that is not UTF-8.
    #[inline]
    pub fn iter(&self) -> StringsIter<'a> {
        StringsIter {
            bytes: self.bytes.iter(),
        }
    }
}

/// Iterator over [`Strings`].
#[derive(Clone, Debug)]
pub struct StringsIter<'a> {
    bytes: BinaryIter<'a>,
}

impl<'a> Iterator for StringsIter<'a> {
    type Item = Option<&'a str>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some(
            self.bytes
                .next()?
                .and_then(|bytes| std::str::from_utf8(bytes).ok()),
        )
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.bytes.size_hint()
    }
}

impl ExactSizeIterator for StringsIter<'_> {}

impl<'a> IntoIterator for &Binary<'a> {
    type Item = Option<&'a [u8]>;
    type IntoIter = BinaryIter<'a>;

    fn into_iter(self) -> BinaryIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Strings<'a> {
    type Item = Option<&'a str>;
    type IntoIter = StringsIter<'a>;

    fn into_iter(self) -> StringsIter<'a> {
        self.iter()
    }
}
