//! What the tests of the producer share: a server in this process, and the numbers it stored.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test file compiles this module and uses its part of it"
)]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay::{Engine, Producer, TimestampNanos};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
pub(crate) use forebay_tests::address::free_address;

/// Limit of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// A new directory on the disk of the build, removed on drop.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A server at `address` that decodes strictly and stores below `dir`.
pub(crate) fn serve(dir: &Path, address: SocketAddr) -> Sink {
    let config = SinkConfig {
        listen: address,
        depth: Depth::Decode,
        strict: true,
        store: Some(dir.to_path_buf()),
        ..SinkConfig::default()
    };
    Sink::start(config).unwrap()
}

/// An engine for a server at `address`, which need not be there yet.
pub(crate) fn connect(address: SocketAddr, more: &str) -> Engine {
    let close = if more.contains("close_flush_timeout_millis") {
        ""
    } else {
        "close_flush_timeout_millis=30000;"
    };
    Engine::connect(&format!(
        "ws::addr={address};initial_connect_retry=async;{close}\
         reconnect_initial_backoff_millis=5;reconnect_max_backoff_millis=50;pin=off;{more}"
    ))
    .unwrap()
}

/// One row of `table`: a symbol out of seven, number `n`, and text to give it weight.
pub(crate) fn row(producer: &mut Producer, table: &str, n: u64, text: &str) {
    let symbol = format!("S{}", n % 7);
    producer
        .table(table)
        .unwrap()
        .symbol("sym", &symbol)
        .unwrap();
    producer.column_i64("n", i64::try_from(n).unwrap()).unwrap();
    producer.column_str("v", text).unwrap();
    producer
        .at(TimestampNanos(i64::try_from(n).unwrap() + 1))
        .unwrap();
}

/// The rows of `table` in the order in which the server stored them.
pub(crate) fn stored_rows(dir: &Path, table: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(dir.join(format!("{table}.ndjson"))).unwrap_or_default();
    // The last line may be half-written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Their numbers, each checked against its symbol.
pub(crate) fn stored(dir: &Path, table: &str) -> Vec<u64> {
    let numbers = stored_rows(dir, table).into_iter().map(|row| {
        let n = row["n"].as_u64().unwrap();
        assert_eq!(row["sym"], format!("S{}", n % 7), "row {n}");
        n
    });
    numbers.collect()
}

/// Waits until `done` holds.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Entries that the engine has accepted.
pub(crate) fn accepted(engine: &Engine) -> u64 {
    engine.status().publishes.accepted
}
