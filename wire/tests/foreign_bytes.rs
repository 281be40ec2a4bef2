//! Bytes that nobody meant as a message: decoders answer with an error inside the message, or
//! with views that agree with themselves.

mod support;

use forebay_wire::decode::{DecodeError, Message, Mode};
use forebay_wire::dict::ConnectionDict;
use forebay_wire::encode::ColumnBuffer;
use forebay_wire::header::{Flags, HEADER_LEN};
use forebay_wire::response;
use forebay_wire::types::ColumnType;
use proptest::collection::vec;
use proptest::prelude::*;
use support::{append_block, finish};

/// Reads everything there is; returns the number of cells seen.
fn walk(bytes: &[u8], mode: Mode) -> Result<usize, DecodeError> {
    let message = Message::parse(bytes, mode)?;
    let mut dict = ConnectionDict::new();
    if let Some(delta) = message.delta() {
        assert_eq!(delta.iter().count() as u64, delta.count());
        if dict.apply(&delta).is_ok() {
            assert_eq!(dict.len() as u64, delta.start() + delta.count());
        }
    }
    let within: Vec<_> = message.tables_within(dict.len() as u64).collect();
    let all: Vec<_> = message.tables().collect();
    assert!(within.len() <= all.len());
    let mut cells = 0;
    for table in message.tables() {
        let table = table?;
        assert_eq!(table.definitions().count(), table.column_count());
        assert_eq!(table.columns().count(), table.column_count());
        for column in table.columns() {
            let column = column.expect("the block was checked when it was handed out");
            assert!(column.offset + column.byte_len <= bytes.len());
            assert_eq!(column.values.len(), column.nulls.present());
            assert_eq!(column.cells().count(), table.row_count());
            cells += table.row_count();
        }
    }
    Ok(cells)
}

fn check(bytes: &[u8]) {
    for mode in [Mode::Genuine, Mode::Strict] {
        if let Err(error) = walk(bytes, mode) {
            assert!(
                error.offset <= bytes.len(),
                "{error} in {} bytes",
                bytes.len()
            );
            assert!(!error.to_string().is_empty());
        }
    }
    if walk(bytes, Mode::Strict).is_ok() {
        assert_eq!(walk(bytes, Mode::Genuine), walk(bytes, Mode::Strict));
    }
}

fn filled(ty: ColumnType) -> ColumnBuffer {
    let mut column = ColumnBuffer::new(ty);
    for row in 0..11_u8 {
        if row % 4 == 1 {
            column.push_null();
            continue;
        }
        match ty {
            ColumnType::Boolean => column.push_bool(row % 2 == 0),
            ColumnType::Byte => column.push_i8(-1),
            ColumnType::Short => column.push_i16(row.into()),
            ColumnType::Int => column.push_i32(row.into()),
            ColumnType::Long
            | ColumnType::Timestamp
            | ColumnType::TimestampNanos
            | ColumnType::Date => column.push_i64(i64::from(row) * 997),
            ColumnType::Float => column.push_f32(row.into()),
            ColumnType::Double => column.push_f64(row.into()),
            ColumnType::Symbol => column.push_symbol(u32::from(row) % 2),
            ColumnType::Uuid => column.push_uuid(row.into(), 7),
            ColumnType::Long256 => column.push_long256([1, 2, 3, row.into()]),
            ColumnType::Geohash => column.push_geohash(row.into(), 20).expect("the value fits"),
            ColumnType::Varchar => column.push_str("text"),
            ColumnType::Binary => column.push_bytes(&[row; 3]),
            ColumnType::DoubleArray => column
                .push_double_array(&[1, 2], [1.0, 2.0])
                .expect("the value fits"),
            ColumnType::LongArray => column.push_long_array(&[0], []).expect("the value fits"),
            ColumnType::Decimal64 | ColumnType::Decimal128 | ColumnType::Decimal256 => {
                column
                    .push_decimal(i64::from(row), 2)
                    .expect("the value fits");
            }
            ColumnType::Char => column.push_char(row.into()),
            ColumnType::Ipv4 => column.push_ipv4(row.into()),
        }
    }
    column
}

/// Two tables with every type between them; `flags` say how symbols and timestamps are written.
fn every_type(flags: Flags) -> Vec<u8> {
    let mut columns: Vec<(&str, ColumnBuffer)> = Vec::new();
    for ty in ColumnType::ALL {
        // A symbol without the delta flag needs a dictionary in front, which no buffer writes.
        if ty != ColumnType::Symbol || flags.contains(Flags::DELTA_SYMBOL_DICT) {
            columns.push((ty.name(), filled(ty)));
        }
    }
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, column)| (*name, column))
        .collect();
    let (first, second) = columns.split_at(9);
    let mut payload = Vec::new();
    if flags.contains(Flags::DELTA_SYMBOL_DICT) {
        payload.extend_from_slice(b"\x00\x02\x01a\x01b");
    }
    append_block(flags, "one", first, &mut payload);
    append_block(flags, "two", second, &mut payload);
    finish(flags, 2, &payload)
}

fn all_flags() -> [Flags; 4] {
    let both = Flags::DELTA_SYMBOL_DICT.with(Flags::GORILLA);
    [Flags::NONE, Flags::GORILLA, Flags::DELTA_SYMBOL_DICT, both]
}

/// Keeps the header's length true after bytes came or went, so that damage lies deeper.
fn mend(bytes: &mut [u8]) {
    let payload = bytes.len().saturating_sub(HEADER_LEN);
    if let Some(field) = bytes.get_mut(8..12) {
        field.copy_from_slice(&u32::try_from(payload).expect("small").to_le_bytes());
    }
}

#[test]
fn the_undamaged_messages_are_fine() {
    for flags in all_flags() {
        let symbols = usize::from(flags.contains(Flags::DELTA_SYMBOL_DICT));
        assert_eq!(
            walk(&every_type(flags), Mode::Strict),
            Ok((22 + symbols) * 11)
        );
    }
}

#[test]
fn every_prefix_is_refused_at_an_offset_inside_it() {
    for flags in all_flags() {
        let whole = every_type(flags);
        for length in 0..whole.len() {
            let mut bytes = whole[..length].to_vec();
            check(&bytes);
            assert!(
                walk(&bytes, Mode::Genuine).is_err(),
                "{length} bytes are enough"
            );
            mend(&mut bytes);
            check(&bytes);
            assert!(
                walk(&bytes, Mode::Genuine).is_err(),
                "{length} mended bytes are enough"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn random_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..200)) {
        check(&bytes);
        let _ = response::parse(&bytes);
        let _ = response::parse_with(&bytes, false);
    }

    #[test]
    fn random_payloads_do_no_harm(
        flags: u8, tables in 0..5_u16, payload in vec(any::<u8>(), 0..300),
    ) {
        check(&finish(Flags::from_bits(flags), tables, &payload));
    }

    #[test]
    fn random_column_data_does_no_harm(
        flags: u8, code in 1..=0x18_u8, rows in 0..40_u8, data in vec(any::<u8>(), 0..200),
    ) {
        let mut payload = Vec::new();
        if flags & 8 != 0 {
            payload.extend_from_slice(b"\x00\x02\x01a\x01b");
        }
        payload.extend_from_slice(&[1, b't', rows, 1, 1, b'c', code]);
        payload.extend_from_slice(&data);
        check(&finish(Flags::from_bits(flags), 1, &payload));
    }

    #[test]
    fn damaged_messages_do_no_harm(
        which in 0..4_usize,
        hits in vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        let mut bytes = every_type(all_flags()[which]);
        for (at, byte, kind) in &hits {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = *byte,
                1 => bytes[at] ^= 1 << (byte % 8),
                2 => bytes.insert(at, *byte),
                _ => { bytes.remove(at); }
            }
        }
        check(&bytes);
        mend(&mut bytes);
        check(&bytes);
    }

    #[test]
    fn damaged_answers_do_no_harm(
        hits in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3), cut in 0..60_usize,
    ) {
        let mut bytes = Vec::new();
        response::write_ok(&mut bytes, 3, [("trades", 1), ("quotes", 2)]);
        for (at, byte) in &hits {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        bytes.truncate(cut);
        if let Ok(response::Response::Ok { tables, .. }) = response::parse(&bytes) {
            prop_assert_eq!(tables.iter().count(), tables.len());
        }
    }
}
