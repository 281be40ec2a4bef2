//! Values that a column cannot take. The column is left as it was.

/// Why a value is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// A geohash precision outside 1 to 60 bits.
    #[error("geohash precision is {precision} bits, it must be 1 to 60")]
    GeohashPrecision {
        /// The value's precision.
        precision: u8,
    },
    /// A geohash of another precision than the batch's other values of the column.
    #[error("geohash precision is {precision} bits, the column's other values have {column}")]
    GeohashMixed {
        /// The value's precision.
        precision: u8,
        /// The column's precision in this batch.
        column: u8,
    },
    /// Geohash bits above its precision.
    #[error("geohash {bits:#x} does not fit {precision} bits")]
    GeohashBits {
        /// The value.
        bits: u64,
        /// Its precision.
        precision: u8,
    },
    /// More digits behind the point than the type has digits.
    #[error("decimal scale is {scale}, the column's type takes at most {scale_max}")]
    DecimalScale {
        /// The value's scale.
        scale: u8,
        /// The type's largest scale.
        scale_max: u8,
    },
    /// At the scale of the batch, a value does not fit the type.
    #[error("decimal does not fit {width} bytes at scale {scale}, the largest of the batch")]
    DecimalOverflow {
        /// The common scale.
        scale: u8,
        /// Bytes of the type.
        width: usize,
    },
    /// An array of no or more than 32 dimensions.
    #[error("array has {rank} dimensions, it must have 1 to 32")]
    ArrayRank {
        /// Number of dimensions.
        rank: usize,
    },
    /// A dimension or a size in bytes above what clients may send.
    #[error("array is larger than 268435455 per dimension or 536870912 bytes")]
    ArrayTooLarge,
    /// Values that do not fill the shape exactly.
    #[error("array has {values} values where its shape asks for {expected}")]
    ArrayShape {
        /// The product of the dimensions.
        expected: usize,
        /// Values given; counting stops one past `expected`.
        values: usize,
    },
}
