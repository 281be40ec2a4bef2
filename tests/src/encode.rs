//! Rows of the corpus through the engine's own encoders, to the bytes of the message.

use forebay::internals::InstantLoop;
use forebay::{Producer, TimestampMicros, TimestampNanos};
use forebay_wire::control::{delta_head_len, write_delta_head};
use forebay_wire::encode::{ColumnBuffer, block_head_len, write_block_head};
use forebay_wire::header::{Flags, HEADER_LEN, Header};
use forebay_wire::types::ColumnType;

use crate::client_rows::{Row, RowCell};
use crate::parse::{self, Failure};

/// Turns of the shard within which it must have connected, or sent.
const TURNS_MAX: usize = 100;

/// A producer and its shard, in memory, connected to a server that only says OK.
#[derive(Debug)]
pub struct Client {
    world: InstantLoop,
    producer: Producer,
}

impl Client {
    /// A client whose connection is up and has carried nothing.
    pub fn connect() -> Result<Self, Failure> {
        Self::open("ws::addr=127.0.0.1:1;")
    }

    /// The same with keys; the address is never used.
    pub fn open(connect_string: &str) -> Result<Self, Failure> {
        let mut world = InstantLoop::open(connect_string)?;
        world.record_messages(true);
        let producer = world.producer()?;
        for _ in 0..TURNS_MAX {
            if world.stats().connected == 1 {
                return Ok(Self { world, producer });
            }
            world.turn();
        }
        Err("the shard does not connect".into())
    }

    /// The producer.
    pub fn producer(&mut self) -> &mut Producer {
        &mut self.producer
    }

    /// The shard's counters.
    pub fn stats(&self) -> forebay::Stats {
        self.world.stats()
    }

    /// The messages that the shard sends for what was published.
    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        for _ in 0..TURNS_MAX {
            self.world.turn();
        }
        self.world.take_messages()
    }

    /// Publishes the rows and gives back the message that the shard sends for them.
    pub fn message(&mut self, rows: &[Row<'_>]) -> Result<Vec<u8>, Failure> {
        for row in rows {
            put(&mut self.producer, row)?;
        }
        self.filled(|_| Ok(()))
    }

    /// Publishes what `fill` leaves in the producer, unless it has published itself, and gives
    /// back the message that the shard sends for it.
    pub fn filled(
        &mut self,
        fill: impl FnOnce(&mut Producer) -> Result<(), forebay::Error>,
    ) -> Result<Vec<u8>, Failure> {
        fill(&mut self.producer)?;
        self.producer.try_publish()?;
        for _ in 0..TURNS_MAX {
            self.world.turn();
            let mut sent = self.world.take_messages();
            match (sent.pop(), sent.len()) {
                (None, _) => {}
                (Some(message), 0) => return Ok(message),
                (Some(_), more) => return Err(format!("{more} messages too many").into()),
            }
        }
        Err("the shard sends nothing".into())
    }
}

fn put(producer: &mut Producer, row: &Row<'_>) -> Result<(), Failure> {
    producer.table(row.table)?;
    for cell in &row.cells {
        set(producer, cell)?;
    }
    match row.at.ty {
        "TIMESTAMP" => producer.at(TimestampMicros(parse::parsed(row.at.value)?))?,
        "TIMESTAMP_NANOS" => producer.at(TimestampNanos(parse::parsed(row.at.value)?))?,
        other => return Err(format!("a designated timestamp of type {other}").into()),
    }
    Ok(())
}

/// Calls the setter of the cell's type.
fn set(row: &mut Producer, cell: &RowCell<'_>) -> Result<(), Failure> {
    let (name, value) = (cell.column, cell.value);
    match cell.ty {
        "SYMBOL" => row.symbol(name, parse::text(value)?)?,
        "BOOLEAN" => row.column_bool(name, parse::parsed(value)?)?,
        "BYTE" => row.column_i8(name, parse::parsed(value)?)?,
        "SHORT" => row.column_i16(name, parse::parsed(value)?)?,
        "INT" => row.column_i32(name, parse::parsed(value)?)?,
        "LONG" => row.column_i64(name, parse::parsed(value)?)?,
        "FLOAT" => row.column_f32(name, parse::float(value)?)?,
        "DOUBLE" => row.column_f64(name, parse::double(value)?)?,
        "VARCHAR" => row.column_str(name, parse::text(value)?)?,
        "BINARY" => row.column_binary(name, &parse::bytes(value)?)?,
        "CHAR" => row.column_char(name, parse::parsed(value)?)?,
        "DATE" => row.column_date(name, parse::parsed(value)?)?,
        "TIMESTAMP" => row.column_ts_micros(name, parse::parsed(value)?)?,
        "TIMESTAMP_NANOS" => row.column_ts_nanos(name, parse::parsed(value)?)?,
        "LONG256" => row.column_long256(name, parse::long256(value)?)?,
        "IPv4" => row.column_ipv4(name, parse::parsed(value)?)?,
        "UUID" => {
            let (hi, lo) = parse::uuid(value)?;
            row.column_uuid(name, hi, lo)?
        }
        "GEOHASH" => {
            let (bits, precision) = parse::geohash(value)?;
            row.column_geohash(name, bits, precision)?
        }
        "DECIMAL64" => {
            let (digits, scale) = parse::decimal(value)?;
            row.column_dec64(name, digits.parse()?, scale)?
        }
        "DECIMAL128" => {
            let (digits, scale) = parse::decimal(value)?;
            row.column_dec128(name, digits.parse()?, scale)?
        }
        "DECIMAL256" => {
            let (digits, scale) = parse::decimal(value)?;
            row.column_dec256(name, parse::wide(&digits)?, scale)?
        }
        "DOUBLE_ARRAY" => {
            let (dims, values) = parse::array(value, parse::double)?;
            row.column_arr(name, &dims, &values)?
        }
        other => return Err(format!("the row API has no setter for {other}").into()),
    };
    Ok(())
}

/// The first message of a connection with one table of the columns `k` LONG and `v`
/// `LONG_ARRAY` and the designated timestamp, put together from `wire`'s parts: servers have no
/// column type for long arrays, so the row API does not take them.
pub fn long_array_message(rows: &[Row<'_>]) -> Result<Vec<u8>, Failure> {
    let mut keys = ColumnBuffer::new(ColumnType::Long);
    let mut arrays = ColumnBuffer::new(ColumnType::LongArray);
    let mut times = ColumnBuffer::new(ColumnType::TimestampNanos);
    for row in rows {
        keys.push_i64(parse::parsed(
            find(row, "k").ok_or("each row has a k")?.value,
        )?);
        match find(row, "v") {
            None => arrays.push_null(),
            Some(cell) => {
                let (dims, values) = parse::array(cell.value, parse::parsed)?;
                arrays.push_long_array(&dims, values)?;
            }
        }
        times.push_i64(parse::parsed(row.at.value)?);
    }
    let table = rows.first().ok_or("a message has rows")?.table;
    let columns = [("k", &keys), ("v", &arrays), ("", &times)];
    let heads = columns.map(|(name, buffer)| (name, buffer.column_type()));
    let bodies: usize = columns.iter().map(|(_, buffer)| buffer.encoded_len()).sum();
    let payload =
        delta_head_len(0, 0) + block_head_len(table, rows.len(), heads.into_iter()) + bodies;
    let mut out = vec![0; HEADER_LEN + payload];
    Header::new(Flags::DELTA_SYMBOL_DICT, 1, u32::try_from(payload)?).write(&mut out);
    let mut at = HEADER_LEN;
    at += write_delta_head(0, 0, &mut out[at..]);
    at += write_block_head(&mut out[at..], table, rows.len(), heads.into_iter());
    for (_, buffer) in columns {
        at += buffer.encode(&mut out[at..]);
    }
    Ok(out)
}

fn find<'a, 'r>(row: &'r Row<'a>, column: &str) -> Option<&'r RowCell<'a>> {
    row.cells.iter().find(|cell| cell.column == column)
}
