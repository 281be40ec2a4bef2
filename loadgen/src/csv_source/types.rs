//! Column types, their names on the command line, and how a cell becomes a value.

use std::net::Ipv4Addr;
use std::str::FromStr;

use jiff::Timestamp;

/// The type a column is sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// `symbol`: a string from a small set.
    Symbol,
    /// `boolean`: true or false, in any case.
    Boolean,
    /// `byte`: 8-bit integer.
    Byte,
    /// `short`: 16-bit integer.
    Short,
    /// `int`: 32-bit integer.
    Int,
    /// `long`: 64-bit integer.
    Long,
    /// `float`: 32-bit floating point.
    Float,
    /// `double`: 64-bit floating point.
    Double,
    /// `varchar`: UTF-8 text.
    Varchar,
    /// `char`: one UTF-16 code unit.
    Char,
    /// `date`: RFC 3339, kept in milliseconds.
    Date,
    /// `timestamp`: RFC 3339, at most six digits of a second's fraction.
    Timestamp,
    /// `timestamp_ns`: RFC 3339, at most nine digits of a second's fraction.
    TimestampNanos,
    /// `uuid`: 8-4-4-4-12 hexadecimal digits.
    Uuid,
    /// `ipv4`: dotted decimal.
    Ipv4,
}

/// Every type with its name on the command line.
const NAMES: [(&str, ColumnType); 15] = [
    ("symbol", ColumnType::Symbol),
    ("boolean", ColumnType::Boolean),
    ("byte", ColumnType::Byte),
    ("short", ColumnType::Short),
    ("int", ColumnType::Int),
    ("long", ColumnType::Long),
    ("float", ColumnType::Float),
    ("double", ColumnType::Double),
    ("varchar", ColumnType::Varchar),
    ("char", ColumnType::Char),
    ("date", ColumnType::Date),
    ("timestamp", ColumnType::Timestamp),
    ("timestamp_ns", ColumnType::TimestampNanos),
    ("uuid", ColumnType::Uuid),
    ("ipv4", ColumnType::Ipv4),
];

impl FromStr for ColumnType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text));
        known.map(|&(_, column_type)| column_type).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|&(name, _)| name).collect();
            format!("unknown type {text:?}; known are {}", names.join(", "))
        })
    }
}

/// One cell. A text is not copied: [`super::Row::text`] has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// An empty cell: the column is left out of the row.
    Null,
    /// The cell's text as a symbol.
    Symbol,
    /// The cell's text.
    Text,
    /// A boolean.
    Bool(bool),
    /// A byte.
    I8(i8),
    /// A short.
    I16(i16),
    /// An int.
    I32(i32),
    /// A long.
    I64(i64),
    /// A float.
    F32(f32),
    /// A double.
    F64(f64),
    /// A char.
    Char(u16),
    /// Milliseconds since the epoch.
    Date(i64),
    /// Microseconds since the epoch.
    Micros(i64),
    /// Nanoseconds since the epoch.
    Nanos(i64),
    /// The upper and the lower half of a UUID.
    Uuid(u64, u64),
    /// An address.
    Ipv4(Ipv4Addr),
}

impl ColumnType {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(_, known)| *known == self)
            .map_or("?", |&(name, _)| name)
    }

    /// Parses a cell; an empty one is [`Value::Null`].
    ///
    /// # Errors
    /// A sentence with the cell and what is expected.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        if text.is_empty() {
            return Ok(Value::Null);
        }
        match self {
            Self::Symbol => Ok(Value::Symbol),
            Self::Varchar => Ok(Value::Text),
            Self::Boolean => boolean(text),
            Self::Byte => number(text, "an 8-bit integer").map(Value::I8),
            Self::Short => number(text, "a 16-bit integer").map(Value::I16),
            Self::Int => number(text, "a 32-bit integer").map(Value::I32),
            Self::Long => number(text, "a 64-bit integer").map(Value::I64),
            Self::Float => number(text, "a number").map(Value::F32),
            Self::Double => number(text, "a number").map(Value::F64),
            Self::Char => char_unit(text),
            Self::Date => instant(text, 1_000_000).map(Value::Date),
            Self::Timestamp => instant(text, 1_000).map(Value::Micros),
            Self::TimestampNanos => instant(text, 1).map(Value::Nanos),
            Self::Uuid => uuid(text),
            Self::Ipv4 => number(text, "an IPv4 address").map(Value::Ipv4),
        }
    }
}

fn number<T: FromStr>(text: &str, expected: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not {expected}"))
}

fn boolean(text: &str) -> Result<Value, String> {
    if text.eq_ignore_ascii_case("true") {
        Ok(Value::Bool(true))
    } else if text.eq_ignore_ascii_case("false") {
        Ok(Value::Bool(false))
    } else {
        Err(format!("{text:?} is neither true nor false"))
    }
}

fn char_unit(text: &str) -> Result<Value, String> {
    let mut units = text.encode_utf16();
    match (units.next(), units.next()) {
        (Some(unit), None) => Ok(Value::Char(unit)),
        _ => Err(format!("{text:?} is not one UTF-16 code unit")),
    }
}

/// Parses RFC 3339 into units of `unit_nanos` nanoseconds; digits that the unit cannot hold are an
/// error rather than lost.
fn instant(text: &str, unit_nanos: i128) -> Result<i64, String> {
    let parsed: Timestamp = text
        .parse()
        .map_err(|error| format!("{text:?} is not an RFC 3339 time: {error}"))?;
    let nanos = parsed.as_nanosecond();
    if nanos % unit_nanos != 0 {
        return Err(format!(
            "{text:?} has more digits than the type holds; timestamp_ns holds 9"
        ));
    }
    i64::try_from(nanos / unit_nanos).map_err(|_| format!("{text:?} is out of range"))
}

fn uuid(text: &str) -> Result<Value, String> {
    let bad = || format!("{text:?} is not a UUID (8-4-4-4-12 hexadecimal digits)");
    let mut value: u128 = 0;
    let mut groups = text.split('-');
    for digits in [8, 4, 4, 4, 12_usize] {
        let group = groups
            .next()
            .filter(|group| group.len() == digits)
            .ok_or_else(bad)?;
        if !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let part = u128::from_str_radix(group, 16).map_err(|_| bad())?;
        value = (value << (4 * digits)) | part;
    }
    if groups.next().is_some() {
        return Err(bad());
    }
    let half = |shift: u32| u64::try_from((value >> shift) & u128::from(u64::MAX));
    let (Ok(hi), Ok(lo)) = (half(64), half(0)) else {
        return Err(bad());
    };
    Ok(Value::Uuid(hi, lo))
}

#[cfg(test)]
mod tests {
    use super::{ColumnType, NAMES, Value};

    #[test]
    fn every_name_parses_to_its_type() {
        for (name, column_type) in NAMES {
            assert_eq!(name.parse(), Ok(column_type));
            assert_eq!(column_type.name(), name);
        }
        let error = "decimal".parse::<ColumnType>().unwrap_err();
        assert!(
            error.contains("\"decimal\"") && error.contains("timestamp_ns"),
            "{error}"
        );
    }

    #[test]
    fn cells_become_values() {
        let cases = [
            (ColumnType::Boolean, "TRUE", Value::Bool(true)),
            (ColumnType::Byte, "-128", Value::I8(-128)),
            (ColumnType::Short, "32767", Value::I16(32767)),
            (ColumnType::Int, "-5", Value::I32(-5)),
            (
                ColumnType::Long,
                "9223372036854775807",
                Value::I64(i64::MAX),
            ),
            (ColumnType::Float, "1.5", Value::F32(1.5)),
            (ColumnType::Double, "3.844E-5", Value::F64(3.844e-5)),
            (ColumnType::Varchar, "x", Value::Text),
            (ColumnType::Symbol, "x", Value::Symbol),
            (ColumnType::Char, "é", Value::Char(0xE9)),
            (
                ColumnType::Date,
                "1970-01-01T00:00:01.5Z",
                Value::Date(1_500),
            ),
            (
                ColumnType::Timestamp,
                "1970-01-01T00:00:00.000007Z",
                Value::Micros(7),
            ),
            (
                ColumnType::TimestampNanos,
                "1970-01-01T01:00:00+01:00",
                Value::Nanos(0),
            ),
            (
                ColumnType::Uuid,
                "00112233-4455-6677-8899-aabbccddeeff",
                Value::Uuid(0x0011_2233_4455_6677, 0x8899_aabb_ccdd_eeff),
            ),
            (
                ColumnType::Ipv4,
                "10.0.0.1",
                Value::Ipv4([10, 0, 0, 1].into()),
            ),
            (ColumnType::Double, "", Value::Null),
        ];
        for (column_type, text, value) in cases {
            assert_eq!(column_type.parse(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn cells_that_do_not_fit_are_errors() {
        for (column_type, text) in [
            (ColumnType::Boolean, "yes"),
            (ColumnType::Byte, "128"),
            (ColumnType::Long, "1.0"),
            (ColumnType::Double, "1,5"),
            (ColumnType::Char, "ab"),
            (ColumnType::Timestamp, "2023-09-05"),
            (ColumnType::Timestamp, "2023-09-05T16:00:00.0000001Z"),
            (ColumnType::Uuid, "00112233-4455-6677-8899-aabbccddeef"),
            (ColumnType::Uuid, "+0112233-4455-6677-8899-aabbccddeeff"),
            (ColumnType::Ipv4, "10.0.0"),
        ] {
            let reason = column_type.parse(text).unwrap_err();
            assert!(reason.contains(text), "{reason}");
        }
    }
}
