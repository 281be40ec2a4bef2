//! A producer that publishes by itself: by rows, by bytes, by age, and by `tick`.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::time::{Duration, Instant};

use forebay::{Engine, Error, Producer, TimestampNanos};

mod producing;
use producing::{PATIENCE, accepted, connect, free_address, row, scratch, serve, stored};

/// An engine without a server, and a producer of it.
fn producer(keys: &str) -> (Engine, Producer) {
    let engine = connect(
        free_address(),
        &format!("close_flush_timeout_millis=0;{keys}"),
    );
    let producer = engine.producer().unwrap();
    (engine, producer)
}

#[test]
fn without_a_key_nothing_is_published_by_itself() {
    let (engine, mut producer) = producer("");
    for n in 0..5000 {
        row(&mut producer, "t", n, "some text to give it weight");
    }
    producer.tick().unwrap();
    assert_eq!((accepted(&engine), producer.rows()), (0, 5000));
}

#[test]
fn so_many_rows_are_a_batch() {
    let (engine, mut producer) = producer("auto_flush_rows=100;auto_flush_interval=off;");
    for n in 0..1050 {
        let table = if n % 3 == 0 { "t" } else { "u" };
        row(&mut producer, table, n, "");
        assert_eq!(
            (accepted(&engine), producer.rows() as u64),
            ((n + 1) / 100, (n + 1) % 100)
        );
    }
}

#[test]
fn switched_on_without_more_it_has_the_documented_thresholds() {
    let (engine, mut producer) = producer("auto_flush=on;auto_flush_interval=3600000;");
    for n in 0..2500 {
        row(&mut producer, "t", n, "");
    }
    assert_eq!(
        (accepted(&engine), producer.rows()),
        (2, 500),
        "at 1,000 rows"
    );
    let (engine, mut producer) = self::producer("auto_flush=off;auto_flush_rows=10;");
    for n in 0..100 {
        row(&mut producer, "t", n, "");
    }
    assert_eq!((accepted(&engine), producer.rows()), (0, 100), "off is off");
}

#[test]
fn so_many_bytes_are_a_batch_whatever_the_rows_weigh() {
    let keys = "auto_flush_bytes=20000;auto_flush_rows=off;auto_flush_interval=off;";
    let (engine, mut producer) = producer(keys);
    let (mut n, mut heaviest) = (0, 0);
    while accepted(&engine) < 50 {
        let before = (accepted(&engine), producer.buffered_bytes());
        // From one byte to 2,000, light and heavy ones in turns.
        let weight = if n % 200 < 100 { 1 } else { 2000 };
        row(&mut producer, "t", n, &"x".repeat(weight));
        n += 1;
        if accepted(&engine) == before.0 {
            assert!(producer.buffered_bytes() < 20_000);
        } else {
            assert_eq!(producer.rows(), 0);
            heaviest = heaviest.max(before.1);
        }
    }
    assert!(
        (17_000..20_000).contains(&heaviest),
        "{heaviest} before the last row"
    );
}

#[test]
fn old_rows_go_with_the_next_row_or_with_a_tick() {
    // Rows that got old because the machine stood still show nothing.
    let shown = (0..5).any(|_| old_rows_go());
    assert!(shown, "rows were old at once, five times");
}

/// Whether the rows that were to be young were so.
fn old_rows_go() -> bool {
    const OLD: Duration = Duration::from_millis(300);
    let (engine, mut producer) = producer("auto_flush_interval=200;auto_flush_rows=off;");
    let is_young = |since: Instant| since.elapsed() < Duration::from_millis(150);
    let since = Instant::now();
    row(&mut producer, "t", 0, "");
    producer.tick().unwrap();
    row(&mut producer, "t", 1, "");
    if !is_young(since) {
        return false;
    }
    assert_eq!(accepted(&engine), 0, "young rows stay");
    std::thread::sleep(OLD);
    row(&mut producer, "t", 2, "");
    assert_eq!((accepted(&engine), producer.rows()), (1, 0));
    let since = Instant::now();
    row(&mut producer, "t", 3, "");
    if !is_young(since) {
        return false;
    }
    std::thread::sleep(OLD);
    producer.table("t").unwrap().column_i64("n", 4).unwrap();
    producer.tick().unwrap();
    assert_eq!(accepted(&engine), 1, "not in the middle of a row");
    producer.at(TimestampNanos(5)).unwrap();
    assert_eq!((accepted(&engine), producer.rows()), (2, 0));
    let since = Instant::now();
    row(&mut producer, "t", 5, "");
    if !is_young(since) {
        return false;
    }
    std::thread::sleep(OLD);
    producer.tick().unwrap();
    assert_eq!((accepted(&engine), producer.rows()), (3, 0));
    producer.tick().unwrap();
    assert_eq!(accepted(&engine), 3, "nothing to do");
    true
}

#[test]
fn a_refused_batch_stays_whole_and_is_tried_again_with_the_next_row() {
    let (dir, address) = (scratch(), free_address());
    let engine = connect(
        address,
        "auto_flush_rows=10;auto_flush_interval=off;sf_append_deadline_millis=0;\
         sf_max_segment_bytes=64k;sf_max_total_bytes=128k;intake_ring_bytes=64k;",
    );
    let mut producer = engine.producer().unwrap();
    let text = "x".repeat(1000);
    let complete = |producer: &mut Producer, n: u64| {
        let symbol = format!("S{}", n % 7);
        producer.table("t").unwrap().symbol("sym", &symbol).unwrap();
        producer.column_i64("n", n.cast_signed()).unwrap();
        producer.column_str("v", &text).unwrap();
        producer.at(TimestampNanos(n.cast_signed() + 1))
    };
    let mut n = 0;
    let refused = loop {
        let outcome = complete(&mut producer, n);
        n += 1;
        if outcome.is_err() {
            break outcome;
        }
    };
    assert!(
        matches!(refused, Err(Error::Backpressure { .. })),
        "{refused:?}"
    );
    assert_eq!(
        producer.rows(),
        10,
        "the row that met the refusal is among them"
    );
    let tick = producer.tick();
    assert!(tick.is_ok(), "no interval, no attempt: {tick:?}");
    let sink = serve(dir.path(), address);
    engine.wait_acked(PATIENCE).expect("room comes");
    complete(&mut producer, n).expect("published with the rows before it");
    assert_eq!(producer.rows(), 0);
    engine.close().expect("drained");
    sink.stop();
    assert_eq!(stored(dir.path(), "t"), (0..=n).collect::<Vec<_>>());
}
