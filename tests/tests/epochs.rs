//! Dictionary epochs against the embedded server, which decodes strictly and knows on a connection
//! only the symbols that were sent on it: rows with ever new symbols, more of them than the slot may
//! have, arrive once each, in order, with the right symbol.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay::{Engine, Error, Producer, Stage, TimestampNanos};
use forebay_loadgen::sink::{Depth, RecordLimits, Sink, SinkConfig};

mod loadgen;

const PATIENCE: Duration = Duration::from_mins(3);

fn sink(store: &Path) -> Sink {
    Sink::start(SinkConfig {
        depth: Depth::Decode,
        strict: true,
        store: Some(store.to_path_buf()),
        record: Some(RecordLimits::default()),
        ..SinkConfig::default()
    })
    .expect("listens")
}

fn connect(sink: &Sink, more: &str) -> Engine {
    // A pause for every reconnect that counts as a failure would be felt.
    let text = format!(
        "ws::addr={};initial_connect_retry=async;close_flush_timeout_millis=30000;pin=off;\
         reconnect_initial_backoff_millis=5000;reconnect_max_backoff_millis=5000;{more}",
        sink.addr()
    );
    Engine::connect(&text).expect("async")
}

/// The symbols of row `n`: one of its own, and one of seven that all share.
fn symbols(n: u64) -> [String; 2] {
    [format!("own-{n}"), format!("shared-{}", n % 7)]
}

/// Buffers row `n` of `table`; on a full dictionary the row is left out.
fn row(producer: &mut Producer, table: &str, n: u64) -> Result<(), Error> {
    let [own, shared] = symbols(n);
    producer.table(table)?.symbol("own", &own)?;
    producer.symbol("shared", &shared)?;
    producer.column_i64("n", i64::try_from(n).unwrap())?;
    producer.at(TimestampNanos(i64::try_from(n).unwrap() + 1))
}

/// Every row of the table is there once, in order, with its symbols.
fn assert_stored(store: &Path, table: &str, rows: u64) {
    let text = std::fs::read_to_string(store.join(format!("{table}.ndjson"))).unwrap();
    let mut next = 0;
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("a whole line");
        assert_eq!(value["n"], next, "{table}");
        let [own, shared] = symbols(next);
        assert_eq!(
            (&value["own"], &value["shared"]),
            (&own.into(), &shared.into())
        );
        next += 1;
    }
    assert_eq!(next, rows, "rows of {table}");
}

/// Each connection got symbols from id 0 on, each id once, and said goodbye in order.
fn assert_no_symbol_twice(sink: &Sink) {
    let records = sink.records();
    assert_eq!(records.dropped, 0);
    for connection in &records.connections {
        assert_eq!(connection.acked, connection.messages.len() as u64);
        let mut known = 0;
        for message in &connection.messages {
            let payload = message.payload.as_ref().expect("kept");
            let message =
                forebay_wire::decode::Message::parse(payload, forebay_wire::decode::Mode::Strict);
            let delta = message.expect("a message").delta().expect("a delta");
            assert_eq!(delta.start(), known, "no catch-up, no gap");
            known += delta.count();
        }
    }
}

/// Bursts of rows with symbols of their own, and a moment of rest after each.
fn churn(more: &str, bursts: u64) {
    const BURST: u64 = 40;
    let dir = loadgen::scratch();
    let store = dir.path().join("store");
    let sink = sink(&store);
    let journal = more.replace("DIR", &dir.path().join("sf").display().to_string());
    let engine = connect(&sink, &format!("symbol_dict_reset_threshold=100;{journal}"));
    let mut producers = ["a", "b"].map(|table| (table, engine.producer().expect("open")));
    let start = Instant::now();
    let mut next = 0;
    for _ in 0..bursts {
        for _ in 0..BURST {
            for (table, producer) in &mut producers {
                row(producer, table, next).expect("room");
                producer.publish().expect("room");
            }
            next += 1;
        }
        engine.wait_acked(PATIENCE).expect("acked");
    }
    let elapsed = start.elapsed();
    let stats = engine.stats();
    // 40 new symbols a burst, and 7 at first: an epoch lasts three.
    assert!(stats.symbol_epochs >= bursts / 3 - 1, "{stats:?}");
    // All may be acked within a burst too, so that an epoch begins there: then the threshold may be
    // missed by one burst.
    assert!(stats.symbols <= 100 + BURST + 7, "{stats:?}");
    assert_eq!((stats.frames_replayed, stats.disk_errors), (0, 0));
    assert_eq!(stats.fsn_next, 2 * next, "the numbers go on");
    assert_eq!(engine.last_failure(), None, "a new epoch is no failure");
    engine.close().expect("drained");
    assert_no_symbol_twice(&sink);
    let connections = sink.records().connections.len() as u64;
    assert!(connections <= 1 + stats.symbol_epochs + 1, "{connections}");
    sink.stop();
    for (table, _) in &producers {
        assert_stored(&store, table, next);
    }
    println!(
        "{} epochs in {elapsed:?}: {:?} a burst",
        stats.symbol_epochs,
        elapsed / u32::try_from(bursts).unwrap()
    );
}

#[test]
fn symbols_churn_over_many_epochs_on_disk() {
    churn(
        "sf_dir=DIR;sf_max_segment_bytes=64k;sf_max_total_bytes=512k;",
        60,
    );
}

#[test]
fn symbols_churn_over_many_epochs_in_every_mode_of_durability() {
    churn(
        "sf_dir=DIR;sf_max_segment_bytes=64k;sf_durability=append;",
        6,
    );
    churn(
        "sf_dir=DIR;sf_durability=periodic;sf_sync_interval_millis=5;",
        12,
    );
}

#[test]
fn symbols_churn_over_many_epochs_in_memory() {
    churn("", 60);
}

/// Nobody waits for anything, so there is no moment at which all is acked by itself: where room for
/// symbols runs out one is brought about, and meanwhile rows are refused or wait.
#[test]
fn without_a_moment_of_rest_an_epoch_begins_where_room_runs_out() {
    const ROWS: u64 = 20_000;
    let dir = loadgen::scratch();
    let store = dir.path().join("store");
    let sink = sink(&store);
    let engine = connect(
        &sink,
        &format!(
            "sf_dir={};symbol_dict_max=1000;symbol_dict_reset_threshold=1000;",
            dir.path().join("sf").display()
        ),
    );
    let mut producer = engine.producer().expect("open");
    let mut refused = 0;
    for n in 0..ROWS {
        while let Err(error) = row(&mut producer, "t", n) {
            assert!(
                matches!(
                    error,
                    Error::SymbolsFull {
                        symbols_max: 1000,
                        ..
                    }
                ),
                "{error}"
            );
            assert!(error.is_retryable());
            refused += 1;
            producer.publish().expect("room");
            std::thread::yield_now();
        }
        if n % 3 == 0 {
            producer.publish().expect("room");
        }
    }
    let receipt = producer.publish().expect("room");
    receipt.wait(Stage::Acked, PATIENCE).expect("acked");
    let stats = engine.stats();
    assert!(stats.symbol_epochs >= ROWS / 1000 - 1, "{stats:?}");
    assert_eq!(stats.frames_replayed, 0);
    engine.close().expect("drained");
    assert_no_symbol_twice(&sink);
    sink.stop();
    assert_stored(&store, "t", ROWS);
    println!(
        "{} epochs, {refused} rows refused at first",
        stats.symbol_epochs
    );
}

/// A producer that was away for epochs goes on with symbols that it sent long ago, in a batch that
/// it began back then.
#[test]
fn a_batch_begun_in_an_earlier_epoch_is_delivered_with_its_symbols() {
    let dir = loadgen::scratch();
    let store = dir.path().join("store");
    let sink = sink(&store);
    let engine = connect(
        &sink,
        &format!(
            "sf_dir={};symbol_dict_reset_threshold=50;",
            dir.path().join("sf").display()
        ),
    );
    let mut patient = engine.producer().expect("open");
    for n in 0..10 {
        row(&mut patient, "patient", n).expect("room");
    }
    patient
        .publish()
        .expect("room")
        .wait(Stage::Acked, PATIENCE)
        .expect("acked");
    for n in 10..20 {
        row(&mut patient, "patient", n).expect("room");
    }
    let mut busy = engine.producer().expect("open");
    let mut counts = HashMap::new();
    for n in 0..500 {
        row(&mut busy, "busy", n).expect("room");
        busy.publish()
            .expect("room")
            .wait(Stage::Acked, PATIENCE)
            .expect("acked");
        *counts.entry(engine.stats().symbol_epochs).or_insert(0) += 1;
    }
    assert!(counts.len() >= 8, "rows by epoch: {counts:?}");
    patient
        .publish()
        .expect("room")
        .wait(Stage::Acked, PATIENCE)
        .expect("acked");
    for n in 20..30 {
        row(&mut patient, "patient", n).expect("room");
    }
    patient
        .publish()
        .expect("room")
        .wait(Stage::Acked, PATIENCE)
        .expect("acked");
    engine.close().expect("drained");
    sink.stop();
    assert_stored(&store, "patient", 30);
    assert_stored(&store, "busy", 500);
}
