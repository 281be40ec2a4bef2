//! Record batches of Arrow: every supported type, with nulls and cut out of a longer batch, as the
//! decoder finds it in the message; every other type refused by name.

#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float64Builder, ListBuilder};
use arrow_array::types::{Int8Type, Int32Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array,
    Decimal32Array, Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray,
    DurationSecondArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, NullArray, RecordBatch,
    StringArray, StringViewArray, Time32SecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow_buffer::i256;
use arrow_schema::{Field, Schema};
use forebay::ColumnType as T;
use forebay::internals::InstantLoop;
use forebay::{Error, Producer};
use forebay_wire::decode::{Cell, Message, Mode};
use forebay_wire::dict::ConnectionDict;

type Column = (
    &'static str,
    ArrayRef,
    &'static [(&'static str, &'static str)],
);

fn batch(columns: Vec<Column>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array, metadata)| {
            let pairs = metadata
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            let metadata: HashMap<String, String> = pairs.collect();
            Field::new(*name, array.data_type().clone(), true).with_metadata(metadata)
        })
        .collect();
    let arrays = columns.into_iter().map(|(_, array, _)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn world() -> (InstantLoop, Producer) {
    let mut world = InstantLoop::open("ws::addr=127.0.0.1:1;").unwrap();
    world.record_messages(true);
    let producer = world.producer().unwrap();
    (world, producer)
}

/// A column as the server gets it: name, type, and its cells as text.
type Found = (String, T, Vec<String>);

fn sent(batch: &RecordBatch, at: Option<&str>) -> Vec<Found> {
    let (mut world, mut producer) = world();
    producer.try_publish_arrow("t", batch, at).unwrap();
    for _ in 0..100 {
        world.turn();
    }
    let messages = world.take_messages();
    let message = Message::parse(messages.last().unwrap(), Mode::Strict).unwrap();
    let mut dict = ConnectionDict::new();
    dict.apply(&message.delta().unwrap()).unwrap();
    let table = message
        .tables_within(dict.len() as u64)
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(table.row_count(), batch.num_rows());
    let columns = table.columns().map(|column| {
        let column = column.unwrap();
        let cells = column.cells().map(|cell| text(cell, &dict)).collect();
        (column.name.to_owned(), column.ty, cells)
    });
    columns.collect()
}

fn text(cell: Option<Cell<'_>>, dict: &ConnectionDict) -> String {
    match cell {
        None => "null".to_owned(),
        Some(Cell::Boolean(v)) => v.to_string(),
        Some(Cell::Integer(v) | Cell::Time(v)) => v.to_string(),
        Some(Cell::Float(v)) => v.to_string(),
        Some(Cell::Double(v)) => v.to_string(),
        Some(Cell::Symbol(id)) => dict.get(id).unwrap().to_owned(),
        Some(Cell::Uuid(v)) => format!("{:016x}{:016x}", v.hi, v.lo),
        Some(Cell::Long256(words)) => format!("{words:x?}"),
        Some(Cell::Text(v)) => v.unwrap().to_owned(),
        Some(Cell::Bytes(v)) => format!("{v:?}"),
        Some(Cell::Decimal { unscaled, scale }) => unscaled.to_text(scale),
        Some(Cell::Char(v)) => v.to_string(),
        Some(Cell::Ipv4(v)) => std::net::Ipv4Addr::from(v).to_string(),
        Some(Cell::DoubleArray(v)) => {
            let dims: Vec<u32> = v.dims.iter().collect();
            format!("{dims:?}{:?}", v.elements.iter().collect::<Vec<f64>>())
        }
        Some(other) => panic!("{other:?}"),
    }
}

const UUID: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

fn lists() -> (ArrayRef, ArrayRef) {
    let mut vectors = ListBuilder::new(Float64Builder::new());
    vectors.append_value([Some(9.0)]);
    vectors.append_value([Some(1.0), Some(2.0)]);
    vectors.append_null();
    vectors.append_value([]);
    let inner = FixedSizeListBuilder::new(Float64Builder::new(), 2);
    let mut arrays = FixedSizeListBuilder::new(inner, 1);
    for (row, valid) in [true, true, false, true].into_iter().enumerate() {
        let row = f64::from(u8::try_from(row).unwrap());
        arrays.values().values().append_slice(&[row, -row]);
        arrays.values().append(true);
        arrays.append(valid);
    }
    (Arc::new(vectors.finish()), Arc::new(arrays.finish()))
}

/// Four rows; the first is cut away, the third is null. With what the server gets for the rest.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn cases() -> Vec<(Column, T, [&'static str; 3])> {
    const fn tagged(ty: &'static str) -> &'static [(&'static str, &'static str)] {
        match ty.as_bytes()[0] {
            b'b' => &[("questdb.column_type", "byte")],
            b's' => &[("questdb.column_type", "short")],
            b'i' => &[("questdb.column_type", "int")],
            b'c' => &[("questdb.column_type", "char")],
            b'4' => &[("questdb.column_type", "ipv4")],
            b'l' => &[("questdb.column_type", "long256")],
            b'S' => &[("questdb.symbol", "true")],
            _ => &[("ARROW:extension:name", "arrow.uuid")],
        }
    }
    macro_rules! array {
        ($array:ident, $($value:expr),*) => { Arc::new($array::from(vec![$($value),*])) as ArrayRef };
    }
    macro_rules! rows {
        ($array:ident, $a:expr, $b:expr) => {
            array!($array, Some($a), Some($a), None, Some($b))
        };
    }
    let (vectors, arrays) = lists();
    let fixed = |values: [Option<&[u8]>; 4], size| {
        let values = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), size);
        Arc::new(values.unwrap()) as ArrayRef
    };
    let long = [7; 32];
    let codes_of_i8: DictionaryArray<Int8Type> = [Some("x"), Some("a"), None, Some("x")]
        .into_iter()
        .collect();
    let signed_codes: DictionaryArray<Int32Type> = [Some("x"), Some("a"), None, Some("x")]
        .into_iter()
        .collect();
    let unsigned_codes: DictionaryArray<UInt32Type> = [Some("x"), Some("a"), None, Some("x")]
        .into_iter()
        .collect();
    let min = "-9223372036854775808";
    vec![
        (
            ("bool", rows!(BooleanArray, true, false), &[]),
            T::Boolean,
            ["true", "false", "false"],
        ),
        (
            ("i8", rows!(Int8Array, -128, 127), &[]),
            T::Int,
            ["-128", "-2147483648", "127"],
        ),
        (
            ("i16", rows!(Int16Array, -3, 4), &[]),
            T::Int,
            ["-3", "-2147483648", "4"],
        ),
        (
            ("i32", rows!(Int32Array, i32::MIN, 4), &[]),
            T::Long,
            ["-2147483648", min, "4"],
        ),
        (
            ("i64", rows!(Int64Array, -3, i64::MAX), &[]),
            T::Long,
            ["-3", min, "9223372036854775807"],
        ),
        (
            ("u8", rows!(UInt8Array, 0, 255), &[]),
            T::Int,
            ["0", "-2147483648", "255"],
        ),
        (
            ("u16", rows!(UInt16Array, 0, 65535), &[]),
            T::Int,
            ["0", "-2147483648", "65535"],
        ),
        (
            ("u32", rows!(UInt32Array, 0, u32::MAX), &[]),
            T::Long,
            ["0", min, "4294967295"],
        ),
        (
            ("u64", rows!(UInt64Array, 0, 5), &[]),
            T::Long,
            ["0", min, "5"],
        ),
        (
            ("byte", rows!(Int8Array, -128, 127), tagged("byte")),
            T::Byte,
            ["-128", "0", "127"],
        ),
        (
            ("short", rows!(Int16Array, -3, 4), tagged("short")),
            T::Short,
            ["-3", "0", "4"],
        ),
        (
            ("int", rows!(Int32Array, -3, 4), tagged("int")),
            T::Int,
            ["-3", "-2147483648", "4"],
        ),
        (
            ("char", rows!(UInt16Array, 65, 66), tagged("char")),
            T::Char,
            ["65", "0", "66"],
        ),
        (
            ("ip", rows!(UInt32Array, 0x0a00_0001, 1), tagged("4")),
            T::Ipv4,
            ["10.0.0.1", "null", "0.0.0.1"],
        ),
        (
            ("f32", rows!(Float32Array, 1.5, -0.0), &[]),
            T::Float,
            ["1.5", "NaN", "-0"],
        ),
        (
            ("f64", rows!(Float64Array, 1.5, -0.0), &[]),
            T::Double,
            ["1.5", "NaN", "-0"],
        ),
        (
            ("s", rows!(TimestampSecondArray, 2, -1), &[]),
            T::Timestamp,
            ["2000000", "null", "-1000000"],
        ),
        (
            ("ms", rows!(TimestampMillisecondArray, 2, -1), &[]),
            T::Date,
            ["2", "null", "-1"],
        ),
        (
            ("us", rows!(TimestampMicrosecondArray, 2, -1), &[]),
            T::Timestamp,
            ["2", "null", "-1"],
        ),
        (
            ("ns", rows!(TimestampNanosecondArray, 2, -1), &[]),
            T::TimestampNanos,
            ["2", "null", "-1"],
        ),
        (
            ("d32", rows!(Date32Array, 1, -1), &[]),
            T::Date,
            ["86400000", "null", "-86400000"],
        ),
        (
            ("d64", rows!(Date64Array, 1, -1), &[]),
            T::Date,
            ["1", "null", "-1"],
        ),
        (
            ("utf8", rows!(StringArray, "é", ""), &[]),
            T::Varchar,
            ["é", "null", ""],
        ),
        (
            ("large", rows!(LargeStringArray, "é", ""), &[]),
            T::Varchar,
            ["é", "null", ""],
        ),
        (
            (
                "view",
                rows!(StringViewArray, "é", "longer than twelve"),
                &[],
            ),
            T::Varchar,
            ["é", "null", "longer than twelve"],
        ),
        (
            ("sym", rows!(StringArray, "é", "b"), tagged("S")),
            T::Symbol,
            ["é", "null", "b"],
        ),
        (
            ("sym8", Arc::new(codes_of_i8), &[]),
            T::Symbol,
            ["a", "null", "x"],
        ),
        (
            ("sym32", Arc::new(signed_codes), &[]),
            T::Symbol,
            ["a", "null", "x"],
        ),
        (
            ("symu", Arc::new(unsigned_codes), &[]),
            T::Symbol,
            ["a", "null", "x"],
        ),
        (
            ("bin", rows!(BinaryArray, b"ab".as_slice(), b""), &[]),
            T::Binary,
            ["[97, 98]", "null", "[]"],
        ),
        (
            ("lbin", rows!(LargeBinaryArray, b"ab".as_slice(), b""), &[]),
            T::Binary,
            ["[97, 98]", "null", "[]"],
        ),
        (
            ("vbin", rows!(BinaryViewArray, b"ab".as_slice(), b""), &[]),
            T::Binary,
            ["[97, 98]", "null", "[]"],
        ),
        (
            (
                "fbin",
                fixed([Some(b"zz"), Some(b"ab"), None, Some(b"cd")], 2),
                &[],
            ),
            T::Binary,
            ["[97, 98]", "null", "[99, 100]"],
        ),
        (
            (
                "uuid",
                fixed([Some(&[0; 16]), Some(&UUID), None, Some(&[0xff; 16])], 16),
                tagged("u"),
            ),
            T::Uuid,
            [
                "0102030405060708090a0b0c0d0e0f10",
                "null",
                "ffffffffffffffffffffffffffffffff",
            ],
        ),
        (
            (
                "long256",
                fixed([Some(&[0; 32]), Some(&long), None, Some(&[0; 32])], 32),
                tagged("l"),
            ),
            T::Long256,
            [
                "[707070707070707, 707070707070707, 707070707070707, 707070707070707]",
                "null",
                "[0, 0, 0, 0]",
            ],
        ),
        (
            (
                "dec32",
                Arc::new(
                    Decimal32Array::from(vec![Some(0), Some(-150), None, Some(1)])
                        .with_precision_and_scale(9, 2)
                        .unwrap(),
                ),
                &[],
            ),
            T::Decimal64,
            ["-1.50", "null", "0.01"],
        ),
        (
            (
                "dec64",
                Arc::new(
                    Decimal64Array::from(vec![Some(0), Some(-150), None, Some(1)])
                        .with_precision_and_scale(18, 2)
                        .unwrap(),
                ),
                &[],
            ),
            T::Decimal64,
            ["-1.50", "null", "0.01"],
        ),
        (
            (
                "dec128",
                Arc::new(
                    Decimal128Array::from(vec![Some(0), Some(-150), None, Some(1)])
                        .with_precision_and_scale(38, 2)
                        .unwrap(),
                ),
                &[],
            ),
            T::Decimal128,
            ["-1.50", "null", "0.01"],
        ),
        (
            (
                "dec256",
                Arc::new(
                    Decimal256Array::from(
                        vec![Some(0), Some(-150), None, Some(1)]
                            .into_iter()
                            .map(|n| n.map(i256::from_i128))
                            .collect::<Vec<_>>(),
                    )
                    .with_precision_and_scale(76, 2)
                    .unwrap(),
                ),
                &[],
            ),
            T::Decimal256,
            ["-1.50", "null", "0.01"],
        ),
        (
            ("vectors", vectors, &[]),
            T::DoubleArray,
            ["[2][1.0, 2.0]", "null", "[0][]"],
        ),
        (
            ("arrays", arrays, &[]),
            T::DoubleArray,
            ["[1, 2][1.0, -1.0]", "null", "[1, 2][3.0, -3.0]"],
        ),
    ]
}

#[test]
fn every_supported_type_arrives_cut_out_of_a_longer_batch() {
    let cases = cases();
    let whole = batch(cases.iter().map(|(column, ..)| column.clone()).collect());
    let found = sent(&whole.slice(1, 3), None);
    assert_eq!(found.len(), cases.len());
    for ((name, ty, cells), ((column, ..), expected, texts)) in found.into_iter().zip(cases) {
        assert_eq!((name.as_str(), ty), (column, expected));
        assert_eq!(cells, texts, "{column}");
    }
}

#[test]
fn a_column_is_the_designated_timestamp() {
    let stamps: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![5, 6]));
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let both = batch(vec![("ts", stamps, &[]), ("n", values.clone(), &[])]);
    let found = sent(&both, Some("ts"));
    let expected =
        |name: &str, ty, a: &str, b: &str| (name.to_owned(), ty, vec![a.to_owned(), b.to_owned()]);
    assert_eq!(
        found,
        [
            expected("n", T::Long, "1", "2"),
            expected("", T::TimestampNanos, "5", "6"),
        ]
    );

    let (_world, mut producer) = world();
    let mut refused = |batch: &RecordBatch, at: &str, why: &str| match producer.try_publish_arrow(
        "t",
        batch,
        Some(at),
    ) {
        Err(Error::Row {
            table,
            column,
            reason,
        }) => {
            assert_eq!((table.as_str(), column.as_str()), ("t", at));
            assert!(reason.contains(why), "{reason}");
        }
        other => panic!("{other:?}"),
    };
    refused(&both, "none", "no such column");
    refused(&both, "n", "designated timestamps are");
    let holes: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(5), None]));
    let holes = batch(vec![("ts", holes, &[]), ("n", values, &[])]);
    refused(
        &holes,
        "ts",
        "row 1: a designated timestamp must not be null",
    );
}

#[test]
fn other_types_are_refused_by_name() {
    let mut inner_null = ListBuilder::new(Float64Builder::new());
    inner_null.append_value([Some(1.0), None]);
    let dictionary: DictionaryArray<Int32Type> = DictionaryArray::new(
        Int32Array::from(vec![0]),
        Arc::new(Int64Array::from(vec![7])),
    );
    let negative = Decimal128Array::from(vec![1])
        .with_precision_and_scale(5, -2)
        .unwrap();
    let cases: Vec<(ArrayRef, &str)> = vec![
        (Arc::new(NullArray::new(1)), "Null"),
        (Arc::new(Time32SecondArray::from(vec![1])), "Time32"),
        (Arc::new(DurationSecondArray::from(vec![1])), "Duration"),
        (Arc::new(inner_null.finish()), "null elements"),
        (Arc::new(dictionary), "Dictionary"),
        (Arc::new(negative), "scale -2"),
        (
            Arc::new(UInt64Array::from(vec![u64::MAX])),
            "row 0: 18446744073709551615",
        ),
        (
            Arc::new(TimestampSecondArray::from(vec![i64::MAX])),
            "row 0: 9223372036854775807",
        ),
    ];
    let (_world, mut producer) = world();
    for (array, why) in cases {
        let one = batch(vec![("v", array, &[])]);
        match producer.try_publish_arrow("t", &one, None) {
            Err(Error::Row { column, reason, .. }) => {
                assert_eq!(column, "v");
                assert!(reason.contains(why), "{reason:?} does not say {why:?}");
            }
            other => panic!("{why}: {other:?}"),
        }
    }
}
