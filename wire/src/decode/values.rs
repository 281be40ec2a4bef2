//! The values of a column as a typed view: which view belongs to which type.

use super::table::Context;
use super::{
    Arrays, Binary, Bools, Decimals, DecodeError, Fixed, Geohashes, Reason, Strings, SymbolIds,
    Timestamps, Uuid,
};
use crate::header::Flags;
use crate::reader::Reader;
use crate::types::ColumnType;

/// The values that a column has on the wire: those of all rows without a null bitmap, those of
/// the rows that are not null with one.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// BOOLEAN.
    Boolean(Bools<'a>),
    /// BYTE.
    Byte(Fixed<'a, i8>),
    /// SHORT.
    Short(Fixed<'a, i16>),
    /// INT.
    Int(Fixed<'a, i32>),
    /// LONG.
    Long(Fixed<'a, i64>),
    /// FLOAT.
    Float(Fixed<'a, f32>),
    /// DOUBLE.
    Double(Fixed<'a, f64>),
    /// SYMBOL.
    Symbol(SymbolIds<'a>),
    /// TIMESTAMP, microseconds.
    Timestamp(Timestamps<'a>),
    /// `TIMESTAMP_NANOS`, nanoseconds.
    TimestampNanos(Timestamps<'a>),
    /// DATE, milliseconds.
    Date(Fixed<'a, i64>),
    /// UUID.
    Uuid(Fixed<'a, Uuid>),
    /// LONG256, least significant word first.
    Long256(Fixed<'a, [u64; 4]>),
    /// GEOHASH.
    Geohash(Geohashes<'a>),
    /// VARCHAR.
    Varchar(Strings<'a>),
    /// BINARY.
    Binary(Binary<'a>),
    /// `DOUBLE_ARRAY`.
    DoubleArray(Arrays<'a, f64>),
    /// `LONG_ARRAY`.
    LongArray(Arrays<'a, i64>),
    /// DECIMAL64, DECIMAL128 and DECIMAL256.
    Decimal(Decimals<'a>),
    /// CHAR, one UTF-16 code unit.
    Char(Fixed<'a, u16>),
    /// IPv4 as a number.
    Ipv4(Fixed<'a, u32>),
}

impl<'a> Values<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        ty: ColumnType,
        count: usize,
        context: Context,
    ) -> Result<Self, DecodeError> {
        let short = Reason::ValuesTruncated { ty };
        let mode = context.mode;
        let marked = context.flags.contains(Flags::GORILLA);
        Ok(match ty {
            ColumnType::Boolean => {
                Self::Boolean(Bools::new(reader.take(count.div_ceil(8), short)?, count))
            }
            ColumnType::Byte => Self::Byte(Fixed::new(reader.take_values(count, 1, short)?)),
            ColumnType::Short => Self::Short(Fixed::new(reader.take_values(count, 2, short)?)),
            ColumnType::Char => Self::Char(Fixed::new(reader.take_values(count, 2, short)?)),
            ColumnType::Int => Self::Int(Fixed::new(reader.take_values(count, 4, short)?)),
            ColumnType::Float => Self::Float(Fixed::new(reader.take_values(count, 4, short)?)),
            ColumnType::Ipv4 => Self::Ipv4(Fixed::new(reader.take_values(count, 4, short)?)),
            ColumnType::Long => Self::Long(Fixed::new(reader.take_values(count, 8, short)?)),
            ColumnType::Double => Self::Double(Fixed::new(reader.take_values(count, 8, short)?)),
            ColumnType::Date => Self::Date(Fixed::new(reader.take_values(count, 8, short)?)),
            ColumnType::Uuid => Self::Uuid(Fixed::new(reader.take_values(count, 16, short)?)),
            ColumnType::Long256 => Self::Long256(Fixed::new(reader.take_values(count, 32, short)?)),
            ColumnType::Symbol if context.flags.contains(Flags::DELTA_SYMBOL_DICT) => {
                Self::Symbol(SymbolIds::read_global(reader, count, context.symbols)?)
            }
            ColumnType::Symbol => Self::Symbol(SymbolIds::read_local(reader, count)?),
            ColumnType::Timestamp => Self::Timestamp(Timestamps::read(reader, ty, count, marked)?),
            ColumnType::TimestampNanos => {
                Self::TimestampNanos(Timestamps::read(reader, ty, count, marked)?)
            }
            ColumnType::Geohash => Self::Geohash(Geohashes::read(reader, count)?),
            ColumnType::Varchar => Self::Varchar(Strings::read(reader, count, mode)?),
            ColumnType::Binary => Self::Binary(Binary::read(reader, ty, count, mode)?),
            ColumnType::DoubleArray => Self::DoubleArray(Arrays::read(reader, ty, count)?),
            ColumnType::LongArray => Self::LongArray(Arrays::read(reader, ty, count)?),
            ColumnType::Decimal64 | ColumnType::Decimal128 | ColumnType::Decimal256 => {
                Self::Decimal(Decimals::read(reader, ty, count, mode)?)
            }
        })
    }

    /// Number of values on the wire.
    pub fn len(&self) -> usize {
        match self {
            Self::Boolean(values) => values.len(),
            Self::Byte(values) => values.len(),
            Self::Short(values) => values.len(),
            Self::Int(values) => values.len(),
            Self::Long(values) | Self::Date(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Double(values) => values.len(),
            Self::Symbol(values) => values.len(),
            Self::Timestamp(values) | Self::TimestampNanos(values) => values.len(),
            Self::Uuid(values) => values.len(),
            Self::Long256(values) => values.len(),
            Self::Geohash(values) => values.len(),
            Self::Varchar(values) => values.len(),
            Self::Binary(values) => values.len(),
            Self::DoubleArray(values) => values.len(),
            Self::LongArray(values) => values.len(),
            Self::Decimal(values) => values.len(),
            Self::Char(values) => values.len(),
            Self::Ipv4(values) => values.len(),
        }
    }

    /// Whether there is no value on the wire.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
