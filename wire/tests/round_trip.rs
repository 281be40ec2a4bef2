//! Columns of every type against a naive model: a list of optional values.

mod support;

use forebay_wire::decimal::Unscaled;
use forebay_wire::decode::{Cell, Message, Mode, Values};
use forebay_wire::encode::ColumnBuffer;
use forebay_wire::gorilla;
use forebay_wire::header::Flags;
use forebay_wire::types::ColumnType;
use proptest::collection::vec;
use proptest::prelude::*;
use support::message;

/// What every value is made from, whatever the type.
#[derive(Clone, Debug)]
struct Seed {
    words: [u64; 4],
    text: String,
}

/// What a producer does to a column.
#[derive(Clone, Debug)]
enum Op {
    Push(Seed),
    Nulls(usize),
    /// Keeps this many per mille of the rows.
    Truncate(usize),
    Clear,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let word = prop_oneof![any::<u64>(), 0..300_u64, Just(1 << 63), Just(u64::MAX)];
    let seed = (proptest::array::uniform4(word), "\\PC{0,12}")
        .prop_map(|(words, text)| Seed { words, text });
    vec(
        prop_oneof![
            20 => seed.prop_map(Op::Push),
            4 => (1..20_usize).prop_map(Op::Nulls),
            2 => (0..=1000_usize).prop_map(Op::Truncate),
            1 => Just(Op::Clear),
        ],
        0..60,
    )
}

fn low(word: u64) -> u32 {
    u32::try_from(word & 0xffff_ffff).expect("32 bits")
}

/// Pushes the value that the seed stands for and returns it as [`show`] shows it.
fn push(column: &mut ColumnBuffer, precision: u8, seed: &Seed) -> String {
    let [a, b, c, d] = seed.words;
    let [b0, b1, ..] = a.to_le_bytes();
    let short = u16::from_le_bytes([b0, b1]);
    match column.column_type() {
        ColumnType::Boolean => {
            column.push_bool(a % 2 == 1);
            (a % 2 == 1).to_string()
        }
        ColumnType::Byte => {
            column.push_i8(b0.cast_signed());
            b0.cast_signed().to_string()
        }
        ColumnType::Short => {
            column.push_i16(short.cast_signed());
            short.cast_signed().to_string()
        }
        ColumnType::Int => {
            column.push_i32(low(a).cast_signed());
            low(a).cast_signed().to_string()
        }
        ColumnType::Long
        | ColumnType::Timestamp
        | ColumnType::TimestampNanos
        | ColumnType::Date => {
            column.push_i64(a.cast_signed());
            a.cast_signed().to_string()
        }
        ColumnType::Float => {
            column.push_f32(f32::from_bits(low(a)));
            format!("{:08x}", low(a))
        }
        ColumnType::Double => {
            column.push_f64(f64::from_bits(a));
            format!("{a:016x}")
        }
        ColumnType::Symbol => {
            column.push_symbol(low(a) % 2_000_000);
            (low(a) % 2_000_000).to_string()
        }
        ColumnType::Uuid => {
            column.push_uuid(a, b);
            format!("{b:016x}{a:016x}")
        }
        ColumnType::Long256 => {
            column.push_long256([a, b, c, d]);
            format!("{d:016x}{c:016x}{b:016x}{a:016x}")
        }
        ColumnType::Char => {
            column.push_char(short);
            short.to_string()
        }
        ColumnType::Ipv4 => {
            column.push_ipv4(low(a));
            low(a).to_string()
        }
        ColumnType::Varchar => {
            column.push_str(&seed.text);
            format!("{:?}", seed.text)
        }
        ColumnType::Binary => {
            column.push_bytes(seed.text.as_bytes());
            format!("{:?}", seed.text.as_bytes())
        }
        _ => push_parametric(column, precision, seed),
    }
}

fn push_parametric(column: &mut ColumnBuffer, precision: u8, seed: &Seed) -> String {
    let [a, b, c, d] = seed.words;
    let shape = [
        usize::try_from(a % 3).expect("valid by construction"),
        usize::try_from(b % 4).expect("valid by construction"),
    ];
    let shape = if c % 2 == 0 { &shape[..1] } else { &shape[..] };
    let count: usize = shape.iter().product();
    let elements = seed.words.iter().cycle().take(count);
    match column.column_type() {
        ColumnType::Geohash => {
            let bits = a >> (64 - precision);
            column
                .push_geohash(bits, precision)
                .expect("valid by construction");
            format!("{bits}/{precision}")
        }
        ColumnType::DoubleArray => {
            column
                .push_double_array(shape, elements.clone().map(|w| f64::from_bits(*w)))
                .expect("valid by construction");
            format!("{shape:?} {:?}", elements.collect::<Vec<_>>())
        }
        ColumnType::LongArray => {
            column
                .push_long_array(shape, elements.clone().map(|w| w.cast_signed()))
                .expect("valid by construction");
            format!("{shape:?} {:?}", elements.collect::<Vec<_>>())
        }
        ColumnType::Decimal64 | ColumnType::Decimal128 | ColumnType::Decimal256 => {
            // Small enough that every mixture of the scales below fits.
            let unscaled = i64::from(low(b).cast_signed());
            let scale = u8::try_from(d % 9).expect("valid by construction");
            column
                .push_decimal(unscaled, scale)
                .expect("valid by construction");
            normal(&Unscaled::from(unscaled).to_text(scale))
        }
        other => panic!("{other:?} is pushed elsewhere"),
    }
}

/// Decimal text without zeros at its end, so that scales do not matter.
fn normal(text: &str) -> String {
    let text = if text.contains('.') {
        text.trim_end_matches('0')
    } else {
        text
    };
    let text = text.trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

fn show(cell: &Cell<'_>) -> String {
    match cell {
        Cell::Boolean(value) => value.to_string(),
        Cell::Integer(value) | Cell::Time(value) => value.to_string(),
        Cell::Float(value) => format!("{:08x}", value.to_bits()),
        Cell::Double(value) => format!("{:016x}", value.to_bits()),
        Cell::Symbol(id) => id.to_string(),
        Cell::Uuid(uuid) => format!("{:016x}{:016x}", uuid.hi, uuid.lo),
        Cell::Long256([a, b, c, d]) => format!("{d:016x}{c:016x}{b:016x}{a:016x}"),
        Cell::Geohash {
            bits, precision, ..
        } => format!("{bits}/{precision}"),
        Cell::Text(text) => format!("{:?}", text.expect("valid by construction")),
        Cell::Bytes(bytes) => format!("{bytes:?}"),
        Cell::DoubleArray(array) => {
            let dims: Vec<_> = array.dims.iter().collect();
            let bits: Vec<_> = array.elements.iter().map(f64::to_bits).collect();
            format!("{dims:?} {bits:?}")
        }
        Cell::LongArray(array) => {
            let dims: Vec<_> = array.dims.iter().collect();
            let bits: Vec<_> = array.elements.iter().map(i64::cast_unsigned).collect();
            format!("{dims:?} {bits:?}")
        }
        Cell::Decimal { unscaled, scale } => normal(&unscaled.to_text(*scale)),
        Cell::Char(unit) => unit.to_string(),
        Cell::Ipv4(address) => address.to_string(),
    }
}

/// What a NULL reads as where the row sender writes a sentinel.
fn sentinel(ty: ColumnType) -> Option<String> {
    Some(match ty {
        ColumnType::Boolean => "false".to_owned(),
        ColumnType::Byte | ColumnType::Short | ColumnType::Char => "0".to_owned(),
        ColumnType::Int => i32::MIN.to_string(),
        ColumnType::Long => i64::MIN.to_string(),
        ColumnType::Float => "7fc00000".to_owned(),
        ColumnType::Double => "7ff8000000000000".to_owned(),
        _ => return None,
    })
}

/// Does the operations to a column and to the model.
fn play(ty: ColumnType, precision: u8, ops: &[Op]) -> (ColumnBuffer, Vec<Option<String>>) {
    let mut column = ColumnBuffer::new(ty);
    let mut model = Vec::new();
    for op in ops {
        match op {
            Op::Push(seed) => model.push(Some(push(&mut column, precision, seed))),
            Op::Nulls(count) => {
                column.push_nulls(*count);
                model.extend(std::iter::repeat_n(sentinel(ty), *count));
            }
            Op::Truncate(per_mille) => {
                let kept = model.len() * per_mille / 1000;
                column.truncate(kept);
                model.truncate(kept);
            }
            Op::Clear => {
                column.clear();
                model.clear();
            }
        }
        assert_eq!(column.rows(), model.len());
    }
    (column, model)
}

/// Decodes the only column of a message, strictly, and checks the views against each other.
fn read(bytes: &[u8]) -> Vec<Option<String>> {
    let message = Message::parse(bytes, Mode::Strict).expect("valid by construction");
    let table = message
        .tables_within(2_000_000)
        .next()
        .expect("valid by construction")
        .expect("valid by construction");
    let column = table
        .columns()
        .next()
        .expect("valid by construction")
        .expect("valid by construction");
    assert_eq!(column.values.len(), column.nulls.present());
    assert_eq!(
        column.nulls.iter().filter(|null| *null).count(),
        column.nulls.count()
    );
    assert_eq!(column.offset + column.byte_len, bytes.len());
    column
        .cells()
        .map(|cell| cell.map(|cell| show(&cell)))
        .collect()
}

fn all_types() -> impl Strategy<Value = ColumnType> {
    proptest::sample::select(ColumnType::ALL.as_slice())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn what_a_producer_pushed_is_what_a_server_reads(
        ty in all_types(), precision in 1..=60_u8, ops in ops(), gorilla: bool,
    ) {
        let (column, model) = play(ty, precision, &ops);
        let flags = if gorilla { Flags::GORILLA } else { Flags::NONE };
        let flags = flags.with(Flags::DELTA_SYMBOL_DICT);
        prop_assert_eq!(read(&message(flags, &[], "t", &[("c", &column)])), model);
    }

    #[test]
    fn encoded_len_is_exact_and_only_symbols_differ_from_the_wire(
        ty in all_types(), precision in 1..=60_u8, ops in ops(),
    ) {
        let (column, _) = play(ty, precision, &ops);
        let mut out = vec![0xaa; column.encoded_len() + 3];
        prop_assert_eq!(column.encode(&mut out), column.encoded_len());
        prop_assert_eq!(&out[column.encoded_len()..], &[0xaa; 3]);
        out.truncate(column.encoded_len());
        let mut wire = Vec::new();
        column.encode_wire(false, &mut wire);
        if let Some((first, cells)) = column.symbol_run() {
            let ids: Vec<u32> = column.symbol_ids().collect();
            let raw = out[first..].as_chunks().0.iter().map(|raw| u32::from_le_bytes(*raw));
            prop_assert_eq!(raw.collect::<Vec<_>>(), &ids[..]);
            prop_assert_eq!(ids.len(), cells);
            prop_assert_eq!(first + 4 * cells, out.len());
            prop_assert_eq!(&out[..first], &wire[..first]);
        } else {
            prop_assert_eq!(out, wire);
        }
    }

    #[test]
    fn gorilla_streams_read_back_and_never_outgrow_plain_values(
        start: i64, steps in vec(step(), 0..200),
    ) {
        let mut values = vec![start];
        for step in steps {
            values.push(values[values.len() - 1].wrapping_add(step));
        }
        let mut out = vec![0x55];
        if gorilla::encode(&values, &mut out) {
            prop_assert!(out.len() - 1 <= values.len() * 8);
            let mut decoder = gorilla::Decoder::new(&out[1..], values.len());
            let read: Result<Vec<_>, _> = decoder.by_ref().collect();
            prop_assert_eq!(read.unwrap(), values);
            prop_assert_eq!(decoder.bytes_used(), out.len() - 1);
        } else {
            let fits = values.windows(3).all(|w| {
                let [a, b, c] = [w[0], w[1], w[2]].map(i128::from);
                i32::try_from(c - b - (b - a)).is_ok() && i64::try_from(b - a).is_ok()
            });
            prop_assert!(!fits, "a series that fits was refused");
            prop_assert_eq!(out, [0x55]);
        }
    }

    #[test]
    fn symbol_cells_are_found_the_same_way_fast_and_one_by_one(
        ids in vec(prop_oneof![0..200_u64, 0..2_000_000_u64, any::<u64>()], 0..80),
        padded in vec(0..4_usize, 80), cut in 0..400_usize,
    ) {
        let mut column = Vec::new();
        for (id, pad) in ids.iter().zip(&padded) {
            forebay_wire::varint::push(*id, &mut column);
            // Ten bytes at most: some of these are one too long, on purpose.
            if *pad == 3 {
                let last = column.len() - 1;
                column[last] |= 0x80;
                column.extend_from_slice(&[0x80, 0]);
            }
        }
        column.truncate(cut);
        let mut payload = vec![0, 0, 1, b't'];
        forebay_wire::varint::push(ids.len() as u64, &mut payload);
        payload.extend_from_slice(&[1, 1, b'c', 9, 0]);
        payload.extend_from_slice(&column);
        let bytes = support::finish(Flags::DELTA_SYMBOL_DICT, 1, &payload);
        let message = Message::parse(&bytes, Mode::Genuine).unwrap();
        let fast = message.tables().next().unwrap();
        let slow = message.tables_within(u64::MAX).next().unwrap();
        let fast_ids = fast.ok().map(|table| ids_of(&table));
        if ids.contains(&u64::MAX) {
            return Ok(());
        }
        prop_assert_eq!(&fast_ids, &slow.ok().map(|table| ids_of(&table)));
        if let Some(found) = fast_ids {
            prop_assert_eq!(found, ids);
        }
    }
}

fn ids_of(table: &forebay_wire::decode::Table<'_>) -> Vec<u64> {
    let column = table
        .columns()
        .next()
        .expect("read before")
        .expect("read before");
    let Values::Symbol(cells) = column.values else {
        panic!("the column is a symbol")
    };
    cells.iter().collect()
}

fn step() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(1000_i64),
        900..1100_i64,
        -3000..3000_i64,
        -2_147_483_648..2_147_483_648_i64,
        -3_000_000_000..3_000_000_000_i64,
        any::<i64>(),
    ]
}
