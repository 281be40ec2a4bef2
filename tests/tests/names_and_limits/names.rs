//! Names of tables and columns.

use forebay::{Chunk, ColumnType, Nulls, Producer, TimestampNanos};

use super::{cells, client, columns, refused, tables};

const AT: TimestampNanos = TimestampNanos(1_700_000_000_000_000_000);

/// Every way in which a table can be named.
fn bad_table(producer: &mut Producer, name: &str, why: &str) {
    refused(producer.table(name), name, "", why);
    refused(producer.prepare(name), name, "", why);
    let mut chunk = Chunk::new(name);
    chunk.i64("n", &[1], Nulls::NONE).expect("a column");
    refused(producer.try_publish_chunk(&chunk), name, "", why);
    refused(producer.publish_chunk(&chunk), name, "", why);
}

/// Every way in which a column can be named.
fn bad_column(producer: &mut Producer, name: &str, why: &str) {
    let begin = |producer: &mut Producer| {
        producer.table("t").expect("a row");
        producer.column_i64("kept", 1).expect("a value");
    };
    begin(producer);
    refused(producer.column_f64(name, 1.0), "t", name, why);
    begin(producer);
    refused(producer.symbol(name, "a"), "t", name, why);
    begin(producer);
    refused(producer.column_str_opt(name, None), "t", name, why);
    // The type of the designated timestamp must not open the door to it.
    begin(producer);
    refused(producer.column_ts_nanos(name, -1), "t", name, why);
    let table = producer.prepare("t").expect("a table");
    let prepared = producer.prepare_column(table, name, ColumnType::TimestampNanos);
    refused(prepared, "t", name, why);
    let mut chunk = Chunk::new("t");
    chunk.i64("n", &[1], Nulls::NONE).expect("a column");
    let added = chunk.f64(name, &[1.0], Nulls::NONE);
    if name.len() <= 127 && why.contains("max_name_len") {
        added.expect("only the producer knows its key");
        refused(producer.try_publish_chunk(&chunk), "t", name, why);
    } else {
        refused(added, "t", name, why);
        refused(
            chunk.symbol_text(name, &[0, 0], "", Nulls::NONE),
            "t",
            name,
            why,
        );
    }
}

#[test]
fn bad_names_are_refused_by_every_way_and_cost_their_row_only() {
    let mut client = client("");
    let producer = client.producer();
    let controls = ('\0'..='\u{f}').chain("?,'\"\\/:)(+*%~\u{7f}\u{feff}".chars());
    for character in controls {
        let name = format!("a{character}b");
        bad_table(producer, &name, "the character");
        bad_column(producer, &name, "the character");
    }
    for name in [".a", "a.", "a..b"] {
        bad_table(producer, name, "a dot at byte");
    }
    for name in ["a.b", "a-b"] {
        bad_column(producer, name, "the character");
    }
    let long = "é".repeat(64);
    for name in ["", long.as_str()] {
        let why = if name.is_empty() {
            "name is empty"
        } else {
            "128 bytes"
        };
        bad_table(producer, name, why);
        bad_column(producer, name, why);
    }
    assert_eq!(producer.rows(), 0, "every row was left out");
    producer
        .table("t")
        .expect("a row")
        .column_i64("kept", 7)
        .expect("a value");
    producer.at(AT).expect("a legal row");
    let tables = tables(&mut client);
    assert_eq!(tables.len(), 1);
    assert_eq!(
        columns(&tables[0]),
        ["kept", ""],
        "no refused column came to be"
    );
    assert_eq!(cells(&tables[0], "kept"), ["7"]);
}

#[test]
fn max_name_len_shortens_names() {
    let mut client = client("max_name_len=10;");
    let producer = client.producer();
    let why = "11 bytes, at most 10 (max_name_len)";
    bad_table(producer, "elevenbytes", why);
    bad_column(producer, "elevenbytes", why);
    producer
        .table("ten__bytes")
        .expect("a table")
        .column_bool("ten__bytes", true)
        .expect("one");
    producer.at(AT).expect("a legal row");
    assert_eq!(tables(&mut client)[0]["name"], "ten__bytes");
}

#[test]
fn names_may_have_other_scripts_spaces_and_inner_dots() {
    let mut client = client("");
    let producer = client.producer();
    let longest = "x".repeat(127);
    for table in ["ticks.2026 eu-1", "日本", &longest] {
        producer.table(table).expect("a legal table");
        producer.column_i64("été 日本", 1).expect("a legal column");
        producer.column_i64(&longest, 2).expect("a legal column");
        producer.at(AT).expect("a legal row");
    }
    let tables = tables(&mut client);
    let names: Vec<_> = tables.iter().map(|table| &table["name"]).collect();
    assert_eq!(names, ["ticks.2026 eu-1", "日本", longest.as_str()]);
}
