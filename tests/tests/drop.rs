//! Who goes first: a producer with rows in its buffer, or the engine.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forebay::{Category, Engine, Error, Policy, Stage, TimestampNanos};

mod producing;
use producing::{PATIENCE, connect, free_address, row, scratch, serve, stored, until};

#[test]
fn a_dropped_producer_publishes_its_rows_and_leaves_out_the_unfinished_one() {
    let dir = scratch();
    let address = free_address();
    let sink = serve(dir.path(), address);
    let engine = connect(address, "");
    let mut producer = engine.producer().unwrap();
    for n in 0..10 {
        row(&mut producer, "t", n, "");
    }
    producer.table("t").unwrap().column_i64("n", 10).unwrap();
    drop(producer);
    assert_eq!(engine.stats().rows_dropped_unflushed, 0);
    engine.close().expect("drained");
    sink.stop();
    assert_eq!(stored(dir.path(), "t"), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_producer_dropped_at_the_cap_does_not_wait_and_tells_what_is_lost() {
    let (sender, errors) = channel();
    let engine = Engine::builder(&format!(
        "ws::addr={};initial_connect_retry=async;pin=off;close_flush_timeout_millis=0;\
         sf_max_segment_bytes=64k;sf_max_total_bytes=128k;intake_ring_bytes=64k;\
         sf_append_deadline_millis=3600000;",
        free_address()
    ))
    .on_error(move |error| {
        // The test may be over.
        let _ = sender.send(error.clone());
    })
    .connect()
    .unwrap();
    let mut producer = engine.producer().unwrap();
    let text = "x".repeat(1000);
    until("full", || {
        // Before the ring was: nothing is taken out of it any more.
        let was_full = engine.status().shards[0].is_full;
        while producer.try_flush().is_ok() {
            row(&mut producer, "t", 0, &text);
        }
        was_full
    });
    for _ in producer.rows()..30 {
        row(&mut producer, "t", 0, &text);
    }
    let start = Instant::now();
    drop(producer);
    assert!(start.elapsed() < Duration::from_secs(5), "no wait for room");
    assert_eq!(engine.stats().rows_dropped_unflushed, 30);
    let told = errors.recv_timeout(PATIENCE).expect("an event");
    assert_eq!(
        (told.category, told.policy),
        (Category::Unflushed, Policy::Abandoned)
    );
    assert!(told.message.contains("30 rows"), "{}", told.message);
}

#[test]
fn a_producer_outlives_its_engine_and_is_told_closed() {
    let dir = scratch();
    let address = free_address();
    let sink = serve(dir.path(), address);
    let engine = connect(address, "");
    let mut producer = engine.producer().unwrap();
    row(&mut producer, "t", 0, "");
    let receipt = producer.publish().expect("open");
    row(&mut producer, "t", 1, "");
    engine.close().expect("drained");
    receipt.wait(Stage::Acked, PATIENCE).expect("acked before");
    for _ in 0..2 {
        assert!(matches!(producer.flush(), Err(Error::Closed)));
        assert!(matches!(producer.try_publish(), Err(Error::Closed)));
        assert!(matches!(producer.flush_at(1), Err(Error::Closed)));
    }
    assert_eq!(producer.rows(), 1, "the rows stay");
    row(&mut producer, "t", 2, "");
    let receipt = receipt.clone();
    drop(producer);
    assert_eq!(receipt.reached(Stage::Acked).ok(), Some(true));
    sink.stop();
    assert_eq!(stored(dir.path(), "t"), [0]);
}

#[test]
fn a_producer_moves_to_another_thread_and_ends_there() {
    let dir = scratch();
    let address = free_address();
    let sink = serve(dir.path(), address);
    let engine = connect(address, "");
    let mut producer = engine.producer().unwrap();
    row(&mut producer, "t", 0, "");
    let thread = std::thread::spawn(move || {
        row(&mut producer, "t", 1, "");
        producer.flush().expect("open");
    });
    thread.join().unwrap();
    engine.close().expect("drained");
    sink.stop();
    assert_eq!(stored(dir.path(), "t"), [0, 1]);
}

/// A server that holds its acknowledgements back.
fn slow_server(dir: &std::path::Path, ack_delay: Duration) -> forebay_loadgen::sink::Sink {
    let config = forebay_loadgen::sink::SinkConfig {
        store: Some(dir.to_path_buf()),
        ack_delay,
        ..forebay_loadgen::sink::SinkConfig::default()
    };
    forebay_loadgen::sink::Sink::start(config).unwrap()
}

#[test]
fn a_dropped_engine_waits_for_acknowledgements_as_close_does() {
    let dir = scratch();
    let sink = slow_server(dir.path(), Duration::from_millis(500));
    let engine = connect(sink.addr(), "");
    let mut producer = engine.producer().unwrap();
    row(&mut producer, "t", 0, "");
    let start = Instant::now();
    let receipt = producer.publish().expect("open");
    drop(engine);
    assert!(
        start.elapsed() >= Duration::from_millis(300),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(receipt.reached(Stage::Acked).ok(), Some(true));
}

#[test]
fn an_engine_dropped_by_a_panic_does_not_wait() {
    let dir = scratch();
    let sink = slow_server(dir.path(), Duration::from_secs(5));
    let engine = connect(sink.addr(), "");
    until("connected", || engine.stats().connected == 1);
    let mut producer = engine.producer().unwrap();
    producer.table("t").unwrap().column_i64("n", 0).unwrap();
    producer.at(TimestampNanos(1)).unwrap();
    let receipt = producer.publish().expect("open");
    let start = Instant::now();
    let panicked = std::thread::spawn(move || {
        let _engine = engine;
        panic!("a panic on purpose");
    });
    assert!(panicked.join().is_err());
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(receipt.reached(Stage::Acked).ok(), Some(false));
    assert!(matches!(producer.flush(), Err(Error::Closed)));
}
