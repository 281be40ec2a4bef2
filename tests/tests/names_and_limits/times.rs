//! Designated timestamps: before 1970, too old, too new; and the columns that keys add.

use std::time::{SystemTime, UNIX_EPOCH};

use forebay::{Chunk, Nulls, Producer, TimestampMicros, TimestampNanos};
use serde_json::Value;

use super::{cells, client, columns, refused, tables, tables_of};

const HOUR: i64 = 3_600_000_000_000;

fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(since.as_nanos()).expect("before 2262")
}

fn begin(producer: &mut Producer, number: i64) -> &mut Producer {
    let row = producer.table("t").expect("a row");
    row.column_i64("n", number).expect("a value")
}

#[test]
fn times_before_1970_are_refused() {
    let mut client = client("");
    let producer = client.producer();
    refused(
        begin(producer, 1).at(TimestampNanos(-1)),
        "t",
        "",
        "-1 lies before 1970",
    );
    refused(
        begin(producer, 2).at(TimestampMicros(i64::MIN)),
        "t",
        "",
        "lies before 1970",
    );
    let mut chunk = Chunk::new("t");
    chunk.i64("n", &[1, 2], Nulls::NONE).expect("a column");
    refused(
        chunk.at_micros(&[5, -5]).map(drop),
        "t",
        "",
        "row 1: designated timestamp -5",
    );
    begin(producer, 3)
        .at(TimestampNanos(0))
        .expect("the first moment");
    assert_eq!(client.stats().rows_invalid, 2);
    assert_eq!(cells(&tables(&mut client)[0], "n"), ["3"]);
}

#[test]
fn times_out_of_range_are_refused_with_the_key() {
    let mut client = client("timestamp_past_max=3600000;timestamp_future_max=3600000;");
    let (old, new) = (now() - 2 * HOUR, now() + 2 * HOUR);
    let producer = client.producer();
    for (time, key) in [(old, "timestamp_past_max"), (new, "timestamp_future_max")] {
        refused(begin(producer, 1).at(TimestampNanos(time)), "t", "", key);
        let mut chunk = Chunk::new("t");
        let times = [now(), time];
        chunk.i64("n", &[10, 11], Nulls::NONE).expect("a column");
        chunk.at_nanos(&times).expect("judged when it is published");
        refused(producer.try_publish_chunk(&chunk), "t", "", key);
        refused(producer.publish_chunk(&chunk), "t", "", "row 1: ");
    }
    for limit in [i64::MAX, 0] {
        // No overflow at the ends.
        begin(producer, 2)
            .at(TimestampMicros(limit))
            .expect_err("out of range");
    }
    begin(producer, 3)
        .at(TimestampNanos(now() - HOUR / 2))
        .expect("within the range");
    begin(producer, 4)
        .at(TimestampNanos(now() + HOUR / 2))
        .expect("within the range");
    // Two rows, twice two chunks of two rows, two rows.
    assert_eq!(client.stats().rows_invalid, 2 + 8 + 2);
    assert_eq!(cells(&tables(&mut client)[0], "n"), ["3", "4"]);
}

#[test]
fn chunks_get_the_columns_that_keys_add_to_rows() {
    let mut client = client("row_seq=seq;receive_time=received;at_now=client;");
    let before = now();
    let message = client.filled(|producer| {
        let mut chunk = Chunk::new("t");
        chunk.i64("n", &[1, 2, 3], Nulls::NONE)?;
        producer.try_publish_chunk(&chunk).map(drop)
    });
    let chunk = tables_of(&message.expect("a message"));
    assert_eq!(columns(&chunk[0]), ["n", "", "seq", "received"]);
    let numbers = |cells: Vec<&Value>| -> Vec<i64> {
        let text = cells.iter().map(|cell| cell.as_str().expect("a number"));
        text.map(|text| text.parse().expect("a number")).collect()
    };
    let seq = numbers(cells(&chunk[0], "seq"));
    assert!(seq[0] + 1 == seq[1] && seq[1] + 1 == seq[2], "{seq:?}");
    for received in numbers(cells(&chunk[0], "received")) {
        assert!((before..=now()).contains(&received), "{received}");
    }
    for stamped in numbers(cells(&chunk[0], "")) {
        assert!(
            (before / 1000..=now() / 1000).contains(&stamped),
            "{stamped} in microseconds"
        );
    }

    let producer = client.producer();
    begin(producer, 4).at_now().expect("a legal row");
    let rows = tables(&mut client);
    assert!(
        numbers(cells(&rows[0], "seq"))[0] > seq[2],
        "rows and chunks share the numbers"
    );

    let mut chunk = Chunk::new("t");
    chunk.i64("SEQ", &[1], Nulls::NONE).expect("a column");
    let outcome = client.producer().try_publish_chunk(&chunk);
    refused(outcome, "t", "seq", "the engine fills this column");
}
