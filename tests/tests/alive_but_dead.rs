//! Field report `alive-but-dead`: one shard has stopped for good, or one slot is damaged. The
//! status says so and names it, the other shards go on, and who has rows for the dead one gets an
//! error, not a hang.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::time::{Duration, Instant};

use forebay::{Error, ShardState, Stage};
use forebay_tests::again;

mod producing;
use producing::{PATIENCE, connect, free_address, row, scratch, serve, stored, until};

/// The process of the test below: `t0` is a table of shard 1 of 2, which panics at its first frame
/// and is not started again; `t1` is one of shard 0.
#[test]
#[ignore = "the child of the test below"]
fn child() {
    let (dir, address) = (scratch(), free_address());
    let sink = serve(&dir.path().join("store"), address);
    let engine = connect(
        address,
        &format!(
            "shards=2;sf_dir={}/sf;steward_respawn_max=0;close_flush_timeout_millis=500;",
            dir.path().display()
        ),
    );
    let mut producer = engine.producer().unwrap();
    row(&mut producer, "t0", 0, "");
    let receipt = producer.publish().expect("accepted");
    let start = Instant::now();
    let error = receipt.wait(Stage::Acked, PATIENCE).expect_err("dead");
    assert!(start.elapsed() < Duration::from_secs(10), "no hang");
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    let status = engine.status();
    assert!(!status.ready);
    assert!(
        status
            .reasons
            .iter()
            .all(|why| why.starts_with("shard 1: ")),
        "{:?}",
        status.reasons
    );
    assert_eq!(status.shards[1].state, ShardState::Panicked);
    for n in 0..100 {
        row(&mut producer, "t1", n, "");
        producer.flush().expect("shard 0 goes on");
    }
    row(&mut producer, "t1", 100, "");
    row(&mut producer, "t0", 1, "");
    let error = producer.try_flush().expect_err("shard 1 is in it");
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    assert_eq!(producer.rows(), 2, "nothing of it was accepted");
    producer.clear();
    let mut other = engine.producer().expect("for the shards that live");
    row(&mut other, "t1", 100, "");
    let receipt = other.publish().unwrap();
    receipt.wait(Stage::Acked, PATIENCE).expect("delivered");
    let events = engine.recent_errors();
    assert!(events.iter().any(|error| error.shard == 1), "{events:?}");
    engine.close().expect_err("not all is as it should be");
    sink.stop();
    let numbers = stored(&dir.path().join("store"), "t1");
    assert_eq!(numbers, (0..=100).collect::<Vec<_>>());
    again::came_to_its_end();
}

#[test]
fn alive_but_dead_one_of_two_shards_panics_and_is_named() {
    let faults = [
        ("FOREBAY_FAULT_SHARD_PANIC_AT", "append"),
        ("FOREBAY_FAULT_SHARD_PANICS", "1"),
    ];
    again::with("child", &faults);
}

#[test]
fn alive_but_dead_one_of_three_slots_is_damaged_and_the_others_deliver() {
    let (dir, address) = (scratch(), free_address());
    let conf = |more: &str| {
        format!(
            "shards=3;sender_id=app;sf_dir={}/sf;{more}",
            dir.path().display()
        )
    };
    let tables = ["trades", "quotes", "book", "t0", "t1", "t2", "t3"];
    let engine = connect(
        "127.0.0.1:1".parse().unwrap(),
        &conf("close_flush_timeout_millis=0;"),
    );
    let mut producer = engine.producer().unwrap();
    for table in tables {
        row(&mut producer, table, 0, "");
    }
    producer.flush().expect("accepted");
    drop(producer);
    engine.close().expect_err("nobody listens");
    let manifest = dir.path().join("sf/app-1/sf-manifest.bin");
    std::fs::write(&manifest, vec![0xAB; 8192]).unwrap();
    let sink = serve(&dir.path().join("store"), address);
    let engine = connect(address, &conf(""));
    let aside: Vec<_> = engine.sets_aside().collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert!(aside[0].path.ends_with("app-1.unreplayable-0"), "{aside:?}");
    let shards = &engine.recent_errors();
    assert_eq!(shards[0].shard, 1, "told with its number");
    assert_eq!(engine.stats().slots_set_aside, 1);
    let mut producer = engine.producer().unwrap();
    for table in tables {
        row(&mut producer, table, 1, "");
    }
    producer.flush().expect("every shard takes rows");
    engine.wait_acked(PATIENCE).expect("delivered");
    until("ready", || engine.status().ready);
    drop(producer);
    engine.close().expect("drained");
    sink.stop();
    let stored = tables.map(|table| stored(&dir.path().join("store"), table));
    let lost = stored.iter().filter(|numbers| **numbers == [1]).count();
    let whole = stored.iter().filter(|numbers| **numbers == [0, 1]).count();
    assert!(lost > 0 && whole > 0 && lost + whole == 7, "{stored:?}");
}
