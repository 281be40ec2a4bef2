//! The engine against the embedded server, in one process: outages, dropped connections, full
//! journals, receipts, restarts.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use forebay::{Engine, Error, Pressure, Producer, Receipt, Stage, TimestampNanos};
use forebay_loadgen::sink::{Sink, SinkConfig};
use forebay_tests::address::free_address;
use forebay_wire::upgrade::{FixedReply, UpgradePolicy};

mod loadgen;

const PATIENCE: Duration = Duration::from_mins(3);

/// A sink that decodes strictly and stores below `dir`.
fn sink(dir: &Path, listen: Option<SocketAddr>) -> SinkConfig {
    SinkConfig {
        listen: listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0))),
        depth: forebay_loadgen::sink::Depth::Decode,
        strict: true,
        store: Some(dir.to_path_buf()),
        ..SinkConfig::default()
    }
}

fn connect(address: SocketAddr, more: &str) -> String {
    format!(
        "ws::addr={address};initial_connect_retry=async;close_flush_timeout_millis=30000;\
         reconnect_initial_backoff_millis=5;reconnect_max_backoff_millis=50;pin=off;{more}"
    )
}

/// One row: number `n`, a symbol out of seven, and text to give it weight.
fn row(producer: &mut Producer, n: u64, text: &str) {
    let symbol = format!("S{}", n % 7);
    producer.table("t").unwrap().symbol("sym", &symbol).unwrap();
    producer.column_i64("n", i64::try_from(n).unwrap()).unwrap();
    producer.column_str("v", text).unwrap();
    producer
        .at(TimestampNanos(i64::try_from(n).unwrap() + 1))
        .unwrap();
}

/// The numbers in the order in which the sink stored them, checking each row's symbol.
fn stored(dir: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(dir.join("t.ndjson")).unwrap_or_default();
    let numbers = text.lines().map(|line| {
        let value: serde_json::Value = serde_json::from_str(line).expect("a whole line");
        let n = value["n"].as_u64().expect("a number");
        assert_eq!(value["sym"], format!("S{}", n % 7), "row {n}");
        n
    });
    numbers.collect()
}

/// First deliveries are in order and complete; returns how many rows came more than once.
fn check_all(dir: &Path, count: u64) -> usize {
    let all = stored(dir);
    let mut seen = HashSet::new();
    let first: Vec<u64> = all.iter().copied().filter(|n| seen.insert(*n)).collect();
    assert_eq!(first, (0..count).collect::<Vec<_>>());
    all.len() - first.len()
}

#[test]
fn rows_of_an_outage_are_read_back_from_disk_and_delivered_in_order_once() {
    let dir = loadgen::scratch();
    let (store, address) = (dir.path().join("store"), free_address());
    // Far more than the memory budget: most of it must come back from the disk.
    let more = format!(
        "sf_dir={};sf_max_segment_bytes=256k;memory_budget_bytes=1m;",
        dir.path().join("sf").display()
    );
    let engine = Engine::connect(&connect(address, &more)).expect("async connects without server");
    let mut producer = engine.producer().expect("open");
    let text = "x".repeat(500);
    for batch in 0..400u64 {
        for n in batch * 20..(batch + 1) * 20 {
            row(&mut producer, n, &text);
        }
        producer.publish().expect("room");
    }
    producer.flush().expect("written");
    assert_eq!(engine.stats().frames_acked, 0);
    let sink = Sink::start(sink(&store, Some(address))).expect("listens");
    engine.wait_acked(PATIENCE).expect("delivered");
    assert_eq!(engine.stats().frames_replayed, 0, "sent once only");
    engine.close().expect("drained");
    assert_eq!(check_all(&store, 8000), 0);
    assert_eq!(sink.stop().connections, 1);
    let left: Vec<_> = std::fs::read_dir(dir.path().join("sf/default"))
        .expect("the slot stays")
        .map(|entry| entry.expect("listed").file_name())
        .collect();
    assert_eq!(left.len(), 2, ".lock and .lock.pid only: {left:?}");
}

#[test]
fn a_server_that_drops_connections_gets_everything_in_order() {
    let dir = loadgen::scratch();
    let store = dir.path().join("store");
    let config = SinkConfig {
        drop_after: Some(7),
        ..sink(&store, None)
    };
    let sink = Sink::start(config).expect("listens");
    let more = format!("sf_dir={};", dir.path().join("sf").display());
    let engine = Engine::connect(&connect(sink.addr(), &more)).expect("connects");
    let mut producer = engine.producer().expect("open");
    for n in 0..200 {
        row(&mut producer, n, "");
        producer.flush().expect("written");
    }
    engine.wait_acked(PATIENCE).expect("delivered");
    assert!(
        engine.stats().reconnects_succeeded >= 25,
        "{:?}",
        engine.stats()
    );
    engine.close().expect("drained");
    check_all(&store, 200);
}

#[test]
fn a_full_journal_refuses_with_the_outage_and_goes_on_when_the_server_returns() {
    let dir = loadgen::scratch();
    let (store, address) = (dir.path().join("store"), free_address());
    let more = format!(
        "sf_dir={};sf_max_segment_bytes=64k;sf_max_total_bytes=256k;intake_ring_bytes=64k;\
         sf_append_deadline_millis=100;",
        dir.path().join("sf").display()
    );
    let engine = Engine::connect(&connect(address, &more)).expect("connects later");
    let mut producer = engine.producer().expect("open");
    let (text, mut n) = ("x".repeat(1000), 0);
    let deadline = std::time::Instant::now() + PATIENCE;
    row(&mut producer, n, &text);
    let error = loop {
        let was_full = engine.status().shards[0].is_full;
        match producer.publish() {
            Ok(_) => {
                n += 1;
                row(&mut producer, n, &text);
            }
            Err(error) if was_full => break error,
            // A slow disk: it is at a rotation.
            Err(Error::Backpressure { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(n < 10_000, "the cap holds");
        assert!(std::time::Instant::now() < deadline, "{n} rows");
    };
    assert!(
        matches!(error, Error::Backpressure { pressure: Pressure::Reconnecting { attempts, .. }, waited_millis, .. }
            if attempts > 0 && waited_millis >= 100),
        "{error}"
    );
    let refusal = producer.try_publish().expect_err("still full");
    assert!(
        matches!(
            refusal,
            Error::Backpressure {
                waited_millis: 0,
                ..
            }
        ),
        "{refusal}"
    );
    assert_eq!(producer.rows(), 1, "the refused row stays");
    assert!(engine.stats().backpressure_stalls >= 2);
    assert!(
        engine.stats().disk_bytes <= 256 << 10,
        "{}",
        engine.stats().disk_bytes
    );
    let _sink = Sink::start(sink(&store, Some(address))).expect("listens");
    let room = || producer.publish();
    retry(room).expect("room after acknowledgements");
    engine.wait_acked(PATIENCE).expect("delivered");
    engine.close().expect("drained");
    check_all(&store, n + 1);
}

/// Calls until it is not back-pressure.
fn retry(mut call: impl FnMut() -> Result<Receipt, Error>) -> Result<Receipt, Error> {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        match call() {
            Err(Error::Backpressure { .. }) if std::time::Instant::now() < deadline => {}
            other => return other,
        }
    }
}

#[test]
fn memory_mode_delivers_across_reconnects_and_bounds_its_memory() {
    let dir = loadgen::scratch();
    let store = dir.path().join("store");
    let config = SinkConfig {
        drop_after: Some(20),
        ..sink(&store, None)
    };
    let sink = Sink::start(config).expect("listens");
    let more = "sf_max_segment_bytes=64k;sf_max_total_bytes=256k;";
    let engine = Engine::connect(&connect(sink.addr(), more)).expect("connects");
    let mut producer = engine.producer().expect("open");
    let text = "x".repeat(1000);
    for n in 0..1000 {
        row(&mut producer, n, &text);
        producer.flush().expect("room within the deadline");
        assert!(engine.stats().disk_bytes <= 256 << 10);
    }
    engine.wait_acked(PATIENCE).expect("delivered");
    engine.close().expect("drained");
    check_all(&store, 1000);
}

/// Unparks the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park_timeout(PATIENCE),
        }
    }
}

#[test]
fn a_receipt_waits_for_each_stage_and_is_a_future() {
    let dir = loadgen::scratch();
    let sink = Sink::start(sink(&dir.path().join("store"), None)).expect("listens");
    let more = format!("sf_dir={};intake=memory;", dir.path().join("sf").display());
    let engine = Engine::connect(&connect(sink.addr(), &more)).expect("connects");
    let mut producer = engine.producer().expect("open");
    for n in 0..20 {
        row(&mut producer, n, "");
        let receipt = producer.publish().expect("room");
        assert!(receipt.reached(Stage::Accepted).expect("always"));
        block_on(receipt.clone()).expect("written");
        assert!(receipt.reached(Stage::Written).expect("has a journal"));
        receipt.wait(Stage::Acked, PATIENCE).expect("acked");
        receipt
            .wait(Stage::Stable, PATIENCE)
            .expect("a waiter makes the journal sync");
    }
    assert_eq!(engine.stats().frames_stable, 20);
    let receipt = producer.publish().expect("nothing to do");
    assert!(
        receipt
            .reached(Stage::Acked)
            .expect("an empty publish stands for all before it")
    );
    engine.close().expect("drained");
}

#[test]
fn flush_mode_returns_at_stable() {
    let dir = loadgen::scratch();
    let sink = Sink::start(sink(&dir.path().join("store"), None)).expect("listens");
    let more = format!(
        "sf_dir={};sf_durability=flush;",
        dir.path().join("sf").display()
    );
    let engine = Engine::connect(&connect(sink.addr(), &more)).expect("connects");
    let mut producer = engine.producer().expect("open");
    for n in 0..50 {
        row(&mut producer, n, "");
        producer.flush().expect("stable");
        assert!(engine.stats().frames_stable > n);
    }
    engine.close().expect("drained");
}

#[test]
fn what_close_leaves_is_delivered_by_the_next_start() {
    let dir = loadgen::scratch();
    let (store, address) = (dir.path().join("store"), free_address());
    let more = format!(
        "sf_dir={};sf_max_segment_bytes=64k;sender_id=left;",
        dir.path().join("sf").display()
    );
    let offline = connect(address, &more).replace(
        "close_flush_timeout_millis=30000",
        "close_flush_timeout_millis=20",
    );
    for round in 0..3u64 {
        let engine = Engine::connect(&offline).expect("connects later");
        assert_eq!(engine.stats().frames_recovered, round * 100);
        let mut producer = engine.producer().expect("open");
        for n in round * 100..(round + 1) * 100 {
            row(&mut producer, n, "some text");
            producer.publish().expect("room");
        }
        let error = engine.close().expect_err("nobody listens");
        let frames = (round + 1) * 100;
        assert!(
            matches!(error, Error::NotDrained { frames: f, .. } if f == frames),
            "{error}"
        );
        let refused = producer.publish().expect_err("closed");
        assert!(matches!(refused, Error::Closed), "{refused}");
    }
    let _sink = Sink::start(sink(&store, Some(address))).expect("listens");
    let engine = Engine::connect(&connect(address, &more)).expect("connects");
    engine.wait_acked(PATIENCE).expect("delivered");
    engine.close().expect("drained");
    assert_eq!(check_all(&store, 300), 0);
}

/// The error of the first call that learns of the latched one.
fn refused_publish(engine: &Engine) -> Error {
    let mut producer = match engine.producer() {
        Ok(producer) => producer,
        Err(error) => return error,
    };
    row(&mut producer, 0, "");
    match producer.publish() {
        Ok(receipt) => receipt
            .wait(Stage::Acked, PATIENCE)
            .expect_err("never acked"),
        Err(error) => error,
    }
}

#[test]
fn refused_credentials_are_terminal_and_every_caller_is_told() {
    let dir = loadgen::scratch();
    let refuse = FixedReply {
        status: 401,
        headers: Vec::new(),
    };
    let upgrade = UpgradePolicy {
        fixed: Some(refuse),
        ..UpgradePolicy::default()
    };
    let config = SinkConfig {
        upgrade,
        ..sink(&dir.path().join("store"), None)
    };
    let sink = Sink::start(config).expect("listens");
    let more = format!(
        "sf_dir={};username=u;password=secret-pw;",
        dir.path().join("sf").display()
    );
    let engine = Engine::connect(&connect(sink.addr(), &more)).expect("async");
    let error = refused_publish(&engine);
    assert!(
        matches!(
            &error,
            Error::Peer {
                retryable: false,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("401") && !error.to_string().contains("secret-pw"));
    // It was delivered: close tells what is left, if anything is.
    match engine.close() {
        Ok(()) | Err(Error::NotDrained { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let engine = Engine::connect(&connect(sink.addr(), &more)).expect("async");
    let latched = || engine.stats().connected == 0 && engine.last_failure().is_some();
    let start = std::time::Instant::now();
    while !latched() && start.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    let error = engine
        .close()
        .expect_err("latched, and no call has told it");
    assert!(matches!(error, Error::Peer { .. }), "{error}");
    let direct = connect(sink.addr(), "").replace("initial_connect_retry=async;", "");
    let error = Engine::connect(&direct).expect_err("refused at once");
    assert!(
        matches!(
            error,
            Error::Peer {
                retryable: false,
                ..
            }
        ),
        "{error}"
    );
}
