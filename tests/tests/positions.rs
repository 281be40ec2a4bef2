//! The application's positions stage by stage, and the columns that make rows unique for ever.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::{Error, Positions, Producer};

mod producing;
use producing::{PATIENCE, connect, free_address, row, scratch, serve, stored, stored_rows, until};

#[test]
fn a_position_passes_stage_by_stage() {
    let dir = scratch();
    let address = free_address();
    let more = format!(
        "sf_dir={};sf_durability=flush;",
        dir.path().join("sf").display()
    );
    let engine = connect(address, &more);
    let mut producer = engine.producer().unwrap();
    let watch = producer.watch_progress();
    assert_eq!(producer.progress(), Positions::default());
    row(&mut producer, "t", 0, "");
    producer.flush_at(100).expect("stable");
    let progress = producer.progress();
    assert_eq!(
        (progress.accepted, progress.written),
        (Some(100), Some(100))
    );
    assert_eq!(
        (progress.stable, progress.acked),
        (Some(100), None),
        "no server"
    );
    assert_eq!(progress.durable, None);
    producer
        .flush_at(250)
        .expect("nothing new is complete at once");
    assert_eq!(watch.progress().stable, Some(250));
    let error = producer.flush_at(249).expect_err("positions must not fall");
    assert!(matches!(error, Error::Misuse(_)), "{error}");
    assert!(matches!(
        producer.try_flush_at(u64::MAX),
        Err(Error::Misuse(_))
    ));
    let sink = serve(&dir.path().join("store"), address);
    until("acked", || watch.progress().acked == Some(250));
    drop(producer);
    engine.close().expect("drained");
    sink.stop();
    assert_eq!(watch.progress().acked, Some(250), "also when all is over");
}

#[test]
fn memory_mode_knows_no_position_on_disk() {
    let dir = scratch();
    let address = free_address();
    let sink = serve(dir.path(), address);
    let engine = connect(address, "");
    let mut producer = engine.producer().unwrap();
    row(&mut producer, "t", 0, "");
    producer.flush_at(0).expect("open");
    until("acked", || producer.progress().acked == Some(0));
    let progress = producer.progress();
    assert_eq!((progress.written, progress.stable), (None, None));
    engine.close().expect("drained");
    drop(sink);
}

#[test]
fn a_refusal_carries_the_positions_that_it_concerns() {
    let engine = connect(
        free_address(),
        "sf_max_segment_bytes=64k;sf_max_total_bytes=128k;intake_ring_bytes=64k;\
         close_flush_timeout_millis=0;",
    );
    let mut producer = engine.producer().unwrap();
    let text = "x".repeat(1000);
    let (mut n, mut last) = (0, None);
    let error = loop {
        row(&mut producer, "t", n, &text);
        n += 1;
        match producer.try_flush_at(n * 10) {
            Ok(()) => last = Some(n * 10),
            Err(error) => break error,
        }
    };
    let expected = Some((last.unwrap() + 1, n * 10));
    assert!(
        matches!(error, Error::Backpressure { positions, .. } if positions == expected),
        "{error:?}"
    );
    assert_eq!(producer.progress().accepted, last);
}

/// Written, stable and acked positions are never ahead of the rows they stand for, seen from
/// another thread, while connections break.
#[test]
fn positions_are_never_ahead_of_the_server() {
    let dir = scratch();
    let store = dir.path().join("store");
    let config = forebay_loadgen::sink::SinkConfig {
        store: Some(store.clone()),
        drop_after: Some(50),
        ..forebay_loadgen::sink::SinkConfig::default()
    };
    let sink = forebay_loadgen::sink::Sink::start(config).unwrap();
    let more = format!("sf_dir={};", dir.path().join("sf").display());
    let engine = connect(sink.addr(), &more);
    let mut producer = engine.producer().unwrap();
    let (watch, over) = (producer.watch_progress(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut last, mut seen) = (Positions::default(), 0);
            while !over.load(Ordering::Acquire) {
                let now = watch.progress();
                let highest = stored(&store, "t").into_iter().max();
                assert!(
                    now.acked <= highest,
                    "{now:?}, but the server has {highest:?}"
                );
                assert!(now.acked >= last.acked && now.written >= last.written);
                assert!(now.stable <= watch.progress().written);
                seen += usize::from(now.acked > last.acked);
                last = now;
            }
            assert!(seen > 3, "progress was seen {seen} times");
        });
        for n in 0..2000 {
            row(&mut producer, "t", n, "");
            producer.flush_at(n).expect("written");
        }
        let acked = engine.wait_acked(PATIENCE);
        over.store(true, Ordering::Release);
        acked.expect("delivered");
    });
    assert_eq!(producer.progress().acked, Some(1999));
    engine.close().expect("drained");
    sink.stop();
}

/// Rows with one timestamp for all: only their number tells them apart.
fn same_time(producer: &mut Producer, from: u64, to: u64) {
    for n in from..to {
        producer.table("t").unwrap().symbol("sym", "S").unwrap();
        producer.column_i64("n", n.cast_signed()).unwrap();
        producer.at(forebay::TimestampNanos(1)).unwrap();
    }
}

#[test]
fn numbered_rows_are_unique_though_replayed_and_rise_over_restarts() {
    let dir = scratch();
    let store = dir.path().join("store");
    let address = free_address();
    let more = format!(
        "sf_dir={};row_seq=seq;receive_time=got;close_flush_timeout_millis=0;",
        dir.path().join("sf").display()
    );
    // Two producers and a start without a server.
    let engine = connect(address, &more);
    for producer in 0..2 {
        let mut rows = engine.producer().unwrap();
        same_time(&mut rows, producer * 500, producer * 500 + 500);
        rows.flush().expect("written");
    }
    engine.close().expect_err("no server");
    // A second start; its server takes everything and confirms nothing in time.
    let slow = forebay_loadgen::sink::SinkConfig {
        listen: address,
        store: Some(dir.path().join("slow")),
        ack_delay: PATIENCE * 4,
        ..forebay_loadgen::sink::SinkConfig::default()
    };
    let slow = forebay_loadgen::sink::Sink::start(slow).unwrap();
    let engine = connect(address, &more);
    let mut rows = engine.producer().unwrap();
    for n in 1000..1100 {
        same_time(&mut rows, n, n + 1);
        rows.try_flush().expect("room");
    }
    let first = || stored_rows(&dir.path().join("slow"), "t");
    until("taken", || first().len() == 1100);
    engine.close().expect_err("not confirmed");
    // A third start delivers all of it again, to another server.
    let address = free_address();
    let sink = serve(&store, address);
    let engine = connect(address, &more);
    engine.wait_acked(PATIENCE).expect("delivered");
    engine.close().expect("drained");
    sink.stop();
    let all = [first(), stored_rows(&store, "t")].concat();
    assert_eq!(all.len(), 2200, "every row came twice");
    // Its end would wait for the answers that it holds back.
    std::mem::forget(slow);
    let key = |row: &serde_json::Value| {
        let seq = row["seq"].as_i64().expect("a number");
        assert!(row.get("got").is_some(), "{row}");
        (seq, row["n"].as_u64().unwrap(), row["got"].to_string())
    };
    // What DEDUP on (timestamp, seq) keeps: each row once, and the same whenever it came.
    let kept: HashSet<_> = all.iter().map(key).collect();
    let numbers: HashSet<_> = kept.iter().map(|row| row.0).collect();
    assert_eq!((kept.len(), numbers.len()), (1100, 1100));
    let mut by_n: Vec<_> = kept.into_iter().map(|(seq, n, _)| (n, seq)).collect();
    by_n.sort_unstable();
    for half in [&by_n[..500], &by_n[500..1000]] {
        assert!(
            half.is_sorted_by_key(|row| row.1),
            "in the order of one producer"
        );
    }
    let before = by_n[..1000].iter().map(|row| row.1).max();
    assert!(by_n[1000..].iter().all(|row| Some(row.1) > before));
}
