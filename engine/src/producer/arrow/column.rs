//! Which column type an Arrow type becomes, and how.

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, PrimitiveArray};
use arrow_schema::{DataType, Field, TimeUnit};
use forebay_wire::types::ColumnType;

use super::data::{Converted, Data};
use super::nested;

const DAY_MILLIS: i64 = 86_400_000;

/// The column, or why it is refused.
pub(super) fn convert<'a>(field: &'a Field, array: &'a dyn Array) -> Result<Converted<'a>, String> {
    let wanted = field
        .metadata()
        .get("questdb.column_type")
        .map(String::as_str);
    let data = match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().values();
            Data::Bits {
                bits: values.values(),
                offset: values.offset(),
            }
        }
        DataType::Float16 => {
            let values = values::<Float16Type>(array).iter();
            Data::F32(values.map(|value| value.to_f32()).collect())
        }
        DataType::Float32 => Data::F32(Cow::Borrowed(values::<Float32Type>(array))),
        DataType::Float64 => Data::F64(values::<Float64Type>(array)),
        ty if ty.is_integer() => integer(array, wanted)?,
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => time(array)?,
        DataType::Decimal32(_, scale) => {
            let values = values::<Decimal32Type>(array).iter().copied();
            Data::Dec64(values.map(i64::from).collect(), unsigned(*scale)?)
        }
        DataType::Decimal64(_, scale) => {
            let values = values::<Decimal64Type>(array);
            Data::Dec64(Cow::Borrowed(values), unsigned(*scale)?)
        }
        DataType::Decimal128(_, scale) => {
            Data::Dec128(values::<Decimal128Type>(array), unsigned(*scale)?)
        }
        DataType::Decimal256(_, scale) => {
            // Arrow keeps them in the machine's order, which is the wire's on every Linux that
            // this crate is built for.
            let bytes = array.as_primitive::<Decimal256Type>().values().inner();
            Data::Dec256(bytes.as_slice().as_chunks().0, unsigned(*scale)?)
        }
        _ => nested::convert(field, array, wanted)?,
    };
    Ok(Converted {
        name: field.name(),
        nulls: array.logical_nulls(),
        data,
    })
}

/// The values of a primitive column as they lie in memory.
fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    let array: &PrimitiveArray<T> = array.as_primitive();
    array.values()
}

fn unsigned(scale: i8) -> Result<u8, String> {
    u8::try_from(scale).map_err(|_| format!("a decimal of scale {scale}: scales begin at 0"))
}

/// What is refused, by its name.
pub(super) fn unsupported(ty: &DataType, wanted: Option<&str>) -> String {
    match wanted {
        Some(wanted) => format!("Arrow type {ty} cannot become {wanted} (questdb.column_type)"),
        None => format!("Arrow type {ty} has no column type"),
    }
}

fn widened<T: ArrowPrimitiveType>(array: &dyn Array) -> Data<'_>
where
    i32: From<T::Native>,
{
    Data::I32(values::<T>(array).iter().copied().map(i32::from).collect())
}

fn integer<'a>(array: &'a dyn Array, wanted: Option<&str>) -> Result<Data<'a>, String> {
    Ok(match (array.data_type(), wanted) {
        (DataType::Int8, Some("byte")) => Data::I8(values::<Int8Type>(array)),
        (DataType::Int16, Some("short")) => Data::I16(values::<Int16Type>(array)),
        (DataType::Int32, Some("int")) => Data::I32(Cow::Borrowed(values::<Int32Type>(array))),
        (DataType::UInt16, Some("char")) => Data::Char(values::<UInt16Type>(array)),
        (DataType::UInt32, Some("ipv4")) => Data::Ipv4(values::<UInt32Type>(array)),
        (DataType::Int64, None | Some("long")) => {
            Data::Long(Cow::Borrowed(values::<Int64Type>(array)))
        }
        (DataType::Int8, None) => widened::<Int8Type>(array),
        (DataType::Int16, None) => widened::<Int16Type>(array),
        (DataType::UInt8, None) => widened::<UInt8Type>(array),
        (DataType::UInt16, None) => widened::<UInt16Type>(array),
        (DataType::Int32, None) => {
            let values = values::<Int32Type>(array).iter().copied();
            Data::Long(values.map(i64::from).collect())
        }
        (DataType::UInt32, None) => {
            let values = values::<UInt32Type>(array).iter().copied();
            Data::Long(values.map(i64::from).collect())
        }
        (DataType::UInt64, None) => {
            let values = checked(array, values::<UInt64Type>(array), |value| {
                i64::try_from(value).ok()
            });
            Data::Long(values?.into())
        }
        (ty, wanted) => return Err(unsupported(ty, wanted)),
    })
}

/// Every value through `change`, which may have no result for it; those of null rows do not count.
fn checked<T: Copy + std::fmt::Display>(
    array: &dyn Array,
    values: &[T],
    change: impl Fn(T) -> Option<i64>,
) -> Result<Vec<i64>, String> {
    let changed = values
        .iter()
        .enumerate()
        .map(|(row, value)| match change(*value) {
            Some(changed) => Ok(changed),
            None if array.is_null(row) => Ok(0),
            None => Err(format!("row {row}: {value} does not fit 64 bits")),
        });
    changed.collect()
}

fn time(array: &dyn Array) -> Result<Data<'_>, String> {
    let (ty, values) = match array.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let values = values::<TimestampNanosecondType>(array);
            (ColumnType::TimestampNanos, Cow::Borrowed(values))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let values = values::<TimestampMicrosecondType>(array);
            (ColumnType::Timestamp, Cow::Borrowed(values))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            let values = values::<TimestampMillisecondType>(array);
            (ColumnType::Date, Cow::Borrowed(values))
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            let seconds = values::<TimestampSecondType>(array);
            let micros = checked(array, seconds, |seconds| seconds.checked_mul(1_000_000));
            (ColumnType::Timestamp, Cow::Owned(micros?))
        }
        DataType::Date64 => (ColumnType::Date, Cow::Borrowed(values::<Date64Type>(array))),
        _ => {
            let days = values::<Date32Type>(array).iter().copied();
            let millis = days.map(|days| i64::from(days) * DAY_MILLIS);
            (ColumnType::Date, millis.collect())
        }
    };
    Ok(Data::Time(ty, values))
}
