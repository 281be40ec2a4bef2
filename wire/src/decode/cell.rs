//! One value of any type, for tests and peers that compare or print rows. Hot paths use the typed
//! views of [`super::Values`] instead.

use super::{ArrayValue, Uuid};
use crate::decimal::Unscaled;

/// One value.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    /// BOOLEAN.
    Boolean(bool),
    /// BYTE, SHORT, INT, LONG.
    Integer(i64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// SYMBOL: an id, of the column's own dictionary if it has one.
    Symbol(u64),
    /// TIMESTAMP, `TIMESTAMP_NANOS`, DATE: in the column's unit.
    Time(i64),
    /// UUID.
    Uuid(Uuid),
    /// LONG256, least significant word first.
    Long256([u64; 4]),
    /// GEOHASH.
    Geohash {
        /// The value.
        bits: u64,
        /// How many bits of it count.
        precision: u8,
        /// Whether all its bytes are ones, which means NULL in a column without a bitmap.
        sentinel: bool,
    },
    /// VARCHAR; the raw bytes if they are not text.
    Text(Result<&'a str, &'a [u8]>),
    /// BINARY.
    Bytes(&'a [u8]),
    /// `DOUBLE_ARRAY`.
    DoubleArray(ArrayValue<'a, f64>),
    /// `LONG_ARRAY`.
    LongArray(ArrayValue<'a, i64>),
    /// Any DECIMAL.
    Decimal {
        /// The number without its point.
        unscaled: Unscaled,
        /// Digits behind the point.
        scale: u8,
    },
    /// CHAR.
    Char(u16),
    /// IPv4.
    Ipv4(u32),
}
