//! The codec on one core: filling and encoding columns, decoding and skipping them.
//!
//! Everything is per row (`Throughput::Elements`): `elem/s` of a `quotes` line is rows per second,
//! of a `column` line values per second. L1 quotes are two symbols, two doubles, two longs and a
//! nanosecond timestamp, 1,000 rows a message.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use forebay_wire::control::{write_catch_up, write_delta_head};
use forebay_wire::decode::{Column, Message, Mode, Values};
use forebay_wire::dict::ConnectionDict;
use forebay_wire::encode::{ColumnBuffer, block_head_len, write_block_head};
use forebay_wire::header::{Flags, HEADER_LEN, Header};
use forebay_wire::types::ColumnType;
use forebay_wire::varint;

const ROWS: u16 = 1000;
/// Distinct symbols of a batch; ids from 128 take two bytes.
const SYMBOLS: u32 = 300;
const START_NS: i64 = 1_700_000_000_000_000_000;

/// The columns of an L1 quotes table.
struct Quotes {
    symbol: ColumnBuffer,
    venue: ColumnBuffer,
    bid: ColumnBuffer,
    ask: ColumnBuffer,
    bid_size: ColumnBuffer,
    ask_size: ColumnBuffer,
    time: ColumnBuffer,
}

impl Quotes {
    fn new() -> Self {
        Self {
            symbol: ColumnBuffer::new(ColumnType::Symbol),
            venue: ColumnBuffer::new(ColumnType::Symbol),
            bid: ColumnBuffer::new(ColumnType::Double),
            ask: ColumnBuffer::new(ColumnType::Double),
            bid_size: ColumnBuffer::new(ColumnType::Long),
            ask_size: ColumnBuffer::new(ColumnType::Long),
            time: ColumnBuffer::new(ColumnType::TimestampNanos),
        }
    }

    fn columns(&self) -> [(&str, &ColumnBuffer); 7] {
        [
            ("symbol", &self.symbol),
            ("venue", &self.venue),
            ("bid", &self.bid),
            ("ask", &self.ask),
            ("bid_size", &self.bid_size),
            ("ask_size", &self.ask_size),
            ("", &self.time),
        ]
    }

    #[inline]
    fn push(&mut self, row: u16) {
        let price = 100.0 + f64::from(row) * 0.01;
        self.symbol.push_symbol(u32::from(row) * 7 % SYMBOLS);
        self.venue.push_symbol(u32::from(row) % 12);
        self.bid.push_f64(price);
        self.ask.push_f64(price + 0.01);
        self.bid_size.push_i64(i64::from(row) * 100);
        self.ask_size.push_i64(i64::from(row) * 100 + 7);
        self.time.push_i64(START_NS + i64::from(row) * 1_037);
    }

    fn clear(&mut self) {
        self.symbol.clear();
        self.venue.clear();
        self.bid.clear();
        self.ask.clear();
        self.bid_size.clear();
        self.ask_size.clear();
        self.time.clear();
    }

    fn filled() -> Self {
        let mut quotes = Self::new();
        (0..ROWS).for_each(|row| quotes.push(row));
        quotes
    }
}

/// A whole message in wire form. Its symbols are all known from earlier messages, as in a stream
/// that has been running for a while.
fn message(gorilla: bool, columns: &[(&str, &ColumnBuffer)]) -> Vec<u8> {
    let mut payload = vec![0; 20];
    let used = write_delta_head(SYMBOLS.into(), 0, &mut payload);
    payload.truncate(used);
    let names = columns
        .iter()
        .map(|(name, column)| (*name, column.column_type()));
    let rows = usize::from(ROWS);
    let mut head = vec![0; block_head_len("quotes", rows, names.clone())];
    write_block_head(&mut head, "quotes", rows, names);
    payload.extend_from_slice(&head);
    for (_, column) in columns {
        column.encode_wire(gorilla, &mut payload);
    }
    let flags = if gorilla { Flags::GORILLA } else { Flags::NONE };
    let length = u32::try_from(payload.len()).expect("a bench message is small");
    let mut out = vec![0; HEADER_LEN];
    Header::new(flags.with(Flags::DELTA_SYMBOL_DICT), 1, length).write(&mut out);
    out.extend_from_slice(&payload);
    out
}

/// Rows of a message, with the values skipped.
fn count(bytes: &[u8]) -> usize {
    let message = Message::parse(bytes, Mode::Genuine).expect("our own message");
    message
        .tables()
        .map(|table| table.expect("our own table").row_count())
        .sum()
}

/// Every value of a message, folded into one number.
fn visit(bytes: &[u8]) -> u64 {
    let message = Message::parse(bytes, Mode::Genuine).expect("our own message");
    let mut sum = 0_u64;
    for table in message.tables() {
        for column in table.expect("our own table").columns() {
            sum = sum.wrapping_add(visit_column(&column.expect("our own column")));
        }
    }
    sum
}

fn visit_column(column: &Column<'_>) -> u64 {
    let fold = |values: &mut dyn Iterator<Item = u64>| values.fold(0, u64::wrapping_add);
    match &column.values {
        Values::Symbol(ids) => ids.iter().fold(0, u64::wrapping_add),
        Values::Double(values) => values
            .iter()
            .fold(0, |sum, value| sum.wrapping_add(value.to_bits())),
        Values::Long(values) | Values::Date(values) => values
            .iter()
            .fold(0, |sum, value| sum.wrapping_add(value.cast_unsigned())),
        Values::Timestamp(times) | Values::TimestampNanos(times) => match times.plain() {
            Some(values) => values
                .iter()
                .fold(0, |sum, value| sum.wrapping_add(value.cast_unsigned())),
            None => times
                .iter()
                .fold(0, |sum, value| sum.wrapping_add(value.cast_unsigned())),
        },
        Values::Boolean(values) => fold(&mut values.iter().map(u64::from)),
        Values::Byte(values) => fold(&mut values.iter().map(|v| i64::from(v).cast_unsigned())),
        Values::Short(values) => fold(&mut values.iter().map(|v| i64::from(v).cast_unsigned())),
        Values::Int(values) => fold(&mut values.iter().map(|v| i64::from(v).cast_unsigned())),
        Values::Float(values) => fold(&mut values.iter().map(|v| v.to_bits().into())),
        Values::Uuid(values) => fold(&mut values.iter().map(|v| v.lo ^ v.hi)),
        Values::Long256(values) => fold(&mut values.iter().map(|[a, b, c, d]| a ^ b ^ c ^ d)),
        Values::Geohash(values) => fold(&mut values.iter()),
        Values::Varchar(values) => {
            fold(&mut values.iter().map(|v| v.map_or(0, |text| text.len() as u64)))
        }
        Values::Binary(values) => fold(
            &mut values
                .iter()
                .map(|v| v.map_or(0, |bytes| bytes.len() as u64)),
        ),
        Values::DoubleArray(values) => fold(
            &mut values
                .iter()
                .flat_map(|v| v.elements.iter().map(f64::to_bits)),
        ),
        Values::LongArray(values) => fold(
            &mut values
                .iter()
                .flat_map(|v| v.elements.iter().map(i64::cast_unsigned)),
        ),
        Values::Decimal(values) => fold(&mut values.iter().map(|v| u64::from(v.to_le_bytes()[0]))),
        Values::Char(values) => fold(&mut values.iter().map(u64::from)),
        Values::Ipv4(values) => fold(&mut values.iter().map(u64::from)),
    }
}

/// A message that registers [`SYMBOLS`] symbols.
fn catch_up() -> Vec<u8> {
    let mut entries = Vec::new();
    for symbol in 0..SYMBOLS {
        let text = format!("SYM{symbol}");
        varint::push(text.len() as u64, &mut entries);
        entries.extend_from_slice(text.as_bytes());
    }
    let mut out = Vec::new();
    write_catch_up(&mut out, 0, SYMBOLS.into(), &entries);
    out
}

fn dictionary(c: &mut Criterion) {
    let mut group = c.benchmark_group("dictionary");
    group.throughput(Throughput::Elements(SYMBOLS.into()));
    let bytes = catch_up();
    group.bench_function("parse", |b| {
        b.iter(|| Message::parse(black_box(&bytes), Mode::Genuine).map(|m| m.header()));
    });
    let delta = Message::parse(&bytes, Mode::Genuine)
        .expect("our own message")
        .delta();
    let delta = delta.expect("a catch-up has a delta");
    let mut dict = ConnectionDict::new();
    group.bench_function("apply", |b| {
        b.iter(|| {
            dict.clear();
            dict.apply(black_box(&delta))
        });
    });
    group.finish();
}

fn quotes(c: &mut Criterion) {
    let mut group = c.benchmark_group("quotes");
    group.throughput(Throughput::Elements(ROWS.into()));
    let mut growing = Quotes::filled();
    group.bench_function("push", |b| {
        b.iter(|| {
            growing.clear();
            (0..ROWS).for_each(|row| growing.push(black_box(row)));
        });
    });
    let filled = Quotes::filled();
    let mut out = vec![0; filled.columns().iter().map(|(_, c)| c.encoded_len()).sum()];
    group.bench_function("encode", |b| {
        b.iter(|| {
            let mut used = 0;
            for (_, column) in black_box(&filled).columns() {
                used += column.encode(&mut out[used..]);
            }
            used
        });
    });
    for (name, gorilla) in [("plain", false), ("gorilla", true)] {
        let bytes = message(gorilla, &filled.columns());
        let mut wire = Vec::with_capacity(bytes.len());
        group.bench_function(format!("encode_wire/{name}"), |b| {
            b.iter(|| {
                wire.clear();
                for (_, column) in black_box(&filled).columns() {
                    column.encode_wire(gorilla, &mut wire);
                }
                wire.len()
            });
        });
        group.bench_function(format!("count/{name}"), |b| {
            b.iter(|| count(black_box(&bytes)));
        });
        group.bench_function(format!("visit/{name}"), |b| {
            b.iter(|| visit(black_box(&bytes)));
        });
    }
    group.finish();
}

/// A value of any type, the same for every run.
fn push(column: &mut ColumnBuffer, row: u16) {
    let wide = i64::from(row) * 1_037;
    let words = [u64::from(row), 3, 5, 7];
    match column.column_type() {
        ColumnType::Boolean => column.push_bool(row.is_multiple_of(3)),
        ColumnType::Byte => column.push_i8(row.to_le_bytes()[0].cast_signed()),
        ColumnType::Short => column.push_i16(row.cast_signed()),
        ColumnType::Int => column.push_i32(row.into()),
        ColumnType::Long
        | ColumnType::Timestamp
        | ColumnType::TimestampNanos
        | ColumnType::Date => column.push_i64(wide),
        ColumnType::Float => column.push_f32(row.into()),
        ColumnType::Double => column.push_f64(row.into()),
        ColumnType::Symbol => column.push_symbol(u32::from(row) % SYMBOLS),
        ColumnType::Uuid => column.push_uuid(words[0], 9),
        ColumnType::Long256 => column.push_long256(words),
        ColumnType::Geohash => column.push_geohash(row.into(), 20).expect("20 bits"),
        ColumnType::Varchar => column.push_str("sixteen bytes ok"),
        ColumnType::Binary => column.push_bytes(b"sixteen bytes ok"),
        ColumnType::DoubleArray => {
            column
                .push_double_array(&[2, 2], [1.0, 2.0, 3.0, 4.0])
                .expect("four");
        }
        ColumnType::LongArray => column.push_long_array(&[2, 2], [1, 2, 3, 4]).expect("four"),
        ColumnType::Decimal64 | ColumnType::Decimal128 | ColumnType::Decimal256 => {
            column.push_decimal(wide, 2).expect("it fits");
        }
        ColumnType::Char => column.push_char(row),
        ColumnType::Ipv4 => column.push_ipv4(row.into()),
    }
}

fn columns(c: &mut Criterion) {
    let mut group = c.benchmark_group("column");
    group.throughput(Throughput::Elements(ROWS.into()));
    for ty in ColumnType::ALL {
        let mut column = ColumnBuffer::new(ty);
        let mut out = Vec::new();
        group.bench_function(format!("encode/{}", ty.name()), |b| {
            b.iter(|| {
                column.clear();
                (0..ROWS).for_each(|row| push(&mut column, black_box(row)));
                out.resize(column.encoded_len(), 0);
                column.encode(&mut out)
            });
        });
        column.clear();
        (0..ROWS).for_each(|row| push(&mut column, row));
        let bytes = message(false, &[("c", &column)]);
        let table = Message::parse(&bytes, Mode::Genuine)
            .expect("our own message")
            .tables()
            .next();
        let table = table.expect("one table").expect("our own table");
        group.bench_function(format!("decode/{}", ty.name()), |b| {
            b.iter(|| {
                let column = black_box(&table).columns().next().expect("one column");
                visit_column(&column.expect("our own column"))
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = codec;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(150))
        .measurement_time(Duration::from_millis(600));
    targets = quotes, dictionary, columns
}
criterion_main!(codec);
