//! Numbers whose width a column's own header fixes: geohashes and decimals.

use super::{DecodeError, Mode, Reason, StrictRule};
use crate::decimal::Unscaled;
use crate::reader::Reader;
use crate::types::ColumnType;

/// The values of a GEOHASH column: `precision:varint` then cells of whole bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geohashes<'a> {
    precision: u8,
    width: usize,
    cells: &'a [u8],
}

impl<'a> Geohashes<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, count: usize) -> Result<Self, DecodeError> {
        let short = Reason::ValuesTruncated {
            ty: ColumnType::Geohash,
        };
        let start = *reader;
        let precision = reader.varint(short)?;
        let Some(bits) = u8::try_from(precision)
            .ok()
            .filter(|bits| (1..=60).contains(bits))
        else {
            return start.fail(Reason::GeohashPrecision { precision });
        };
        let width = usize::from(bits.div_ceil(8));
        let cells = reader.take_values(count, width, short)?;
        Ok(Self {
            precision: bits,
            width,
            cells,
        })
    }

    /// Bits per value, 1 to 60.
    #[inline]
    pub fn precision(&self) -> u8 {
        self.precision
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.width).unwrap_or(0)
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The value at `index` among the values present, with all the bits of its bytes.
    #[inline]
    pub fn get(&self, index: usize) -> Option<u64> {
        let start = index.checked_mul(self.width)?;
        let cell = self.cells.get(start..start.checked_add(self.width)?)?;
        Some(
            cell.iter()
                .rev()
                .fold(0, |value, byte| (value << 8) | u64::from(*byte)),
        )
    }

    /// The values in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let hashes = *self;
        (0..hashes.len()).map(move |index| hashes.get(index).unwrap_or(0))
    }

    /// The value that stands for NULL in a column without a bitmap: ones in all its bytes.
    #[inline]
    pub fn sentinel(&self) -> u64 {
        (0..self.width).fold(0, |value, _| (value << 8) | 0xff)
    }
}

/// The values of a DECIMAL column: `scale:u8` then cells in two's complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimals<'a> {
    scale: u8,
    width: usize,
    cells: &'a [u8],
}

impl<'a> Decimals<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        ty: ColumnType,
        count: usize,
        mode: Mode,
    ) -> Result<Self, DecodeError> {
        let short = Reason::ValuesTruncated { ty };
        let start = *reader;
        let scale = reader.byte(short)?;
        let (width, scale_max) = ty.decimal_limits().unwrap_or((8, 18));
        if mode == Mode::Strict && scale > scale_max {
            return start.fail(Reason::Strict(StrictRule::DecimalScale { scale }));
        }
        let cells = reader.take_values(count, width, short)?;
        Ok(Self {
            scale,
            width,
            cells,
        })
    }

    /// Digits behind the point, the same for every value.
    #[inline]
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// Bytes per value: 8, 16 or 32.
    #[inline]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.width).unwrap_or(0)
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The unscaled value at `index` among the values present.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Unscaled> {
        let start = index.checked_mul(self.width)?;
        self.cells
            .get(start..start.checked_add(self.width)?)
            .map(Unscaled::from_le_slice)
    }

    /// The unscaled values in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Unscaled> + use<'a> {
        let decimals = *self;
        (0..decimals.len()).map(move |index| decimals.get(index).unwrap_or(Unscaled::ZERO))
    }
}
