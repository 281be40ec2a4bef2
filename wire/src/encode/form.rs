//! The form of a column on the wire, by its type: the same for rows and for slices.

use crate::types::ColumnType;

/// The 32-bit quiet NaN that means NULL.
pub(super) const NAN_32: u32 = 0x7fc0_0000;
/// The 64-bit quiet NaN that means NULL.
pub(super) const NAN_64: u64 = 0x7ff8_0000_0000_0000;

/// Whether a NULL of this type is written as a value that means it.
pub(super) fn has_sentinel(ty: ColumnType) -> bool {
    matches!(
        ty,
        ColumnType::Boolean
            | ColumnType::Byte
            | ColumnType::Short
            | ColumnType::Char
            | ColumnType::Int
            | ColumnType::Long
            | ColumnType::Float
            | ColumnType::Double
    )
}

/// Whether a column with so many NULLs needs a bitmap. A geohash whose bits fill its bytes always
/// has one: its largest value would be the sentinel.
pub(super) fn has_bitmap(ty: ColumnType, parameter: u8, nulls: usize) -> bool {
    let aligned = ty == ColumnType::Geohash && parameter.is_multiple_of(8);
    aligned || (nulls > 0 && !has_sentinel(ty))
}

/// Bytes between null section and data: a decimal's scale, a geohash's precision (whose varint is
/// one byte).
pub(super) fn parameter_len(ty: ColumnType) -> usize {
    usize::from(ty == ColumnType::Geohash || ty.decimal_limits().is_some())
}

/// Bytes of one value; `None` where it differs from row to row, or is a bit.
#[inline]
pub(super) fn value_width(ty: ColumnType, parameter: u8) -> Option<usize> {
    match ty {
        ColumnType::Symbol => Some(4),
        ColumnType::Geohash => Some(usize::from(parameter.div_ceil(8))),
        ty => ty.fixed_width(),
    }
}
