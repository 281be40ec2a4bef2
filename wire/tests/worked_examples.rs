//! The worked examples of protocol.md section 20, byte for byte: our encoder writes them, our
//! decoder reads them.

mod support;

use forebay_wire::decimal::Unscaled;
use forebay_wire::decode::{Cell, Message, Mode, Table, Values};
use forebay_wire::encode::ColumnBuffer;
use forebay_wire::header::Flags;
use forebay_wire::response::{self, Response, Status};
use forebay_wire::types::ColumnType;
use support::message;

const T: i64 = 1_700_000_000_000_000;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("two digits"))
        .collect()
}

fn longs(ty: ColumnType, values: &[Option<i64>]) -> ColumnBuffer {
    let mut column = ColumnBuffer::new(ty);
    for value in values {
        match value {
            Some(value) => column.push_i64(*value),
            None => column.push_null(),
        }
    }
    column
}

/// Every message must be fine for the strict sink, too.
fn only_table(bytes: &[u8]) -> Table<'_> {
    let message = Message::parse(bytes, Mode::Strict).expect("a worked example parses");
    let tables: Result<Vec<_>, _> = message.tables().collect();
    let tables = tables.expect("a worked example decodes");
    assert_eq!(tables.len(), 1);
    tables[0]
}

fn trades(flags: Flags) -> Vec<u8> {
    let mut sym = ColumnBuffer::new(ColumnType::Symbol);
    let mut price = ColumnBuffer::new(ColumnType::Double);
    for (id, value) in [(0, 2615.54), (1, 39269.98)] {
        sym.push_symbol(id);
        price.push_f64(value);
    }
    let time = longs(ColumnType::Timestamp, &[Some(T), Some(T + 1)]);
    let columns = [("sym", &sym), ("price", &price), ("", &time)];
    message(flags, &["ETH-USD", "BTC-USD"], "trades", &columns)
}

#[test]
fn two_plain_rows_are_the_captured_90_bytes() {
    let captured = hex(
        "51 57 50 31 01 08 01 00 4e 00 00 00 00 02 07 45 54 48 2d 55 53 44 07 42 54 43 2d 55 53 44
         06 74 72 61 64 65 73 02 03 03 73 79 6d 09 05 70 72 69 63 65 07 00 0a 00 00 01
         00 ae 47 e1 7a 14 6f a4 40 c3 f5 28 5c bf 2c e3 40
         00 00 40 1e 18 24 0a 06 00 01 40 1e 18 24 0a 06 00",
    );
    assert_eq!(captured.len(), 90);
    assert_eq!(trades(Flags::DELTA_SYMBOL_DICT), captured);
    let message = Message::parse(&captured, Mode::Strict).unwrap();
    let delta = message.delta().unwrap();
    assert_eq!((delta.start(), delta.count()), (0, 2));
    assert_eq!(delta.iter().collect::<Vec<_>>(), ["ETH-USD", "BTC-USD"]);
    let table = only_table(&captured);
    assert_eq!(
        (table.name(), table.row_count(), table.column_count()),
        ("trades", 2, 3)
    );
    let columns: Vec<_> = table.columns().map(Result::unwrap).collect();
    let Values::Symbol(ids) = columns[0].values else {
        panic!("sym is a symbol")
    };
    assert_eq!(ids.iter().collect::<Vec<_>>(), [0, 1]);
    let Values::Double(prices) = columns[1].values else {
        panic!("price is a double")
    };
    assert_eq!(prices.iter().collect::<Vec<_>>(), [2615.54, 39269.98]);
    let Values::Timestamp(times) = columns[2].values else {
        panic!("microseconds")
    };
    assert_eq!(times.iter().collect::<Vec<_>>(), [T, T + 1]);
}

#[test]
fn the_gorilla_flag_adds_one_byte_to_two_rows() {
    let bytes = trades(Flags::DELTA_SYMBOL_DICT.with(Flags::GORILLA));
    assert_eq!(bytes.len(), 91);
    assert_eq!((bytes[5], bytes[8]), (0x0c, 0x4f));
    let column = hex("00 01 00 40 1e 18 24 0a 06 00 01 40 1e 18 24 0a 06 00");
    assert!(bytes.ends_with(&column));
    let table = only_table(&bytes);
    let Values::Timestamp(times) = table.columns().last().unwrap().unwrap().values else {
        panic!("microseconds")
    };
    assert_eq!(times.iter().collect::<Vec<_>>(), [T, T + 1]);
}

#[test]
fn a_change_beyond_32_bits_makes_the_column_plain_behind_its_marker() {
    let column = longs(
        ColumnType::TimestampNanos,
        &[Some(0), Some(0), Some(1 << 31)],
    );
    let mut out = Vec::new();
    column.encode_wire(true, &mut out);
    let mut expected = vec![0; 26];
    expected[21] = 0x80;
    assert_eq!(out, expected);
}

/// Rows: l, i, b, s, at(1) / d, at(2) / s, `at_now`.
#[test]
fn nulls_late_columns_and_mixed_at_now_are_the_captured_137_bytes() {
    let captured = hex(
        "51575031010801007d0000000000016e0306016c0501690401620101730f000a01640700010000000000000000
         00
         0000000000800000000000000080000700000000000080000000800001010200000000030000000500000066
         6f6f7a7a01040100000000000000020000000000000000000000000000f87f000000000000f83f0000000000
         00f87f",
    );
    assert_eq!(captured.len(), 137);
    let long = longs(ColumnType::Long, &[Some(1), None, None]);
    let mut int = ColumnBuffer::new(ColumnType::Int);
    int.push_i32(7);
    int.push_nulls(2);
    let mut boolean = ColumnBuffer::new(ColumnType::Boolean);
    boolean.push_bool(true);
    boolean.push_nulls(2);
    let mut text = ColumnBuffer::new(ColumnType::Varchar);
    text.push_str("foo");
    text.push_null();
    text.push_str("zz");
    let time = longs(ColumnType::Timestamp, &[Some(1), Some(2), None]);
    let mut double = ColumnBuffer::new(ColumnType::Double);
    double.push_null();
    double.push_f64(1.5);
    double.push_null();
    let columns = [
        ("l", &long),
        ("i", &int),
        ("b", &boolean),
        ("s", &text),
        ("", &time),
        ("d", &double),
    ];
    assert_eq!(
        message(Flags::DELTA_SYMBOL_DICT, &[], "n", &columns),
        captured
    );
    assert_eq!(only_table(&captured).column_count(), 6);
}

#[test]
fn pure_at_now_has_no_timestamp_column() {
    let captured = hex(
        "51 57 50 31 01 08 01 00 12 00 00 00 00 00 01 6e 01 01 01 6c 05 00 01 00 00 00 00 00 00 00",
    );
    let l = longs(ColumnType::Long, &[Some(1)]);
    assert_eq!(
        message(Flags::DELTA_SYMBOL_DICT, &[], "n", &[("l", &l)]),
        captured
    );
    assert_eq!(
        only_table(&captured).definitions().collect::<Vec<_>>(),
        [("l", ColumnType::Long)]
    );
}

#[test]
fn answers_are_written_and_read_as_listed() {
    type Write = fn(&mut Vec<u8>);
    const GAP: &str = "delta symbol dictionary gap: deltaStartId 3 exceeds dictionary size 0";
    let mut gap = hex("0d 00 00 00 00 00 00 00 00 45 00");
    gap.extend_from_slice(GAP.as_bytes());
    let trades = "01 00 06 00 74 72 61 64 65 73 2a 00 00 00 00 00 00 00";
    let cases: [(Write, Vec<u8>); 6] = [
        (
            |out| response::write_ok(out, 7, []),
            hex("00 07 00 00 00 00 00 00 00 00 00"),
        ),
        (
            |out| response::write_ok(out, 0, [("trades", 42)]),
            hex(&format!("00 00 00 00 00 00 00 00 00 {trades}")),
        ),
        (
            |out| response::write_error(out, Status::SchemaMismatch, 5, "type mismatch"),
            hex("03 05 00 00 00 00 00 00 00 0d 00 74 79 70 65 20 6d 69 73 6d 61 74 63 68"),
        ),
        (
            |out| response::write_error(out, Status::DictionaryGap, 0, GAP),
            gap,
        ),
        (
            |out| response::write_durable_ack(out, [("trades", 42)]),
            hex(&format!("02 {trades}")),
        ),
        (
            |out| response::write_local_durable_ack(out, [("trades", 42)]),
            hex(&format!("0e {trades}")),
        ),
    ];
    for (write, bytes) in &cases {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!(&out, bytes);
        match response::parse(bytes).unwrap() {
            Response::Ok { seq: 7, tables } => assert!(tables.is_empty()),
            Response::Error {
                status: Status::SchemaMismatch,
                seq: 5,
                message,
            } => {
                assert_eq!(message, "type mismatch");
            }
            Response::Error {
                status: Status::DictionaryGap,
                seq: 0,
                message,
            } => {
                assert_eq!(message, GAP);
            }
            Response::Ok { seq: 0, tables }
            | Response::DurableAck { tables }
            | Response::LocalDurableAck { tables } => {
                assert_eq!(tables.iter().collect::<Vec<_>>(), [("trades", 42)]);
            }
            other => panic!("{other:?}"),
        }
    }
}

fn one<T>(ty: ColumnType, value: T, push: impl Fn(&mut ColumnBuffer, T)) -> ColumnBuffer {
    let mut column = ColumnBuffer::new(ty);
    push(&mut column, value);
    column.push_null();
    column
}

#[test]
fn all_types_with_a_mostly_null_row_are_the_captured_298_bytes() {
    let captured = hex(
        "51575031010801001e0100000000017402 11 02693802 0369313603 0369333204 0366333206 01750c
         01680d 02697018 0264740b 016316 0362696e17 01670e 0267380e 02646111 026c6112 02746e10
         0274750a 0010 00ff01 00feff0000 00fdffffff00000080 000000c03f0000c07f
         010201000000000000000200000000000000
         01020100000000000000000000000000000000000000000000000000000000000040 01020100000a
         0102005c260500000000 0041000000 0102000000000200000000ff 01020516 010208ff
         01020102000000000000000000f03f0000000000000040
         0102020100000003000000010000000000000002000000000000000300000000000000
         01020500000000000000 0102f9ffffffffffffff 00e803000000000000d007000000000000",
    );
    assert_eq!(captured.len(), 298);
    let mut bytes = ColumnBuffer::new(ColumnType::Byte);
    bytes.push_i8(-1);
    bytes.push_i8(1);
    let columns = [
        ("i8", bytes),
        ("i16", one(ColumnType::Short, -2, ColumnBuffer::push_i16)),
        ("i32", one(ColumnType::Int, -3, ColumnBuffer::push_i32)),
        ("f32", one(ColumnType::Float, 1.5, ColumnBuffer::push_f32)),
        ("u", one(ColumnType::Uuid, 1, |c, lo| c.push_uuid(lo, 2))),
        (
            "h",
            one(
                ColumnType::Long256,
                [1, 0, 0, 1 << 62],
                ColumnBuffer::push_long256,
            ),
        ),
        (
            "ip",
            one(ColumnType::Ipv4, 0x0a00_0001, ColumnBuffer::push_ipv4),
        ),
        (
            "dt",
            one(ColumnType::Date, 86_400_000, ColumnBuffer::push_i64),
        ),
        (
            "c",
            one(ColumnType::Char, u16::from(b'A'), ColumnBuffer::push_char),
        ),
        (
            "bin",
            one(ColumnType::Binary, &[0, 0xff][..], ColumnBuffer::push_bytes),
        ),
        (
            "g",
            one(ColumnType::Geohash, 0x16, |c, v| {
                c.push_geohash(v, 5).unwrap();
            }),
        ),
        (
            "g8",
            one(ColumnType::Geohash, 0xff, |c, v| {
                c.push_geohash(v, 8).unwrap();
            }),
        ),
        (
            "da",
            one(ColumnType::DoubleArray, [1.0, 2.0], |c, v| {
                c.push_double_array(&[2], v).unwrap();
            }),
        ),
        (
            "la",
            one(ColumnType::LongArray, [1, 2, 3], |c, v| {
                c.push_long_array(&[1, 3], v).unwrap();
            }),
        ),
        (
            "tn",
            one(ColumnType::TimestampNanos, 5, ColumnBuffer::push_i64),
        ),
        ("tu", one(ColumnType::Timestamp, -7, ColumnBuffer::push_i64)),
        (
            "",
            longs(ColumnType::TimestampNanos, &[Some(1000), Some(2000)]),
        ),
    ];
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, column)| (*name, column))
        .collect();
    let ours = message(Flags::DELTA_SYMBOL_DICT, &[], "t", &columns);
    assert_eq!(ours, captured);
    only_table(&captured);
}

#[test]
fn captured_decimals_are_little_endian_with_their_scale_in_front() {
    let cases = [
        (ColumnType::Decimal256, 125_i64, 2_u8, 32),
        (ColumnType::Decimal64, -35, 1, 8),
        (ColumnType::Decimal128, 100, 0, 16),
    ];
    for (ty, unscaled, scale, width) in cases {
        let mut column = ColumnBuffer::new(ty);
        column.push_decimal(unscaled, scale).unwrap();
        let mut expected = vec![0, scale];
        expected.extend_from_slice(&Unscaled::from(unscaled).to_le_bytes()[..width]);
        let mut out = Vec::new();
        column.encode_wire(false, &mut out);
        assert_eq!(out, expected);
        let bytes = message(Flags::NONE, &[], "t", &[("d", &column)]);
        let cell = only_table(&bytes)
            .columns()
            .next()
            .unwrap()
            .unwrap()
            .cells()
            .next()
            .unwrap();
        let Some(Cell::Decimal {
            unscaled: read,
            scale: at,
        }) = cell
        else {
            panic!("{cell:?}")
        };
        assert_eq!((read, at), (Unscaled::from(unscaled), scale));
    }
}
