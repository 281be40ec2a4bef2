//! Another number of shards at the next start: every frame is delivered, and the rows of a table
//! arrive in the order in which they were published, whoever journaled them.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::net::SocketAddr;
use std::path::Path;

use forebay::{Engine, Error};

mod producing;
use producing::{PATIENCE, connect, free_address, row, scratch, serve, stored, until};

const TABLES: [&str; 6] = ["trades", "quotes", "book", "t0", "t1", "t2"];
const NOWHERE: &str = "127.0.0.1:1";

fn engine(dir: &Path, id: &str, shards: usize, address: &str, more: &str) -> Engine {
    connect(
        address.parse::<SocketAddr>().unwrap(),
        &format!(
            "sf_dir={}/sf;sender_id={id};shards={shards};sf_max_segment_bytes=64k;\
             intake_ring_bytes=64k;{more}",
            dir.display()
        ),
    )
}

/// Publishes rows of every table, a frame each.
fn publish(engine: &Engine, numbers: std::ops::Range<u64>) {
    let mut producer = engine.producer().unwrap();
    for n in numbers {
        for table in TABLES {
            row(&mut producer, table, n, "some text");
        }
        producer.publish().expect("there is room");
    }
    producer.flush().expect("written");
}

/// A start of an engine that finds no server.
fn leave(dir: &Path, id: &str, shards: usize, numbers: std::ops::Range<u64>) {
    let engine = engine(dir, id, shards, NOWHERE, "close_flush_timeout_millis=0;");
    publish(&engine, numbers);
    let left = engine.close().expect_err("nobody listens");
    assert!(matches!(left, Error::NotDrained { .. }), "{left}");
}

fn slots(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("sf")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

fn has_segments(dir: &Path, slot: &str) -> bool {
    let mut entries = std::fs::read_dir(dir.join("sf").join(slot)).unwrap();
    entries.any(|entry| {
        entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .ends_with(".sfa")
    })
}

#[test]
fn backlogs_of_one_two_eight_and_one_shards_arrive_in_the_order_of_their_rows() {
    let (dir, address) = (scratch(), free_address());
    for (shards, from) in [(1, 0), (2, 100), (8, 200), (3, 300)] {
        leave(dir.path(), "app", shards, from..from + 100);
    }
    let last = engine(dir.path(), "app", 1, &address.to_string(), "");
    publish(&last, 400..500);
    let sink = serve(&dir.path().join("store"), address);
    publish(&last, 500..600);
    last.wait_acked(PATIENCE).expect("delivered");
    last.close().expect("drained");
    sink.stop();
    for table in TABLES {
        let numbers = stored(&dir.path().join("store"), table);
        assert_eq!(numbers, (0..600).collect::<Vec<_>>(), "{table}");
    }
    for slot in slots(dir.path()) {
        assert!(!has_segments(dir.path(), &slot), "{slot} is empty");
    }
}

#[test]
fn a_growing_number_keeps_the_order_although_the_old_slots_stay_in_use() {
    let (dir, address) = (scratch(), free_address());
    leave(dir.path(), "app", 2, 0..100);
    // A crash between: the new frames must not go first at the next start either.
    leave(dir.path(), "app", 8, 100..200);
    leave(dir.path(), "app", 8, 200..300);
    let last = engine(dir.path(), "app", 8, &address.to_string(), "");
    let sink = serve(&dir.path().join("store"), address);
    publish(&last, 300..400);
    last.close().expect("drained");
    sink.stop();
    for table in TABLES {
        let numbers = stored(&dir.path().join("store"), table);
        assert_eq!(numbers, (0..400).collect::<Vec<_>>(), "{table}");
    }
}

/// Field report `shards-share-id`: shards of one sender have slots of their own, and frames of
/// shards that are no more are adopted.
#[test]
fn shards_share_id_and_nothing_else() {
    let (dir, address) = (scratch(), free_address());
    let four = engine(
        dir.path(),
        "app",
        4,
        NOWHERE,
        "close_flush_timeout_millis=0;",
    );
    publish(&four, 0..10);
    assert_eq!(slots(dir.path()), ["app-0", "app-1", "app-2", "app-3"]);
    let twice = Engine::connect(&format!(
        "ws::addr={NOWHERE};sf_dir={}/sf;sender_id=app;shards=2;lock_retry_millis=0;",
        dir.path().display()
    ));
    assert!(matches!(twice, Err(Error::Locked { .. })), "{twice:?}");
    four.close().expect_err("nobody listens");
    leave(dir.path(), "app", 2, 10..20);
    let sink = serve(&dir.path().join("store"), address);
    let eight = engine(dir.path(), "app", 8, &address.to_string(), "");
    until("those of the vanished shards too", || {
        TABLES
            .iter()
            .all(|t| stored(&dir.path().join("store"), t).len() == 20)
    });
    eight.close().expect("drained");
    sink.stop();
    for table in TABLES {
        let numbers = stored(&dir.path().join("store"), table);
        assert_eq!(numbers, (0..20).collect::<Vec<_>>(), "{table}");
    }
}

#[test]
fn the_slot_of_another_sender_with_such_a_name_is_left_alone() {
    let (dir, address) = (scratch(), free_address());
    leave(dir.path(), "app-1", 1, 0..10);
    leave(dir.path(), "app", 1, 10..20);
    let sink = serve(&dir.path().join("store"), address);
    let own = engine(dir.path(), "app", 1, &address.to_string(), "");
    publish(&own, 20..30);
    own.close().expect("drained");
    sink.stop();
    assert_eq!(
        stored(&dir.path().join("store"), "t0"),
        (10..30).collect::<Vec<_>>()
    );
    assert!(has_segments(dir.path(), "app-1"), "not ours");
}

#[test]
fn adopted_in_the_background_old_frames_hold_nobody_up() {
    let (dir, address) = (scratch(), free_address());
    leave(dir.path(), "app", 4, 0..50);
    let sink = serve(&dir.path().join("store"), address);
    let own = engine(
        dir.path(),
        "app",
        1,
        &address.to_string(),
        "adopt=background;",
    );
    publish(&own, 50..100);
    until("the old ones too", || {
        own.stats().drainers_succeeded == 4 && own.stats().unacked_frames == 0
    });
    own.close().expect("drained");
    sink.stop();
    for table in TABLES {
        let mut numbers = stored(&dir.path().join("store"), table);
        numbers.sort_unstable();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>(), "{table}");
    }
}
