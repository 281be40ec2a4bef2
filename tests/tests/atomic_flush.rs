//! A batch whose parts go to several frames is accepted as a whole or not at all.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use forebay::{Engine, Error, Producer};

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
        let (mut before, mut buffered) = (accepted(&engine), producer.rows());
        until("accepted in the end", || match producer.try_flush() {
            Ok(()) => true,
            Err(Error::Backpressure { rows_accepted, .. }) => {
                refused += 1;
                let now = accepted(&engine);
                assert_eq!(rows_accepted == 0, now == before, "{rows_accepted} rows");
                assert_eq!(producer.rows() as u64 + rows_accepted, buffered as u64);
                (before, buffered) = (now, producer.rows());
                false
            }
            Err(error) => panic!("{error}"),
        });
    }
    engine.wait_acked(PATIENCE).expect("delivered");
    engine.close().expect("drained");
    sink.stop();
    assert_eq!(stored(dir.path(), "t"), (0..n).collect::<Vec<_>>());
    assert!(refused > 0, "the ring is small enough to be full at times");
}
