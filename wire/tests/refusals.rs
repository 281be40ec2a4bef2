//! Which bytes are refused, where, and in which words: one case per cause.

mod support;

use forebay_wire::decode::{DecodeError, Message, Mode, Reason, StrictRule};
use forebay_wire::header::Flags;
use forebay_wire::response::Status;
use forebay_wire::types::ColumnType;
use support::finish;

/// The first error of a message, wherever it is found.
fn error(bytes: &[u8], mode: Mode) -> Option<DecodeError> {
    match Message::parse(bytes, mode) {
        Ok(message) => message.tables_within(2).find_map(Result::err),
        Err(error) => Some(error),
    }
}

/// The error of a payload behind a fitting header; offsets count from the payload's start.
fn of_payload(flags: Flags, tables: u16, payload: &[u8], mode: Mode) -> Option<(usize, Reason)> {
    let error = error(&finish(flags, tables, payload), mode)?;
    assert_eq!(error.status(), Status::ParseError);
    Some((error.offset - 12, error.reason))
}

/// One column named `c` in a table of `rows` rows: the error's offset in the column's data.
fn of_column(flags: Flags, ty: ColumnType, rows: u8, data: &[u8]) -> Option<(usize, Reason)> {
    column_error(flags, ty, rows, data, Mode::Genuine)
}

fn column_error(
    flags: Flags,
    ty: ColumnType,
    rows: u8,
    data: &[u8],
    mode: Mode,
) -> Option<(usize, Reason)> {
    let mut payload = Vec::new();
    if flags.contains(Flags::DELTA_SYMBOL_DICT) {
        payload.extend_from_slice(b"\x00\x02\x01a\x01b");
    }
    payload.extend_from_slice(&[1, b't', rows, 1, 1, b'c', ty.code()]);
    let start = payload.len();
    payload.extend_from_slice(data);
    let (offset, reason) = of_payload(flags, 1, &payload, mode)?;
    Some((offset - start, reason))
}

#[test]
fn the_frame_around_the_payload() {
    let mut bytes = finish(Flags::NONE, 0, &[]);
    bytes[8..12].copy_from_slice(&16_777_217_u32.to_le_bytes());
    let too_large = Reason::PayloadTooLarge {
        payload_len: 16_777_217,
    };
    assert_eq!(
        error(&bytes, Mode::Genuine).map(|e| (e.offset, e.reason)),
        Some((8, too_large))
    );
    bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
    let beyond = Reason::PayloadBeyondData {
        payload_len: 1,
        available: 0,
    };
    let found = error(&bytes, Mode::Genuine).unwrap();
    assert_eq!((found.offset, found.reason), (8, beyond));
    assert_eq!(
        found.to_string(),
        "message payload exceeds available data [payloadLength=1, available=0] [offset=8]"
    );
}

#[test]
fn the_delta_dictionary() {
    let delta = |payload: &[u8]| of_payload(Flags::DELTA_SYMBOL_DICT, 0, payload, Mode::Genuine);
    assert_eq!(delta(&[]), Some((0, Reason::DeltaTruncated)));
    assert_eq!(delta(&[0]), Some((1, Reason::DeltaTruncated)));
    assert_eq!(
        delta(&[0x80, 0x80, 0x80, 0x80, 8, 0]),
        Some((0, Reason::DeltaStartRange))
    );
    assert_eq!(
        delta(&[0, 0x80, 0x80, 0x80, 0x80, 8]),
        Some((1, Reason::DeltaCountRange))
    );
    assert_eq!(
        delta(&[0x80, 0x89, 0x7a, 1, 0]),
        Some((3, Reason::DeltaLimit))
    );
    assert_eq!(
        delta(&[0, 3, 0, 0]),
        Some((1, Reason::DeltaCountBeyondPayload { count: 3 }))
    );
    assert_eq!(delta(&[0, 1, 2, b'a']), Some((2, Reason::DeltaTruncated)));
    assert_eq!(
        delta(&[0, 1, 2, b'a', 0xff]),
        Some((4, Reason::SymbolNotUtf8))
    );
    assert_eq!(delta(&[0xff; 11]), Some((0, Reason::VarintOverflow)));
    assert_eq!(delta(&[0, 1, 0]), None);
}

#[test]
fn the_head_of_a_table_block() {
    let head = |payload: &[u8]| of_payload(Flags::NONE, 1, payload, Mode::Genuine);
    assert_eq!(head(&[]), Some((0, Reason::TableTruncated)));
    assert_eq!(head(&[0, 0, 0]), Some((0, Reason::TableNameEmpty)));
    assert_eq!(head(&[0x80, 1, b'x']), Some((0, Reason::TableNameTooLong)));
    assert_eq!(head(&[1, 0xff, 0, 0]), Some((1, Reason::NameNotUtf8)));
    assert_eq!(
        head(&[1, b't', 0xc1, 0x84, 0x3d, 0]),
        Some((2, Reason::RowCountTooLarge))
    );
    assert_eq!(head(&[1, b't', 0xc0, 0x84, 0x3d, 0]), None);
    assert_eq!(
        head(&[1, b't', 0, 0x81, 0x10]),
        Some((3, Reason::ColumnCountTooLarge))
    );
    assert_eq!(head(&[1, b't', 0, 1]), Some((4, Reason::TableTruncated)));
    assert_eq!(
        head(&[1, b't', 0, 1, 0x80, 1]),
        Some((4, Reason::ColumnNameTooLong))
    );
    assert_eq!(
        head(&[1, b't', 0, 1, 1, b'c', 0x08]),
        Some((6, Reason::UnknownType { code: 8 }))
    );
    let old_layout = Reason::UnknownType { code: 0 };
    assert_eq!(old_layout.to_string(), "invalid column type code: 0x0");
}

#[test]
fn column_data_of_every_kind() {
    let none = Flags::NONE;
    let short = |ty| Reason::ValuesTruncated { ty };
    let nulls = Reason::NullsTruncated;
    let boolean = ColumnType::Boolean;
    assert_eq!(of_column(none, boolean, 9, &[]), Some((0, nulls)));
    assert_eq!(of_column(none, boolean, 9, &[1, 0]), Some((1, nulls)));
    assert_eq!(
        of_column(none, boolean, 9, &[0, 0]),
        Some((1, short(boolean)))
    );
    let long = ColumnType::Long;
    assert_eq!(of_column(none, long, 2, &[0; 16]), Some((1, short(long))));
    let time = ColumnType::Timestamp;
    let unknown = Reason::TimestampEncoding { code: 2 };
    assert_eq!(
        of_column(Flags::GORILLA, time, 0, &[0, 2]),
        Some((1, unknown))
    );
    assert_eq!(
        of_column(Flags::GORILLA, time, 2, &[0, 1, 0]),
        Some((2, short(time)))
    );
    assert_eq!(of_column(Flags::GORILLA, ColumnType::Date, 0, &[0]), None);
    let geohash = |precision| Some((1, Reason::GeohashPrecision { precision }));
    assert_eq!(of_column(none, ColumnType::Geohash, 0, &[0, 0]), geohash(0));
    assert_eq!(
        of_column(none, ColumnType::Geohash, 0, &[0, 61]),
        geohash(61)
    );
    assert_eq!(
        of_column(none, ColumnType::Geohash, 0, &[0, 0x81, 2]),
        geohash(257)
    );
    let text = ColumnType::Varchar;
    assert_eq!(
        of_column(none, text, 0, &[0, 0, 0, 0]),
        Some((1, short(text)))
    );
    assert_eq!(
        of_column(none, text, 0, &[0, 1, 0, 0, 0]),
        Some((5, short(text)))
    );
    let array = ColumnType::DoubleArray;
    assert_eq!(
        of_column(none, array, 1, &[0, 0]),
        Some((1, Reason::ArrayRank { dims: 0 }))
    );
    assert_eq!(
        of_column(none, array, 1, &[0, 33]),
        Some((1, Reason::ArrayRank { dims: 33 }))
    );
    let negative = Reason::ArrayDim { length: -1 };
    assert_eq!(
        of_column(none, array, 1, &[0, 1, 255, 255, 255, 255]),
        Some((2, negative))
    );
    let large = [0, 2, 255, 255, 0, 0, 1, 128, 0, 0];
    assert_eq!(
        of_column(none, array, 1, &large),
        Some((2, Reason::ArrayTooLarge))
    );
    assert_eq!(
        of_column(none, array, 1, &[0, 1, 1, 0, 0, 0, 7]),
        Some((6, short(array)))
    );
}

#[test]
fn symbol_cells_and_dictionaries() {
    let symbol = ColumnType::Symbol;
    let delta = Flags::DELTA_SYMBOL_DICT;
    let short = Reason::ValuesTruncated { ty: symbol };
    assert_eq!(of_column(delta, symbol, 3, &[0, 0, 1, 1]), None);
    let outside = Reason::SymbolIndexOutOfRange;
    assert_eq!(
        of_column(delta, symbol, 3, &[0, 0, 2, 1]),
        Some((2, outside))
    );
    assert_eq!(outside.to_string(), "symbol index out of range");
    assert_eq!(of_column(delta, symbol, 3, &[0, 0, 1]), Some((1, short)));
    assert_eq!(
        of_column(Flags::NONE, symbol, 2, &[0, 1, 1, b'x', 0, 0]),
        None
    );
    assert_eq!(
        of_column(Flags::NONE, symbol, 2, &[0, 1, 1, b'x', 0, 1]),
        Some((5, outside))
    );
    let size = Reason::LocalDictSize { size: 9 };
    assert_eq!(
        of_column(Flags::NONE, symbol, 0, &[0, 9, 0]),
        Some((1, size))
    );
}

#[test]
fn strict_refuses_what_the_genuine_server_lets_pass() {
    use ColumnType::{Decimal64, Long, Symbol, Timestamp, Varchar};
    let rule = |at, rule| Some((at, Reason::Strict(rule)));
    let both = |flags, tables, payload: &[u8]| {
        assert_eq!(of_payload(flags, tables, payload, Mode::Genuine), None);
        of_payload(flags, tables, payload, Mode::Strict)
    };
    let data = |ty, rows, data: &[u8]| {
        assert_eq!(
            column_error(Flags::DELTA_SYMBOL_DICT, ty, rows, data, Mode::Genuine),
            None
        );
        column_error(Flags::DELTA_SYMBOL_DICT, ty, rows, data, Mode::Strict)
    };
    let after = both(Flags::NONE, 0, &[1, 2]);
    assert_eq!(after, rule(0, StrictRule::BytesAfterTables { bytes: 2 }));
    assert_eq!(
        both(Flags::NONE, 1, &[1, b't', 1, 0]),
        rule(3, StrictRule::NoColumns)
    );
    let twice = [1, b't', 0, 2, 1, b'c', 5, 1, b'C', 5, 0, 0];
    assert_eq!(
        both(Flags::NONE, 1, &twice),
        rule(7, StrictRule::DuplicateColumn)
    );
    let nameless = |ty: ColumnType| [1, b't', 0, 1, 0, ty.code(), 0];
    assert_eq!(
        both(Flags::NONE, 1, &nameless(Long)),
        rule(4, StrictRule::EmptyColumnName)
    );
    assert_eq!(both(Flags::NONE, 1, &nameless(Timestamp)), None);
    let padded = both(Flags::DELTA_SYMBOL_DICT, 0, &[0x80, 0, 0]);
    assert_eq!(padded, rule(0, StrictRule::PaddedVarint));
    let scale = data(Decimal64, 0, &[0, 19]);
    assert_eq!(scale, rule(1, StrictRule::DecimalScale { scale: 19 }));
    assert_eq!(
        data(Varchar, 0, &[0, 1, 0, 0, 0, b'x']),
        rule(1, StrictRule::Offsets)
    );
    let falling = [0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, b'x', b'y'];
    assert_eq!(data(Varchar, 2, &falling), rule(9, StrictRule::Offsets));
    let latin = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0xff];
    assert_eq!(
        data(Varchar, 1, &latin),
        rule(9, StrictRule::VarcharNotUtf8)
    );
    assert_eq!(
        data(Symbol, 1, &[0, 0x81, 0]),
        rule(1, StrictRule::PaddedVarint)
    );
    let reserved = error(&finish(Flags::from_bits(0x40), 0, &[]), Mode::Strict).unwrap();
    assert_eq!(reserved.offset, 5);
    assert_eq!(
        reserved.reason.to_string(),
        "strict: reserved flag bits 0x40"
    );
    let mut surplus = finish(Flags::NONE, 0, &[]);
    surplus.push(0);
    assert_eq!(error(&surplus, Mode::Genuine), None);
    let surplus = error(&surplus, Mode::Strict).unwrap();
    assert_eq!(
        surplus.reason,
        Reason::Strict(StrictRule::PayloadSurplus { bytes: 1 })
    );
}
