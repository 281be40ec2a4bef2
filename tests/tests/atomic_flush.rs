//! A batch whose parts go to several frames is accepted as a whole or not at all.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use forebay::{Engine, Error, Producer, Stage};

mod producing;
use producing::{PATIENCE, accepted, connect, free_address, row, scratch, serve, stored, until};

/// 64 KiB of ring, frames of at most 4 KiB, and a journal that is soon full.
const SMALL: &str = "sf_max_segment_bytes=64k;sf_max_total_bytes=128k;intake_ring_bytes=64k;\
                     max_buf_size=4096;init_buf_size=4096;";

/// Publishes single rows until the shard takes no more; returns the next number.
fn fill_up(engine: &Engine, producer: &mut Producer, text: &str) -> u64 {
    let mut n = 0;
    while !engine.status().shards[0].is_full {
        row(producer, "t", n, text);
        producer
            .try_flush()
            .expect("the shard takes or the ring holds");
        n += 1;
        let so_far = n;
        until("taken, or the cap is reached", || {
            engine.stats().rows_published == so_far || engine.status().shards[0].is_full
        });
    }
    n
}

#[test]
fn a_full_ring_accepts_no_part_and_the_same_handle_delivers_every_row_once() {
    let (dir, address) = (scratch(), free_address());
    let engine = connect(address, SMALL);
    let mut producer = engine.producer().expect("open");
    let text = "x".repeat(1000);
    let mut n = fill_up(&engine, &mut producer, &text);
    // Two thirds of the ring in about fifteen frames: there is room for one such batch only.
    let mut batch = |producer: &mut Producer| {
        for _ in 0..40 {
            row(
                producer,
                if n.is_multiple_of(2) { "t" } else { "u" },
                n,
                &text,
            );
            n += 1;
        }
    };
    batch(&mut producer);
    producer.try_flush().expect("room");
    let before = accepted(&engine);
    batch(&mut producer);
    for _ in 0..3 {
        let error = producer.try_flush().expect_err("no room for all");
        assert!(
            matches!(
                &error,
                Error::Backpressure {
                    rows_accepted: 0,
                    waited_millis: 0,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(accepted(&engine), before, "not one part");
        assert_eq!(producer.rows(), 40);
    }
    let sink = serve(dir.path(), address);
    producer.flush().expect("room when the server acknowledges");
    assert!(accepted(&engine) >= before + 10, "in many frames");
    assert_eq!(producer.rows(), 0);
    engine.wait_acked(PATIENCE).expect("delivered");
    engine.close().expect("drained");
    sink.stop();
    let (t, u) = (stored(dir.path(), "t"), stored(dir.path(), "u"));
    assert!(t.is_sorted() && u.is_sorted());
    let mut all = [t, u].concat();
    all.sort_unstable();
    assert_eq!(all, (0..n).collect::<Vec<_>>());
}

#[test]
fn a_batch_above_the_ring_says_what_was_accepted_and_the_rest_follows() {
    let (dir, address) = (scratch(), free_address());
    let engine = connect(address, SMALL);
    let mut producer = engine.producer().expect("open");
    let text = "x".repeat(1000);
    let first = fill_up(&engine, &mut producer, &text);
    for n in first..first + 200 {
        row(&mut producer, "t", n, &text);
    }
    let error = producer.try_flush().expect_err("three rings full");
    let Error::Backpressure { rows_accepted, .. } = error else {
        panic!("{error}")
    };
    assert!(
        rows_accepted > 0,
        "a batch that no ring holds goes part by part"
    );
    assert_eq!(producer.rows() as u64, 200 - rows_accepted);
    let sink = serve(dir.path(), address);
    producer.flush().expect("room when the server acknowledges");
    engine.wait_acked(PATIENCE).expect("delivered");
    engine.close().expect("drained");
    sink.stop();
    assert_eq!(
        stored(dir.path(), "t"),
        (0..first + 200).collect::<Vec<_>>()
    );
}

/// Tries until everything is accepted; a refusal says what of it was.
fn flush_in_the_end(engine: &Engine, producer: &mut Producer, mut refused: impl FnMut()) {
    let (mut before, mut buffered) = (accepted(engine), producer.rows());
    until("accepted in the end", || match producer.try_flush() {
        Ok(()) => true,
        Err(Error::Backpressure { rows_accepted, .. }) => {
            refused();
            let now = accepted(engine);
            assert_eq!(rows_accepted == 0, now == before, "{rows_accepted} rows");
            assert_eq!(producer.rows() as u64 + rows_accepted, buffered as u64);
            (before, buffered) = (now, producer.rows());
            false
        }
        Err(error) => panic!("{error}"),
    });
}

/// Batches of every size, retried whenever they are refused, while the server comes and goes.
#[test]
fn batches_of_any_size_arrive_in_order_each_row_once() {
    let (dir, address) = (scratch(), free_address());
    let engine = connect(address, SMALL);
    let sink = serve(dir.path(), address);
    let mut producer = engine.producer().expect("open");
    let (mut n, mut refused) = (0, 0);
    for round in 0..200u64 {
        let rows = 1 + round * round % 257;
        for _ in 0..rows {
            let bytes = usize::try_from(n * 37 % 900).unwrap();
            row(&mut producer, "t", n, &"y".repeat(bytes));
            n += 1;
        }
        flush_in_the_end(&engine, &mut producer, || refused += 1);
    }
    engine.wait_acked(PATIENCE).expect("delivered");
    engine.close().expect("drained");
    sink.stop();
    assert_eq!(stored(dir.path(), "t"), (0..n).collect::<Vec<_>>());
    assert!(refused > 0, "the ring is small enough to be full at times");
}

/// `t0` and `t1` are tables of different shards. The ring of one is full: the other one gets
/// nothing either.
#[test]
fn two_shards_accept_a_flush_together_or_not_at_all() {
    let (dir, address) = (scratch(), free_address());
    let engine = connect(address, &format!("shards=2;{SMALL}"));
    let mut producer = engine.producer().expect("open");
    let text = "x".repeat(1000);
    let mut n = 0;
    // Until the shard of `t0` is full, and then its ring, out of which nothing is taken any more.
    until("full", || {
        if producer.rows() == 0 {
            row(&mut producer, "t0", n, &text);
            n += 1;
        }
        let was_full = engine.status().shards.iter().any(|shard| shard.is_full);
        match producer.try_flush() {
            Ok(()) => false,
            Err(Error::Backpressure { .. }) => was_full,
            Err(error) => panic!("{error}"),
        }
    });
    let idle = engine.status().shards.iter().filter(|s| !s.is_full).count();
    assert_eq!(idle, 1, "the shard of t1 has room");
    let buffered = producer.rows();
    let before = accepted(&engine);
    for m in 0..20 {
        row(&mut producer, "t1", m, &text);
    }
    row(&mut producer, "t0", n, &text);
    n += 1;
    for _ in 0..3 {
        let error = producer.try_flush().expect_err("no room for all");
        let nothing = matches!(
            error,
            Error::Backpressure {
                rows_accepted: 0,
                ..
            }
        );
        assert!(nothing, "{error}");
        assert_eq!(accepted(&engine), before, "neither shard");
        assert_eq!(producer.rows(), buffered + 21);
    }
    assert_eq!(producer.headroom(), 0, "the fullest shard counts");
    let tables = engine.tables();
    let t1 = tables
        .iter()
        .find(|rows| rows.table == "t1")
        .expect("known");
    assert_eq!(t1.accepted, 0, "not one row");
    let sink = serve(dir.path(), address);
    let receipt = producer
        .publish()
        .expect("room when the server acknowledges");
    receipt.wait(Stage::Acked, PATIENCE).expect("both shards");
    engine.close().expect("drained");
    sink.stop();
    assert_eq!(stored(dir.path(), "t0"), (0..n).collect::<Vec<_>>());
    assert_eq!(stored(dir.path(), "t1"), (0..20).collect::<Vec<_>>());
}

/// Batches of both shards, larger than frames and at times than rings, while a server comes late.
#[test]
fn parts_of_two_shards_arrive_once_whatever_was_refused() {
    let (dir, address) = (scratch(), free_address());
    let engine = connect(address, &format!("shards=2;{SMALL}"));
    let mut producer = engine.producer().expect("open");
    let (mut n, mut refused, mut sink) = (0, 0, None);
    for round in 0..60u64 {
        for _ in 0..=round * round % 157 {
            let bytes = usize::try_from(n * 37 % 900).unwrap();
            let table = if n % 3 == 0 { "t0" } else { "t1" };
            row(&mut producer, table, n, &"y".repeat(bytes));
            n += 1;
        }
        flush_in_the_end(&engine, &mut producer, || {
            refused += 1;
            sink.get_or_insert_with(|| serve(dir.path(), address));
        });
    }
    let sink = sink.expect("full before");
    engine.wait_acked(PATIENCE).expect("delivered");
    engine.close().expect("drained");
    sink.stop();
    let of = |wanted: fn(&u64) -> bool| (0..n).filter(wanted).collect::<Vec<_>>();
    assert_eq!(stored(dir.path(), "t0"), of(|n| n % 3 == 0));
    assert_eq!(stored(dir.path(), "t1"), of(|n| n % 3 != 0));
    assert!(refused > 0);
}
