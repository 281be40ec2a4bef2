//! Field reports about configuration, each test named after its report.

use std::path::Path;

use forebay::config::Config;
use forebay::{Engine, Error, Producer, TimestampNanos};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_tests::stored_slot::StoredSlot;

mod loadgen;

use loadgen::PATIENCE;

/// The key at fault and the reason.
fn refusal(connect: &str) -> (String, String) {
    match Engine::connect(connect) {
        Err(Error::Config { key, reason }) => (key, reason),
        other => panic!("{connect}: {other:?}"),
    }
}

/// `1G` was read as 1 without complaint.
#[test]
fn size_suffix() {
    for (text, bytes) in [
        ("1G", 1_u64 << 30),
        ("1g", 1 << 30),
        ("400M", 400 << 20),
        ("409600K", 400 << 20),
        ("10T", 10 << 40),
        ("134217728", 128 << 20),
    ] {
        let config = Config::parse(&format!("ws::addr=h;sf_max_total_bytes={text};"));
        assert_eq!(config.expect(text).total_bytes, bytes, "{text}");
    }
    for text in [
        "0",
        "-1",
        "1.5G",
        "1GiB",
        "10 G",
        "18446744073709551616",
        "",
        "G",
        "1KK",
        "1e9",
    ] {
        let (key, reason) = refusal(&format!("ws::addr=h;sf_max_total_bytes={text};"));
        assert_eq!(key, "sf_max_total_bytes", "{text}");
        assert!(reason.contains(&format!("{text:?}")), "{text}: {reason}");
    }
}

/// Misspelt or half-empty settings led to a misleading message, or were accepted.
#[test]
fn key_typos() {
    let dir = loadgen::scratch();
    let sf_dir = dir.path().join("sf");
    let long = format!("sender_id={}", "x".repeat(300));
    for (settings, key) in [
        ("addr=h;sf_max_total_byte=1g", "sf_max_total_byte"),
        ("addr=h;Sender_id=x", "Sender_id"),
        (
            "addr=h;lock_retry_millis=1;lock_retry_millis=1",
            "lock_retry_millis",
        ),
        ("sender_id=x", "addr"),
        ("addr=", "addr"),
        ("addr=h,", "addr"),
        ("addr=h;sender_id=", "sender_id"),
        ("addr=h;sender_id=a/b", "sender_id"),
        ("addr=h;sender_id=..", "sender_id"),
        ("addr=h;sender_id=.", "sender_id"),
        (&format!("addr=h;{long}"), "sender_id"),
        ("addr=h;sf_durability=", "sf_durability"),
        (
            "addr=h;max_frame_rejections=4294967296",
            "max_frame_rejections",
        ),
        (
            "addr=h;error_inbox_capacity=3000000000",
            "error_inbox_capacity",
        ),
        ("addr=h;cores=3000000000", "cores"),
        (
            "addr=h;sf_append_deadline_millis=-1",
            "sf_append_deadline_millis",
        ),
        ("addr=h;row_seq=", "row_seq"),
        ("addr=h;auto_flush_rows=many", "auto_flush_rows"),
        ("addr=h;at_now=yes", "at_now"),
    ] {
        let (named, reason) = refusal(&format!("ws::sf_dir={};{settings};", sf_dir.display()));
        assert_eq!(named, key, "{settings}: {reason}");
        assert!(!reason.is_empty());
    }
    // An empty directory's name, and a key without a value at the very end.
    assert_eq!(refusal("ws::addr=h;sf_dir=;").0, "sf_dir");
    let (_, reason) = refusal("ws::addr=h;sender_id");
    assert!(reason.contains("incomplete key-value pair"), "{reason}");
    assert!(!sf_dir.exists(), "refused before any file is touched");

    // A key at its own default, and the largest number of 32 bits, are good.
    for key in config_defaults() {
        Config::parse(&format!("ws::addr=h;{key};"))
            .unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    Config::parse("ws::addr=h;max_frame_rejections=4294967295;").expect("32 bits");
}

/// Keys whose default is a value that can be written, each at that default.
fn config_defaults() -> Vec<String> {
    let with_value = forebay::config::KEYS
        .iter()
        .filter(|key| !key.default.is_empty());
    with_value
        // These need other settings beside them.
        .filter(|key| key.name != "sf_sync_interval_millis" && !key.name.starts_with("tls_"))
        .map(|key| format!("{}={}", key.name, key.default))
        .collect()
}

/// One frame: row `n` with `bytes` bytes of text.
fn frame(producer: &mut Producer, n: i64, bytes: usize) {
    let text = "x".repeat(bytes);
    let row = producer.table("t").expect("a row");
    row.column_i64("n", n)
        .and_then(|row| row.column_str("v", &text))
        .expect("values");
    producer.at(TimestampNanos(n + 1)).expect("a row");
    producer.publish().expect("room");
}

/// The segment size was changed while data was queued: the start failed.
#[test]
fn resize_with_backlog() {
    let dir = loadgen::scratch();
    let (sf_dir, store) = (dir.path().join("sf"), dir.path().join("store"));
    let mut next = 0;
    // Frames of the first size fit no segment of the third.
    for (size, frames, bytes) in [("4m", 41, 100_000), ("1m", 20, 100_000), ("64k", 9, 20_000)] {
        let engine = Engine::connect(&conf("127.0.0.1:1", &sf_dir, size, "0")).expect(size);
        assert_eq!(
            engine.stats().unacked_frames,
            u64::try_from(next).expect("positive"),
            "{size}"
        );
        let mut producer = engine.producer().expect("a producer");
        for _ in 0..frames {
            frame(&mut producer, next, bytes);
            next += 1;
        }
        producer.flush().expect("written");
        drop(producer);
        let left = engine.close().expect_err("nobody takes them");
        assert!(matches!(left, Error::NotDrained { .. }), "{left}");
    }
    let slot = StoredSlot::read(&sf_dir.join("default")).expect("the slot");
    let sizes: Vec<u64> = slot.segment_bytes;
    for size in [4 << 20, 1 << 20, 64 << 10] {
        assert!(sizes.contains(&size), "{size} is not among {sizes:?}");
    }
    assert!(
        sizes.is_sorted_by(|a, b| a >= b),
        "in the order of the starts: {sizes:?}"
    );

    let sink = Sink::start(SinkConfig {
        depth: Depth::Decode,
        store: Some(store.clone()),
        ..SinkConfig::default()
    });
    let sink = sink.expect("listens");
    let address = sink.addr().to_string();
    let engine = Engine::connect(&conf(&address, &sf_dir, "16m", "30000")).expect("16m");
    let mut producer = engine.producer().expect("a producer");
    frame(&mut producer, next, 100_000);
    producer.flush().expect("written");
    engine.wait_acked(PATIENCE).expect("all delivered");
    drop(producer);
    engine.close().expect("drained");
    assert_eq!(numbers(&store), (0..=next).collect::<Vec<i64>>());
}

fn conf(address: &str, sf_dir: &Path, segment: &str, close_millis: &str) -> String {
    format!(
        "ws::addr={address};sf_dir={};sf_max_segment_bytes={segment};pin=off;\
         initial_connect_retry=async;close_flush_timeout_millis={close_millis};",
        sf_dir.display()
    )
}

/// The numbers of the rows in the order in which the server stored them.
fn numbers(store: &Path) -> Vec<i64> {
    let text = std::fs::read_to_string(store.join("t.ndjson")).expect("rows");
    let rows = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    rows.map(|row: serde_json::Value| row["n"].as_i64().expect("a number"))
        .collect()
}
