//! The column types of an ingest message and their codes (protocol.md section 8).

/// A column type as it stands in a block's column list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ColumnType {
    /// Bit-packed booleans.
    Boolean = 0x01,
    /// 8-bit signed integer.
    Byte = 0x02,
    /// 16-bit signed integer.
    Short = 0x03,
    /// 32-bit signed integer.
    Int = 0x04,
    /// 64-bit signed integer.
    Long = 0x05,
    /// IEEE 754 single precision.
    Float = 0x06,
    /// IEEE 754 double precision.
    Double = 0x07,
    /// Dictionary-coded text; cells are varint ids.
    Symbol = 0x09,
    /// Microseconds since 1970.
    Timestamp = 0x0a,
    /// Milliseconds since 1970.
    Date = 0x0b,
    /// 128 bits as two halves, low half first.
    Uuid = 0x0c,
    /// 256 bits as four words, least significant first.
    Long256 = 0x0d,
    /// 1 to 60 bits, one precision per column and block.
    Geohash = 0x0e,
    /// UTF-8 text.
    Varchar = 0x0f,
    /// Nanoseconds since 1970.
    TimestampNanos = 0x10,
    /// N-dimensional array of doubles.
    DoubleArray = 0x11,
    /// N-dimensional array of longs; parses, but the server cannot store it.
    LongArray = 0x12,
    /// Decimal with a 64-bit unscaled value.
    Decimal64 = 0x13,
    /// Decimal with a 128-bit unscaled value.
    Decimal128 = 0x14,
    /// Decimal with a 256-bit unscaled value.
    Decimal256 = 0x15,
    /// One UTF-16 code unit.
    Char = 0x16,
    /// Opaque bytes.
    Binary = 0x17,
    /// IPv4 address as a number.
    Ipv4 = 0x18,
}

impl ColumnType {
    /// Every type, in the order of the codes.
    pub const ALL: [Self; 23] = [
        Self::Boolean,
        Self::Byte,
        Self::Short,
        Self::Int,
        Self::Long,
        Self::Float,
        Self::Double,
        Self::Symbol,
        Self::Timestamp,
        Self::Date,
        Self::Uuid,
        Self::Long256,
        Self::Geohash,
        Self::Varchar,
        Self::TimestampNanos,
        Self::DoubleArray,
        Self::LongArray,
        Self::Decimal64,
        Self::Decimal128,
        Self::Decimal256,
        Self::Char,
        Self::Binary,
        Self::Ipv4,
    ];

    /// The byte on the wire.
    #[inline]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The type of a byte from the wire; `None` for codes that are not assigned (0x08 among them).
    #[inline]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x01 => Self::Boolean,
            0x02 => Self::Byte,
            0x03 => Self::Short,
            0x04 => Self::Int,
            0x05 => Self::Long,
            0x06 => Self::Float,
            0x07 => Self::Double,
            0x09 => Self::Symbol,
            0x0a => Self::Timestamp,
            0x0b => Self::Date,
            0x0c => Self::Uuid,
            0x0d => Self::Long256,
            0x0e => Self::Geohash,
            0x0f => Self::Varchar,
            0x10 => Self::TimestampNanos,
            0x11 => Self::DoubleArray,
            0x12 => Self::LongArray,
            0x13 => Self::Decimal64,
            0x14 => Self::Decimal128,
            0x15 => Self::Decimal256,
            0x16 => Self::Char,
            0x17 => Self::Binary,
            0x18 => Self::Ipv4,
            _ => return None,
        })
    }

    /// Bytes per value, for the types whose values all have one width that the type alone fixes.
    ///
    /// `None` for booleans (bits), symbols (varints), geohashes (by precision), text, bytes and
    /// arrays. Timestamps are 8 unless they are delta-of-delta coded.
    #[inline]
    pub const fn fixed_width(self) -> Option<usize> {
        Some(match self {
            Self::Byte => 1,
            Self::Short | Self::Char => 2,
            Self::Int | Self::Float | Self::Ipv4 => 4,
            Self::Long
            | Self::Double
            | Self::Timestamp
            | Self::TimestampNanos
            | Self::Date
            | Self::Decimal64 => 8,
            Self::Uuid | Self::Decimal128 => 16,
            Self::Long256 | Self::Decimal256 => 32,
            Self::Boolean
            | Self::Symbol
            | Self::Geohash
            | Self::Varchar
            | Self::Binary
            | Self::DoubleArray
            | Self::LongArray => return None,
        })
    }

    /// Bytes and largest scale (which is the precision, too) of a decimal type's unscaled value.
    #[inline]
    pub const fn decimal_limits(self) -> Option<(usize, u8)> {
        match self {
            Self::Decimal64 => Some((8, 18)),
            Self::Decimal128 => Some((16, 38)),
            Self::Decimal256 => Some((32, 76)),
            _ => None,
        }
    }

    /// Whether the type is one of the two that can be a designated timestamp.
    #[inline]
    pub const fn is_timestamp(self) -> bool {
        matches!(self, Self::Timestamp | Self::TimestampNanos)
    }

    /// The name in the public documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::Byte => "BYTE",
            Self::Short => "SHORT",
            Self::Int => "INT",
            Self::Long => "LONG",
            Self::Float => "FLOAT",
            Self::Double => "DOUBLE",
            Self::Symbol => "SYMBOL",
            Self::Timestamp => "TIMESTAMP",
            Self::Date => "DATE",
            Self::Uuid => "UUID",
            Self::Long256 => "LONG256",
            Self::Geohash => "GEOHASH",
            Self::Varchar => "VARCHAR",
            Self::TimestampNanos => "TIMESTAMP_NANOS",
            Self::DoubleArray => "DOUBLE_ARRAY",
            Self::LongArray => "LONG_ARRAY",
            Self::Decimal64 => "DECIMAL64",
            Self::Decimal128 => "DECIMAL128",
            Self::Decimal256 => "DECIMAL256",
            Self::Char => "CHAR",
            Self::Binary => "BINARY",
            Self::Ipv4 => "IPv4",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_maps_to_one_type_and_back() {
        let known: Vec<ColumnType> = (0..=u8::MAX).filter_map(ColumnType::from_code).collect();
        assert_eq!(known, ColumnType::ALL);
        assert_eq!(ColumnType::from_code(0x08), None);
        assert!(
            known
                .iter()
                .all(|ty| ColumnType::from_code(ty.code()) == Some(*ty))
        );
    }
}
