//! Sizes: of symbols, rows, batches and tables, each refused with its limit.

use forebay::{Chunk, Error, Nulls, TimestampNanos};

use super::{cells, client, refused, tables, tables_of};

const AT: TimestampNanos = TimestampNanos(1_700_000_000_000_000_000);

/// Asserts that the batch was refused because of `limit`, with both sizes in the message.
fn too_large(outcome: Result<impl Sized, Error>, key: &str, most: u64) {
    let error = outcome.err().expect("a refusal");
    let Error::BatchTooLarge {
        batch_bytes,
        limit_bytes,
        limit,
        ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert!(limit.contains(key), "{limit}");
    assert_eq!(limit_bytes, most);
    assert!(batch_bytes > most);
    let text = error.to_string();
    assert!(
        text.contains(&batch_bytes.to_string()) && text.contains(&most.to_string()),
        "{text}"
    );
}

#[test]
fn a_row_above_the_cap_names_the_key() {
    let mut client = client("max_buf_size=4096;");
    let producer = client.producer();
    let text = "x".repeat(5000);
    producer
        .table("t")
        .and_then(|row| row.column_str("v", &text))
        .expect("a value");
    producer.at(AT).expect("a row");
    too_large(producer.try_flush(), "max_buf_size", 4096);
    too_large(producer.publish().map(drop), "max_buf_size", 4096);
    assert_eq!(producer.rows(), 1, "it stays");
    producer.clear();
    let mut chunk = Chunk::new("t");
    chunk
        .text("v", &[0, 5000], &text, Nulls::NONE)
        .expect("a column");
    too_large(
        producer.try_publish_chunk(&chunk).map(drop),
        "max_buf_size",
        4096,
    );

    producer
        .table("t")
        .and_then(|row| row.column_str("v", "short"))
        .expect("a value");
    producer.at(AT).expect("a row");
    assert_eq!(
        cells(&tables(&mut client)[0], "v"),
        ["short"],
        "and the producer goes on"
    );
}

#[test]
fn a_row_above_half_a_ring_names_the_key() {
    let mut client = client("intake_ring_bytes=4096;");
    let producer = client.producer();
    let text = "x".repeat(3000);
    producer
        .table("t")
        .and_then(|row| row.column_str("v", &text))
        .expect("a value");
    producer.at(AT).expect("a row");
    // Half of it, less the head of an entry.
    too_large(producer.try_flush(), "intake_ring_bytes", 4096 / 2 - 32);
}

#[test]
fn a_batch_above_the_cap_goes_in_parts() {
    let mut client = client("max_buf_size=4096;");
    let producer = client.producer();
    for row in 0..1000 {
        producer
            .table("t")
            .and_then(|r| r.column_i64("n", row))
            .expect("a value");
        producer.at(AT).expect("a row");
    }
    producer.try_flush().expect("cut between rows");
    assert_eq!(producer.rows(), 0);
    let (values, times) = ((0..1000).collect::<Vec<i64>>(), [AT.0; 1000]);
    let mut chunk = Chunk::new("t");
    chunk
        .i64("n", &values, Nulls::NONE)
        .and_then(|c| c.at_nanos(&times))
        .expect("columns");
    producer
        .try_publish_chunk(&chunk)
        .expect("cut between rows");
    let sent = client.sent();
    assert!(sent.len() > 4 && sent.iter().all(|message| message.len() <= 4096));
    let stats = client.stats();
    assert_eq!((stats.rows_published, stats.publishes_oversize), (2000, 0));
}

#[test]
fn a_symbol_above_1_mib_costs_its_row() {
    let mut client = client("");
    let producer = client.producer();
    let (most, more) = ("s".repeat(1 << 20), "s".repeat((1 << 20) + 1));
    let why = "1048577 bytes, at most 1048576";
    producer.table("t").expect("a row");
    refused(producer.symbol("sym", &more), "t", "sym", why);
    refused(producer.intern(&more), "", "", why);
    let dictionary = [more.as_str()];
    let mut chunk = Chunk::new("t");
    refused(
        chunk.symbol_codes("sym", &[0], &dictionary, Nulls::NONE),
        "t",
        "sym",
        why,
    );
    let ends = [0, u32::try_from(more.len()).expect("small")];
    refused(
        chunk.symbol_text("sym", &ends, &more, Nulls::NONE),
        "t",
        "sym",
        why,
    );
    producer
        .table("t")
        .and_then(|row| row.symbol("sym", &most))
        .expect("the longest");
    producer.at(AT).expect("a row");
    assert_eq!(producer.rows(), 1);
}

#[test]
fn columns_of_a_table_are_bounded() {
    let mut client = client("");
    let producer = client.producer();
    let names: Vec<String> = (0..2049).map(|column| format!("c{column}")).collect();
    producer.table("t").expect("a row");
    for name in &names[..2048] {
        producer.column_bool(name, true).expect("one of 2,048");
    }
    refused(
        producer.column_bool(&names[2048], true),
        "t",
        "c2048",
        "at most 2048 columns",
    );
    producer.table("t").expect("a row");
    for name in &names[..2048] {
        producer.column_bool(name, true).expect("one of 2,048");
    }
    refused(producer.at(AT), "t", "", "at most 2048 columns");
    let mut chunk = Chunk::new("t");
    for name in &names[..2048] {
        chunk
            .bool(name, &[true], Nulls::NONE)
            .expect("one of 2,048");
    }
    refused(
        chunk.at_nanos(&[1]).map(drop),
        "t",
        "",
        "at most 2048 columns",
    );
    assert_eq!(producer.rows(), 0);
}

#[test]
fn rows_of_a_table_are_bounded() {
    let mut client = client("intake_ring_bytes=64m;");
    let producer = client.producer();
    let table = producer.prepare("t").expect("a table");
    let column = producer
        .prepare_column(table, "b", forebay::ColumnType::Byte)
        .expect("one");
    for _ in 0..1_000_000 {
        producer
            .row(table)
            .and_then(|row| row.put_i8(column, 1))
            .expect("a value");
        producer.at(AT).expect("one of a million");
    }
    producer
        .row(table)
        .and_then(|row| row.put_i8(column, 1))
        .expect("a value");
    refused(producer.at(AT), "t", "", "at most 1000000 rows");
    assert_eq!(producer.rows(), 1_000_000, "the others stay");
    producer
        .row(table)
        .and_then(|row| row.put_i8(column, 1))
        .expect("a value");
    refused(producer.at(AT), "t", "", "flush first");
}

#[test]
fn geohashes_decimals_and_arrays_are_checked() {
    let mut client = client("");
    let producer = client.producer();
    let begin = |producer: &mut forebay::Producer| {
        producer.table("t").map(drop).expect("a row");
    };
    begin(producer);
    refused(
        producer.column_geohash("v", 0, 61),
        "t",
        "v",
        "61 bits, it must be 1 to 60",
    );
    begin(producer);
    refused(
        producer.column_geohash("v", 0b111, 2),
        "t",
        "v",
        "does not fit 2 bits",
    );
    begin(producer);
    producer.column_geohash("v", 1, 5).expect("a value");
    producer.at(AT).expect("a row");
    begin(producer);
    refused(
        producer.column_geohash("v", 1, 6),
        "t",
        "v",
        "the column's other values have 5",
    );
    begin(producer);
    refused(producer.column_dec64("d", 1, 19), "t", "d", "at most 18");
    begin(producer);
    refused(producer.column_dec128("d", 1, 39), "t", "d", "at most 38");
    begin(producer);
    refused(
        producer.column_dec256("d", [0; 32], 77),
        "t",
        "d",
        "at most 76",
    );
    begin(producer);
    refused(producer.column_arr("a", &[], &[]), "t", "a", "0 dimensions");
    begin(producer);
    refused(
        producer.column_arr("a", &[2, 2], &[1.0; 3]),
        "t",
        "a",
        "3 values",
    );
}

#[test]
fn slices_of_a_chunk_are_checked() {
    let mut chunk = Chunk::new("t");
    let none = Nulls::NONE;
    refused(
        chunk.geohash("v", &[4], 2, none),
        "t",
        "v",
        "row 0: 0x4 does not fit 2 bits",
    );
    refused(
        chunk.geohash("v", &[4], 0, none),
        "t",
        "v",
        "it must be 1 to 60",
    );
    refused(chunk.dec64("d", &[1], 19, none), "t", "d", "at most 18");
    refused(chunk.dec128("d", &[1], 39, none), "t", "d", "at most 38");
    refused(
        chunk.dec256("d", &[[0; 32]], 77, none),
        "t",
        "d",
        "at most 76",
    );
    refused(
        chunk.arrays("a", &[], &[], 1, none),
        "t",
        "a",
        "0 dimensions",
    );
    refused(
        chunk.arrays("a", &[2], &[1.0; 3], 1, none),
        "t",
        "a",
        "3 elements",
    );
    refused(
        chunk.arrays("a", &[1 << 20, 1 << 20], &[], 0, none),
        "t",
        "a",
        "536870912 bytes",
    );
    refused(
        chunk.arrays("a", &[268_435_455, 9, 0], &[], 1, none),
        "t",
        "a",
        "536870912 bytes",
    );
    refused(
        chunk.vectors("a", &[0, 2], &[1.0], none),
        "t",
        "a",
        "offset 2 lies behind",
    );
    refused(
        chunk.text("s", &[0, 1], "é", none),
        "t",
        "s",
        "within a character",
    );
    refused(
        chunk.text("s", &[2, 0], "ab", none),
        "t",
        "s",
        "offsets decrease",
    );
    refused(chunk.binary("s", &[], &[], none), "t", "s", "no offsets");
    refused(
        chunk.symbol_codes("s", &[1], &["a"], none),
        "t",
        "s",
        "row 0: code 1",
    );
    refused(
        chunk.bits("b", &[0], 5, 4, none),
        "t",
        "b",
        "do not hold 4 rows",
    );
    let short = Nulls::from_validity(&[0xff], 1);
    refused(
        chunk.i64("n", &[0; 8], short),
        "t",
        "n",
        "tells of 7 of 8 rows",
    );
    assert_eq!(chunk.rows(), 0, "nothing was added");
}

/// Field report: rows refused `[268435455, 0]`, chunks took it; and chunks took shapes that servers
/// refuse.
#[test]
fn rows_and_chunks_take_the_same_arrays_without_elements() {
    const LONGEST: u32 = 268_435_455;
    let shapes: [(&[u32], bool); 6] = [
        (&[0], true),
        (&[LONGEST, 0], true),
        (&[0, LONGEST, LONGEST], true),
        (&[LONGEST, LONGEST, 0], false),
        (&[LONGEST + 1, 0], false),
        (&[], false),
    ];
    for (shape, legal) in shapes {
        let mut client = client("");
        let producer = client.producer();
        let lengths: Vec<usize> = shape.iter().map(|length| *length as usize).collect();
        producer.table("t").expect("a row");
        let by_row = producer.column_arr("a", &lengths, &[]).is_ok();
        if by_row {
            producer.at(AT).expect("a legal row");
            assert_eq!(
                tables(&mut client)[0]["rows"].as_array().map(Vec::len),
                Some(1)
            );
        }
        let mut chunk = Chunk::new("t");
        let by_chunk = chunk.arrays("a", shape, &[], 1, Nulls::NONE).is_ok();
        assert_eq!((by_row, by_chunk), (legal, legal), "{shape:?}");
        if by_chunk {
            let message = client.filled(|producer| producer.try_publish_chunk(&chunk).map(drop));
            let message = message.expect("a message");
            assert_eq!(
                tables_of(&message)[0]["rows"].as_array().map(Vec::len),
                Some(1)
            );
        }
    }
}
