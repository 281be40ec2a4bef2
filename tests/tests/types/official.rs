//! The official Rust client, encoding the same batches: into its own slot, with no server.

use std::net::Ipv4Addr;
use std::path::Path;

use forebay::ColumnType;
use forebay_tests::stored_slot::StoredSlot;
use forebay_wire::decimal::Unscaled;
use questdb::ingress::{Buffer, NdArrayView, Sender, TimestampMicros, TimestampNanos};

use crate::batches::{Batch, FIRST_NS};
use crate::values::Value;

/// The messages of the batches, one flush each; or why it refuses one.
pub(crate) fn messages(batches: &[&Batch<'_>]) -> questdb::Result<Vec<Vec<u8>>> {
    let dir = tempfile::tempdir().expect("a directory");
    flush_all(dir.path(), batches)?;
    let slot = StoredSlot::read(&dir.path().join("types")).expect("its slot");
    Ok(slot.frames.into_iter().map(|frame| frame.payload).collect())
}

fn flush_all(dir: &Path, batches: &[&Batch<'_>]) -> questdb::Result<()> {
    let mut sender = Sender::from_conf(format!(
        "ws::addr=127.0.0.1:1;sf_dir={};sender_id=types;sf_max_total_bytes=1g;\
         initial_connect_retry=async;close_flush_timeout_millis=0;",
        dir.display()
    ))?;
    for batch in batches {
        // A buffer keeps the columns of a table that it has seen: ours would too.
        let mut buffer = sender.new_buffer();
        for (row, value) in batch.rows.iter().enumerate() {
            buffer.table(batch.table.as_str())?;
            if let Some(value) = value {
                set(&mut buffer, batch.kind.ty, value)?;
            }
            let row = i64::try_from(row).expect("small");
            buffer.column_i64("n", row)?;
            buffer.at(TimestampNanos::new(FIRST_NS + row))?;
        }
        sender.flush(&mut buffer)?;
    }
    Ok(())
}

fn set(row: &mut Buffer, ty: ColumnType, value: &Value) -> questdb::Result<()> {
    let small = |value: i64| i32::try_from(value).expect("small");
    match (ty, value) {
        (_, Value::Bool(v)) => row.column_bool("v", *v),
        (ColumnType::Byte, Value::Integer(v)) => {
            row.column_i8("v", i8::try_from(*v).expect("small"))
        }
        (ColumnType::Short, Value::Integer(v)) => {
            row.column_i16("v", i16::try_from(*v).expect("small"))
        }
        (ColumnType::Int, Value::Integer(v)) => row.column_i32("v", small(*v)),
        (_, Value::Integer(v)) => row.column_i64("v", *v),
        (_, Value::Float(v)) => row.column_f32("v", f32::from_bits(*v)),
        (_, Value::Double(v)) => row.column_f64("v", f64::from_bits(*v)),
        (_, Value::Symbol(v)) => row.symbol("v", v.as_str()),
        (_, Value::Text(v)) => row.column_str("v", v.as_str()),
        (_, Value::Binary(v)) => row.column_binary("v", v),
        (_, Value::Char(v)) => row.column_char("v", *v),
        (ColumnType::Date, Value::Time(v)) => row.column_date("v", *v),
        (ColumnType::Timestamp, Value::Time(v)) => row.column_ts("v", TimestampMicros::new(*v)),
        (_, Value::Time(v)) => row.column_ts("v", TimestampNanos::new(*v)),
        (_, Value::Uuid(v)) => {
            let half = |half: u128| u64::try_from(half & u128::from(u64::MAX)).expect("cut");
            row.column_uuid("v", half(*v), half(v >> 64))
        }
        (_, Value::Long256(words)) => {
            let mut bytes = [0; 32];
            for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            row.column_long256("v", &bytes)
        }
        (_, Value::Geohash(bits, precision)) => row.column_geohash("v", *bits, *precision),
        (_, Value::Ipv4(v)) => row.column_ipv4("v", Ipv4Addr::from(*v)),
        (_, Value::Decimal(unscaled, scale)) => {
            let text = Unscaled::from_le_bytes(*unscaled).to_text(*scale);
            match ty {
                ColumnType::Decimal64 => row.column_dec64("v", text.as_str()),
                ColumnType::Decimal128 => row.column_dec128("v", text.as_str()),
                _ => row.column_dec("v", text.as_str()),
            }
        }
        (_, Value::Array(dims, bits)) => {
            let values = bits.iter().copied().map(f64::from_bits).collect();
            row.column_arr("v", &Array { dims, values })
        }
    }
    .map(drop)
}

struct Array<'a> {
    dims: &'a [u32],
    values: Vec<f64>,
}

impl NdArrayView<f64> for Array<'_> {
    type Iter<'a>
        = std::slice::Iter<'a, f64>
    where
        Self: 'a;

    fn ndim(&self) -> usize {
        self.dims.len()
    }

    fn dim(&self, index: usize) -> questdb::Result<usize> {
        Ok(self.dims[index] as usize)
    }

    fn as_slice(&self) -> Option<&[f64]> {
        Some(&self.values)
    }

    fn iter(&self) -> Self::Iter<'_> {
        self.values.iter()
    }
}
