//! The row API: by name, by name with `Option`, and with prepared handles.

use std::net::Ipv4Addr;

use forebay::ColumnType;
use forebay::{ColumnId, Error, Producer, TimestampMicros, TimestampNanos};

use crate::batches::{Batch, FIRST_NS};
use crate::values::Value;

/// A value, or NULL by not naming the column.
pub(crate) fn by_name(producer: &mut Producer, batch: &Batch<'_>) -> Result<(), Error> {
    for (row, value) in batch.rows.iter().enumerate() {
        producer.table(&batch.table)?;
        if let Some(value) = value {
            set(producer, batch.kind.ty, value)?;
        }
        end(producer, row)?;
    }
    Ok(())
}

/// Every row names the column; NULL is `None`.
pub(crate) fn by_option(producer: &mut Producer, batch: &Batch<'_>) -> Result<(), Error> {
    for (row, value) in batch.rows.iter().enumerate() {
        producer.table(&batch.table)?;
        set_opt(producer, batch.kind.ty, value.as_ref())?;
        end(producer, row)?;
    }
    Ok(())
}

fn end(producer: &mut Producer, row: usize) -> Result<(), Error> {
    let row = i64::try_from(row).expect("small");
    producer.column_i64_opt("n", Some(row))?;
    producer.at(TimestampNanos(FIRST_NS + row))
}

/// Handles; NULL is a column that the row does not set.
pub(crate) fn prepared(producer: &mut Producer, batch: &Batch<'_>) -> Result<(), Error> {
    let table = producer.prepare(&batch.table)?;
    let column = producer.prepare_column(table, "v", batch.kind.ty)?;
    let number = producer.prepare_column(table, "n", ColumnType::Long)?;
    for (row, value) in batch.rows.iter().enumerate() {
        // Before the row begins.
        let symbol = match value {
            Some(Value::Symbol(text)) => Some(producer.intern(text)?),
            _ => None,
        };
        producer.row(table)?;
        if let Some(symbol) = symbol {
            producer.put_symbol(column, symbol)?;
        } else if let Some(value) = value {
            put(producer, column, batch.kind.ty, value)?;
        }
        let row = i64::try_from(row).expect("small");
        producer.put_i64(number, row)?;
        producer.at(TimestampNanos(FIRST_NS + row))?;
    }
    Ok(())
}

fn cut<T: TryFrom<i64>>(value: i64) -> T {
    T::try_from(value).ok().expect("values of the type")
}

/// The unscaled number of a decimal that has at most 128 bits.
pub(crate) fn narrow(unscaled: &[u8; 32]) -> i128 {
    i128::from_le_bytes(*unscaled.first_chunk().expect("32 bytes"))
}

fn shape(dims: &[u32]) -> Vec<usize> {
    dims.iter().map(|length| *length as usize).collect()
}

fn doubles(bits: &[u64]) -> Vec<f64> {
    bits.iter().copied().map(f64::from_bits).collect()
}

fn halves(uuid: u128) -> (u64, u64) {
    let half = |half: u128| u64::try_from(half & u128::from(u64::MAX)).expect("cut");
    (half(uuid >> 64), half(uuid))
}

fn set(row: &mut Producer, ty: ColumnType, value: &Value) -> Result<(), Error> {
    match (ty, value) {
        (_, Value::Bool(v)) => row.column_bool("v", *v),
        (ColumnType::Byte, Value::Integer(v)) => row.column_i8("v", cut(*v)),
        (ColumnType::Short, Value::Integer(v)) => row.column_i16("v", cut(*v)),
        (ColumnType::Int, Value::Integer(v)) => row.column_i32("v", cut(*v)),
        (_, Value::Integer(v)) => row.column_i64("v", *v),
        (_, Value::Float(v)) => row.column_f32("v", f32::from_bits(*v)),
        (_, Value::Double(v)) => row.column_f64("v", f64::from_bits(*v)),
        (_, Value::Symbol(v)) => row.symbol("v", v),
        (_, Value::Text(v)) => row.column_str("v", v),
        (_, Value::Binary(v)) => row.column_binary("v", v),
        (_, Value::Char(v)) => row.column_char("v", *v),
        (ColumnType::Date, Value::Time(v)) => row.column_date("v", *v),
        // Once by the unit's own name, once by the unit of the type.
        (ColumnType::Timestamp, Value::Time(v)) if v % 2 == 0 => row.column_ts_micros("v", *v),
        (ColumnType::Timestamp, Value::Time(v)) => row.column_ts("v", TimestampMicros(*v)),
        (_, Value::Time(v)) if v % 2 == 0 => row.column_ts_nanos("v", *v),
        (_, Value::Time(v)) => row.column_ts("v", TimestampNanos(*v)),
        (_, Value::Uuid(v)) => row.column_uuid("v", halves(*v).0, halves(*v).1),
        (_, Value::Long256(v)) => row.column_long256("v", *v),
        (_, Value::Geohash(bits, precision)) => row.column_geohash("v", *bits, *precision),
        (_, Value::Ipv4(v)) => row.column_ipv4("v", Ipv4Addr::from(*v)),
        (ColumnType::Decimal64, Value::Decimal(v, scale)) => {
            row.column_dec64("v", i64::try_from(narrow(v)).expect("small"), *scale)
        }
        (ColumnType::Decimal128, Value::Decimal(v, scale)) => {
            row.column_dec128("v", narrow(v), *scale)
        }
        (_, Value::Decimal(v, scale)) => row.column_dec256("v", *v, *scale),
        (_, Value::Array(dims, v)) => row.column_arr("v", &shape(dims), &doubles(v)),
    }
    .map(drop)
}

/// `column_x_opt` of the type, with the value inside or `None`.
fn set_opt(row: &mut Producer, ty: ColumnType, value: Option<&Value>) -> Result<(), Error> {
    macro_rules! inner {
        ($pattern:pat => $value:expr) => {
            value.map(|value| match value {
                $pattern => $value,
                _ => unreachable!("a batch has one type"),
            })
        };
    }
    match ty {
        ColumnType::Boolean => row.column_bool_opt("v", inner!(Value::Bool(v) => *v)),
        ColumnType::Byte => row.column_i8_opt("v", inner!(Value::Integer(v) => cut(*v))),
        ColumnType::Short => row.column_i16_opt("v", inner!(Value::Integer(v) => cut(*v))),
        ColumnType::Int => row.column_i32_opt("v", inner!(Value::Integer(v) => cut(*v))),
        ColumnType::Long => row.column_i64_opt("v", inner!(Value::Integer(v) => *v)),
        ColumnType::Float => row.column_f32_opt("v", inner!(Value::Float(v) => f32::from_bits(*v))),
        ColumnType::Double => {
            row.column_f64_opt("v", inner!(Value::Double(v) => f64::from_bits(*v)))
        }
        ColumnType::Symbol => row.symbol_opt("v", inner!(Value::Symbol(v) => v.as_str())),
        ColumnType::Varchar => row.column_str_opt("v", inner!(Value::Text(v) => v.as_str())),
        ColumnType::Binary => row.column_binary_opt("v", inner!(Value::Binary(v) => v.as_slice())),
        ColumnType::Char => row.column_char_opt("v", inner!(Value::Char(v) => *v)),
        ColumnType::Date => row.column_date_opt("v", inner!(Value::Time(v) => *v)),
        ColumnType::Timestamp => row.column_ts_micros_opt("v", inner!(Value::Time(v) => *v)),
        ColumnType::TimestampNanos => row.column_ts_nanos_opt("v", inner!(Value::Time(v) => *v)),
        ColumnType::Uuid => row.column_uuid_opt("v", inner!(Value::Uuid(v) => halves(*v))),
        ColumnType::Long256 => row.column_long256_opt("v", inner!(Value::Long256(v) => *v)),
        ColumnType::Geohash => {
            row.column_geohash_opt("v", inner!(Value::Geohash(bits, p) => (*bits, *p)))
        }
        ColumnType::Ipv4 => row.column_ipv4_opt("v", inner!(Value::Ipv4(v) => Ipv4Addr::from(*v))),
        ColumnType::Decimal64 => {
            let small = |v| i64::try_from(narrow(v)).expect("small");
            row.column_dec64_opt("v", inner!(Value::Decimal(v, scale) => (small(v), *scale)))
        }
        ColumnType::Decimal128 => {
            row.column_dec128_opt("v", inner!(Value::Decimal(v, scale) => (narrow(v), *scale)))
        }
        ColumnType::Decimal256 => {
            row.column_dec256_opt("v", inner!(Value::Decimal(v, scale) => (*v, *scale)))
        }
        ColumnType::DoubleArray => {
            let array = inner!(Value::Array(dims, v) => (shape(dims), doubles(v)));
            let array = array
                .as_ref()
                .map(|(dims, v)| (dims.as_slice(), v.as_slice()));
            row.column_arr_opt("v", array)
        }
        ColumnType::LongArray => unreachable!("no setter"),
    }
    .map(drop)
}

fn put(row: &mut Producer, at: ColumnId, ty: ColumnType, value: &Value) -> Result<(), Error> {
    match (ty, value) {
        (_, Value::Bool(v)) => row.put_bool(at, *v),
        (ColumnType::Byte, Value::Integer(v)) => row.put_i8(at, cut(*v)),
        (ColumnType::Short, Value::Integer(v)) => row.put_i16(at, cut(*v)),
        (ColumnType::Int, Value::Integer(v)) => row.put_i32(at, cut(*v)),
        (_, Value::Integer(v) | Value::Time(v)) => row.put_i64(at, *v),
        (_, Value::Float(v)) => row.put_f32(at, f32::from_bits(*v)),
        (_, Value::Double(v)) => row.put_f64(at, f64::from_bits(*v)),
        (_, Value::Symbol(_)) => unreachable!("put by its handle"),
        (_, Value::Text(v)) => row.put_str(at, v),
        (_, Value::Binary(v)) => row.put_binary(at, v),
        (_, Value::Char(v)) => row.put_char(at, *v),
        (_, Value::Uuid(v)) => row.put_uuid(at, *v),
        (_, Value::Long256(v)) => row.put_long256(at, *v),
        (_, Value::Geohash(bits, precision)) => row.put_geohash(at, *bits, *precision),
        (_, Value::Ipv4(v)) => row.put_ipv4(at, *v),
        (ColumnType::Decimal256, Value::Decimal(v, scale)) => row.put_dec256(at, *v, *scale),
        (_, Value::Decimal(v, scale)) => row.put_decimal(at, narrow(v), *scale),
        (_, Value::Array(dims, v)) => row.put_arr(at, &shape(dims), &doubles(v)),
    }
    .map(drop)
}
