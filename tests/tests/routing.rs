//! What goes to which shard: by table, by producer, by key; handles and receipts over shards.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use forebay::{Chunk, ColumnType, Engine, Error, Nulls, Stage, TimestampNanos};

mod producing;
use producing::{PATIENCE, connect, free_address, row, scratch, serve, stored_rows, until};

/// Frames that each shard has published.
fn frames(engine: &Engine) -> Vec<u64> {
    let shards = engine.status().shards;
    shards.iter().map(|shard| shard.unacked_frames).collect()
}

/// Documented: `t0` is a table of shard 1 of 2, `t1` one of shard 0, in any case.
#[test]
fn a_table_stays_with_its_shard_and_the_prepared_table_too() {
    let engine = connect(free_address(), "shards=2;close_flush_timeout_millis=0;");
    let mut producer = engine.producer().unwrap();
    let (t0, t1) = (
        producer.prepare("t0").unwrap(),
        producer.prepare("t1").unwrap(),
    );
    let v0 = producer.prepare_column(t0, "v", ColumnType::Long).unwrap();
    let v1 = producer.prepare_column(t1, "v", ColumnType::Long).unwrap();
    let s1 = producer
        .prepare_column(t1, "s", ColumnType::Symbol)
        .unwrap();
    let s0 = producer
        .prepare_column(t0, "s", ColumnType::Symbol)
        .unwrap();
    let symbol = producer.intern("BTC-USD").unwrap();
    for n in 0..10 {
        for (table, value, text) in [(t0, v0, s0), (t1, v1, s1)] {
            let row = producer.row(table).unwrap().put_i64(value, n).unwrap();
            row.put_symbol(text, symbol).unwrap();
            row.at(TimestampNanos(n + 1)).unwrap();
        }
        assert_eq!(producer.rows(), 2);
        producer.try_flush().unwrap();
    }
    until("one entry each a flush", || frames(&engine) == [10, 10]);
    row(&mut producer, "T0", 1, "");
    producer.try_flush().unwrap();
    until("the case does not matter", || frames(&engine) == [10, 11]);
    let row = producer.row(t0).unwrap();
    let error = row.put_i64(v1, 1).map(drop).expect_err("of another table");
    assert!(matches!(error, Error::Misuse(_)), "{error}");
    let mut other = engine.producer().unwrap();
    assert!(matches!(other.row(t0), Err(Error::Misuse(_))));
    engine.close().expect_err("nobody listens");
}

#[test]
fn a_producer_that_is_routed_as_a_whole_has_one_shard_and_the_next_one_another() {
    let conf = "shards=2;route_by=producer;close_flush_timeout_millis=0;";
    let engine = connect(free_address(), conf);
    let mut producers = [0; 4].map(|_| engine.producer().unwrap());
    for (n, producer) in producers.iter_mut().enumerate() {
        for table in ["t0", "t1", "trades", "book"] {
            row(producer, table, n as u64, "");
        }
        producer.try_flush().unwrap();
    }
    until("two of four each", || frames(&engine) == [2, 2]);
    let error = producers[0].route("x").map(drop).expect_err("not by key");
    assert!(matches!(error, Error::Misuse(_)), "{error}");
    engine.close().expect_err("nobody listens");
}

/// `t1` is of shard 0, `t0` of shard 1: also as keys.
#[test]
fn a_key_decides_for_rows_prepared_rows_and_chunks() {
    let (dir, address) = (scratch(), free_address());
    let engine = connect(address, "shards=2;route_by=key;");
    let mut producer = engine.producer().unwrap();
    let table = producer.prepare("trades").unwrap();
    let sym = producer
        .prepare_column(table, "sym", ColumnType::Symbol)
        .unwrap();
    let n = producer
        .prepare_column(table, "n", ColumnType::Long)
        .unwrap();
    let symbols = ["t0", "t1"].map(|text| producer.intern(text).unwrap());
    for number in 0..100_u32 {
        let which = (number % 2) as usize;
        let key = ["t0", "t1"][which];
        let signed = i64::from(number);
        producer.route(key).unwrap();
        match number % 3 {
            0 => {
                let row = producer.row(table).unwrap();
                row.put_symbol(sym, symbols[which]).unwrap();
                row.put_i64(n, signed).unwrap();
                row.at(TimestampNanos(signed + 1)).unwrap();
            }
            1 => {
                let row = producer.table("trades").unwrap();
                row.column_i64("n", signed).unwrap();
                row.symbol("sym", key).unwrap();
                row.at(TimestampNanos(signed + 1)).unwrap();
            }
            _ => {
                let (handles, numbers, at) = ([symbols[which]], [signed], [signed + 1]);
                let mut chunk = Chunk::new("trades");
                chunk.symbols("sym", &handles, Nulls::NONE).unwrap();
                chunk.i64("n", &numbers, Nulls::NONE).unwrap();
                chunk.at_nanos(&at).unwrap();
                producer.publish_chunk(&chunk).unwrap();
            }
        }
    }
    let receipt = producer.publish().unwrap();
    producer.flush_at(100).unwrap();
    assert!(!receipt.reached(Stage::Acked).unwrap(), "no server");
    assert_eq!(producer.progress().accepted, Some(100));
    assert_eq!(producer.progress().acked, None);
    until("each key has its shard", || {
        let shards = engine.status().shards;
        shards.iter().all(|shard| shard.symbols == 1)
    });
    let sink = serve(dir.path(), address);
    receipt.wait(Stage::Acked, PATIENCE).unwrap();
    engine.wait_acked(PATIENCE).unwrap();
    assert_eq!(producer.progress().acked, Some(100));
    engine.close().expect("drained");
    sink.stop();
    let rows = stored_rows(dir.path(), "trades");
    for (rest, key) in [(0, "t0"), (1, "t1")] {
        let of = rows.iter().filter(|row| row["sym"] == key);
        let numbers: Vec<u64> = of.map(|row| row["n"].as_u64().unwrap()).collect();
        assert_eq!(
            numbers,
            (0..100).filter(|n| n % 2 == rest).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_receipt_of_one_shard_does_not_wait_for_the_other() {
    let engine = connect(free_address(), "shards=2;close_flush_timeout_millis=0;");
    let mut producer = engine.producer().unwrap();
    row(&mut producer, "t0", 1, "");
    let first = producer.publish().unwrap();
    row(&mut producer, "t1", 1, "");
    let second = producer.publish().unwrap();
    for receipt in [&first, &second, &producer.publish().unwrap()] {
        let error = receipt.wait(Stage::Acked, std::time::Duration::from_millis(5));
        assert!(matches!(error, Err(Error::Timeout { .. })), "{error:?}");
    }
    engine.close().expect_err("nobody listens");
    let ended = second.wait(Stage::Acked, PATIENCE);
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
}
