//! Columns that come late, change their type or come twice; timestamps of two units.

use forebay::{Chunk, ColumnType, Error, Nulls, TimestampMicros, TimestampNanos};

use forebay_wire::decode::{Message, Mode};

use super::{cells, client, columns, refused, tables};

const AT: TimestampNanos = TimestampNanos(1_700_000_000_000_000_000);

#[test]
fn late_columns_are_null_above_and_stay_known() {
    let mut client = client("");
    let producer = client.producer();
    for row in 0..3 {
        producer
            .table("t")
            .expect("a row")
            .column_i64("n", row)
            .expect("a value");
        if row == 1 {
            producer.column_f64("late double", 1.5).expect("a value");
        }
        if row == 2 {
            producer.symbol("late symbol", "s").expect("a value");
            producer.column_str("late text", "x").expect("a value");
        }
        producer.at(AT).expect("a legal row");
    }
    let first = tables(&mut client);
    let [table] = &first[..] else {
        panic!("one table")
    };
    let names = ["n", "", "late double", "late symbol", "late text"];
    assert_eq!(columns(table), names, "in the order of first use");
    let nan = "0x7ff8000000000000";
    let half = "0x3ff8000000000000";
    assert_eq!(cells(table, "late double"), [nan, half, nan]);
    let null = serde_json::Value::Null;
    assert_eq!(cells(table, "late symbol"), [&null, &null, &"s".into()]);
    assert_eq!(cells(table, "late text"), [&null, &null, &"x".into()]);

    let producer = client.producer();
    producer
        .table("t")
        .expect("a row")
        .column_i64("n", 9)
        .expect("a value");
    producer.at(AT).expect("a legal row");
    let message = client.filled(|_| Ok(())).expect("a message");
    let second = Message::parse(&message, Mode::Strict).expect("a message");
    let table = second
        .tables_within(1)
        .next()
        .expect("one")
        .expect("a table");
    let known: Vec<&str> = table.definitions().map(|(name, _)| name).collect();
    assert_eq!(known, names, "columns of earlier batches go along as NULL");
}

#[test]
fn a_type_change_costs_its_row_only() {
    let mut client = client("");
    let producer = client.producer();
    producer.table("t").expect("a row");
    producer
        .symbol("sym", "a")
        .and_then(|row| row.column_f64("price", 1.0))
        .expect("values");
    producer.at(AT).expect("a legal row");

    producer
        .table("t")
        .expect("a row")
        .symbol("sym", "only here")
        .expect("a value");
    refused(producer.column_i64("price", 2), "t", "price", "is Double");
    // The row is gone: a column needs a new one.
    assert!(matches!(
        producer.column_f64("price", 2.0),
        Err(Error::Misuse(_))
    ));
    producer.table("t").expect("a row");
    refused(producer.column_str("sym", "b"), "t", "sym", "is Symbol");
    producer.table("t").expect("a row");
    refused(
        producer.column_f64_opt("sym", None),
        "t",
        "sym",
        "is Symbol",
    );
    let table = producer.prepare("t").expect("a table");
    let column = producer.prepare_column(table, "price", ColumnType::Float);
    refused(column, "t", "price", "is Double");
    let price = producer
        .prepare_column(table, "price", ColumnType::Double)
        .expect("a column");
    producer.row(table).expect("a row");
    refused(producer.put_i64(price, 1), "t", "price", "is Double");

    producer
        .table("t")
        .expect("a row")
        .column_f64("price", 3.0)
        .expect("a value");
    producer.at(AT).expect("a legal row");
    assert_eq!(client.stats().rows_invalid, 4);
    let tables = tables(&mut client);
    let null = serde_json::Value::Null;
    assert_eq!(cells(&tables[0], "sym"), [&"a".into(), &null]);
    assert_eq!(
        cells(&tables[0], "price"),
        ["0x3ff0000000000000", "0x4008000000000000"]
    );
}

#[test]
fn a_column_twice_in_a_row_is_refused_whatever_its_case() {
    let mut client = client("");
    let producer = client.producer();
    for (first, second, why) in [
        ("price", "price", "has this column already"),
        (
            "price",
            "Price",
            "differs only in case from column \"price\"",
        ),
        ("NEW", "new", "differs only in case from column \"NEW\""),
    ] {
        producer
            .table("t")
            .expect("a row")
            .column_i64(first, 1)
            .expect("a value");
        refused(producer.column_i64(second, 2), "t", second, why);
    }
    // In another row, too: the server knows one column of that name.
    producer
        .table("t")
        .expect("a row")
        .column_i64("price", 1)
        .expect("a value");
    producer.at(AT).expect("a legal row");
    producer.table("t").expect("a row");
    refused(
        producer.column_i64("PRICE", 2),
        "t",
        "PRICE",
        "differs only in case",
    );
    let table = producer.prepare("t").expect("a table");
    let twin = producer.prepare_column(table, "PRICE", ColumnType::Long);
    refused(twin, "t", "PRICE", "differs only in case");
    let price = producer
        .prepare_column(table, "price", ColumnType::Long)
        .expect("a column");
    producer
        .row(table)
        .and_then(|row| row.put_i64(price, 5))
        .expect("a value");
    refused(
        producer.put_i64(price, 6),
        "t",
        "price",
        "has this column already",
    );

    let mut chunk = Chunk::new("t");
    chunk.i64("price", &[1], Nulls::NONE).expect("a column");
    for again in ["price", "Price"] {
        let why = "the chunk has column \"price\" already";
        refused(
            chunk.i64(again, &[1], Nulls::NONE).map(drop),
            "t",
            again,
            why,
        );
    }
    chunk.at_nanos(&[AT.0]).expect("a column");
    refused(chunk.at_nanos(&[AT.0]).map(drop), "t", "", "already");
    refused(
        chunk.i64("two", &[1, 2], Nulls::NONE).map(drop),
        "t",
        "two",
        "2 rows",
    );

    let tables = tables(&mut client);
    assert_eq!(columns(&tables[0]), ["price", ""]);
    assert_eq!(cells(&tables[0], "price"), ["1"]);
}

#[test]
fn one_designated_unit_per_table_and_any_for_other_columns() {
    let mut client = client("");
    let producer = client.producer();
    producer.table("nanos").expect("a row");
    producer
        .column_ts("event", TimestampMicros(-7))
        .expect("another unit, another column");
    producer.at(AT).expect("a legal row");
    producer.table("micros").expect("a row");
    producer
        .column_ts("event", TimestampNanos(-7))
        .expect("a value");
    producer
        .at(TimestampMicros(5))
        .expect("another table, another unit");

    producer
        .table("nanos")
        .expect("a row")
        .column_ts_micros("event", 1)
        .expect("a value");
    refused(
        producer.at(TimestampMicros(6)),
        "nanos",
        "",
        "is TimestampNanos",
    );
    producer.table("nanos").expect("a row");
    refused(
        producer.column_ts("event", TimestampNanos(1)),
        "nanos",
        "event",
        "is Timestamp ",
    );
    producer
        .table("nanos")
        .expect("a row")
        .column_ts_micros("event", 2)
        .expect("a value");
    producer.at(AT).expect("a legal row");

    let tables = tables(&mut client);
    assert_eq!(cells(&tables[0], "event"), ["-7", "2"]);
    assert_eq!(cells(&tables[0], ""), ["1700000000000000000"; 2]);
    assert_eq!(cells(&tables[1], "event"), ["-7"]);
    assert_eq!(cells(&tables[1], ""), ["5"]);
}
