//! Looking at every value of a table block, as a server that stores them would have to.

use std::hint::black_box;

use forebay_wire::decode::{DecodeError, FixedValue, Table, Values};
use forebay_wire::dict::ConnectionDict;

/// Reads each value of the block once. The block's sections and symbol ids have been checked when
/// it was parsed; what is left to find is an id without a text, which would be a bug there.
pub(super) fn walk(table: &Table<'_>, dict: &ConnectionDict) -> Result<(), DecodeError> {
    let mut sum = 0_u64;
    for column in table.columns() {
        let column = column?;
        sum = sum.wrapping_add(values(&column.values, dict));
    }
    black_box(sum);
    Ok(())
}

/// A sum that every value goes into, so that the compiler cannot leave any of them out.
fn values(values: &Values<'_>, dict: &ConnectionDict) -> u64 {
    match values {
        Values::Boolean(bools) => total(bools.iter().map(u64::from)),
        Values::Byte(fixed) => fixed_total(fixed, |v| u64::from(v.cast_unsigned())),
        Values::Short(fixed) => fixed_total(fixed, |v| u64::from(v.cast_unsigned())),
        Values::Int(fixed) => fixed_total(fixed, |v| u64::from(v.cast_unsigned())),
        Values::Long(fixed) | Values::Date(fixed) => fixed_total(fixed, i64::cast_unsigned),
        Values::Float(fixed) => fixed_total(fixed, |v| u64::from(v.to_bits())),
        Values::Double(fixed) => fixed_total(fixed, f64::to_bits),
        Values::Symbol(ids) => match ids.local() {
            Some(local) => {
                let texts: Vec<&str> = local.iter().collect();
                let text = |id: u64| texts.get(usize::try_from(id).ok()?).copied();
                total(ids.iter().map(|id| text(id).map_or(0, first_byte)))
            }
            None => total(ids.iter().map(|id| dict.get(id).map_or(0, first_byte))),
        },
        Values::Timestamp(times) | Values::TimestampNanos(times) => {
            total(times.iter().map(i64::cast_unsigned))
        }
        Values::Uuid(fixed) => fixed_total(fixed, |v| v.lo ^ v.hi),
        Values::Long256(fixed) => fixed_total(fixed, |v| v.iter().fold(0, |a, b| a ^ b)),
        Values::Geohash(geohashes) => total(geohashes.iter()),
        Values::Varchar(strings) => total(strings.iter().map(|text| text.map_or(0, first_byte))),
        Values::Binary(binary) => total(binary.iter().map(|b| b.map_or(0, |b| b.len() as u64))),
        Values::DoubleArray(arrays) => total(
            arrays
                .iter()
                .map(|array| total(array.elements.iter().map(f64::to_bits))),
        ),
        Values::LongArray(arrays) => total(
            arrays
                .iter()
                .map(|array| total(array.elements.iter().map(i64::cast_unsigned))),
        ),
        Values::Decimal(decimals) => total(decimals.iter().map(|v| u64::from(v.is_negative()))),
        Values::Char(fixed) => fixed_total(fixed, u64::from),
        Values::Ipv4(fixed) => fixed_total(fixed, u64::from),
    }
}

fn fixed_total<T: FixedValue>(
    fixed: &forebay_wire::decode::Fixed<'_, T>,
    bits: impl Fn(T) -> u64,
) -> u64 {
    total(fixed.iter().map(bits))
}

fn total(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::wrapping_add)
}

fn first_byte(text: &str) -> u64 {
    text.as_bytes().first().copied().map_or(0, u64::from) + text.len() as u64
}
