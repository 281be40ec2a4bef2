//! The shard's turn in the instant world: what a caller's thread sees between two turns.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use forebay::internals::InstantLoop;
use forebay::{Error, Producer, Stage, TimestampNanos};

mod loadgen;

const MEMORY: &str = "ws::addr=127.0.0.1:1;sf_max_segment_bytes=64k;sf_max_total_bytes=256k;";

fn row(producer: &mut Producer, n: i64) {
    producer.table("t").unwrap().symbol("s", "A").unwrap();
    producer.column_i64("n", n).unwrap();
    producer.at(TimestampNanos(n)).unwrap();
}

#[test]
fn memory_mode_goes_on_when_the_segment_under_the_sender_is_trimmed() {
    let mut shard = InstantLoop::open(MEMORY).expect("memory mode");
    let mut producer = shard.producer().expect("memory for a ring");
    for n in 0..20_000 {
        row(&mut producer, n);
        producer
            .try_publish()
            .expect("room: everything is acked at once");
        shard.turn();
    }
    shard.turn();
    let stats = shard.stats();
    assert_eq!((stats.frames_acked, stats.unacked_frames), (20_000, 0));
    assert!(stats.segments_trimmed > 10, "{stats:?}");
}

#[test]
fn a_new_producer_is_not_credited_with_the_frames_of_one_that_left() {
    let dir = loadgen::scratch();
    let connect = format!(
        "ws::addr=127.0.0.1:1;sf_dir={};",
        dir.path().join("sf").display()
    );
    let mut shard = InstantLoop::open(&connect).expect("a free slot");
    let mut first = shard.producer().expect("memory for a ring");
    for n in 0..100 {
        row(&mut first, n);
        first.try_publish().expect("room");
        shard.turn();
    }
    let last = first
        .try_publish()
        .expect("an empty publish stands for all before it");
    drop(first);
    while !last.reached(Stage::Acked).expect("possible") {
        shard.turn();
    }
    // Long enough for the shard to sweep rings of producers that are gone.
    for _ in 0..300_000 {
        shard.turn();
    }
    assert!(
        last.reached(Stage::Stable).expect("has a journal"),
        "its lane is freed by a sync"
    );
    let mut second = shard.producer().expect("memory for a ring");
    row(&mut second, 100);
    let receipt = second.try_publish().expect("room");
    for stage in [Stage::Written, Stage::Stable, Stage::Acked] {
        assert!(
            !receipt.reached(stage).expect("has a journal"),
            "{stage:?} before any turn"
        );
    }
    for _ in 0..10 {
        shard.turn();
    }
    assert!(receipt.reached(Stage::Acked).expect("possible"));
}

#[test]
fn a_symbol_before_a_table_is_misuse_and_leaves_nothing() {
    let shard = InstantLoop::open(MEMORY).expect("memory mode");
    let mut producer = shard.producer().expect("memory for a ring");
    let long = "x".repeat((1 << 20) + 1);
    for value in ["A", &long] {
        let refused = producer.symbol("s", value).map(drop);
        assert!(matches!(refused, Err(Error::Misuse(_))), "{refused:?}");
    }
}

#[test]
fn a_refused_row_takes_the_columns_it_brought_with_it() {
    let mut shard = InstantLoop::open(MEMORY).expect("memory mode");
    shard.record_messages(true);
    let mut producer = shard.producer().expect("memory for a ring");
    row(&mut producer, 1);
    producer
        .table("t")
        .unwrap()
        .column_f64("brought", 1.0)
        .unwrap();
    let refused = producer.at(TimestampNanos(-1));
    assert!(matches!(refused, Err(Error::Row { .. })), "{refused:?}");
    row(&mut producer, 2);
    producer.try_publish().expect("room");
    while shard.stats().frames_acked == 0 {
        shard.turn();
    }
    let messages = shard.take_messages();
    let text = String::from_utf8_lossy(messages.last().expect("one message"));
    assert!(!text.contains("brought"), "{text}");
}

/// More than a turn takes waits in the first ring.
#[test]
fn what_a_dropped_producer_published_goes_before_the_rows_of_its_successor() {
    let keys = "ws::addr=127.0.0.1:1;intake_ring_bytes=4m;";
    let mut shard = InstantLoop::open(keys).expect("memory mode");
    shard.record_messages(true);
    let mut first = shard.producer().expect("memory for a ring");
    let filler = "x".repeat(10_000);
    for n in 0..100 {
        first
            .table("first")
            .unwrap()
            .column_str("s", &filler)
            .unwrap();
        first.at(TimestampNanos(n)).unwrap();
        first.try_publish().expect("room");
    }
    shard.turn();
    assert!(shard.stats().frames_published < 100, "a turn is not enough");
    drop(first);
    let mut second = shard.producer().expect("memory for a ring");
    row(&mut second, 100);
    second.try_publish().expect("room");
    while shard.stats().frames_acked < 101 {
        shard.turn();
    }
    let messages = shard.take_messages();
    let is_second = |message: &Vec<u8>| !String::from_utf8_lossy(message).contains("first");
    assert_eq!(messages.iter().position(is_second), Some(100));
}

/// Turns of this world take 1 us each.
#[test]
fn of_many_producers_a_busy_one_keeps_nobody_waiting_for_long() {
    let keys = "ws::addr=127.0.0.1:1;sf_max_total_bytes=16m;intake_ring_bytes=64k;";
    let mut shard = InstantLoop::open(keys).expect("memory mode");
    let mut producers: Vec<_> = (0..100)
        .map(|_| shard.producer().expect("memory for a ring"))
        .collect();
    shard.turn();
    for n in 0..1_000 {
        let quiet = 1 + n % 99;
        let index = usize::try_from(quiet).unwrap();
        row(&mut producers[index], n);
        let receipt = producers[index].try_publish().expect("room");
        // While nobody else has anything it is taken, written and confirmed at once.
        let alone = n % 3 == 0;
        let most = if alone { 4 } else { 110 };
        let mut turns = 0;
        while !receipt.reached(Stage::Acked).expect("possible") {
            if !alone {
                row(&mut producers[0], n);
                producers[0].try_publish().expect("room");
            }
            shard.turn();
            turns += 1;
            assert!(turns <= most, "batch {n} of a quiet producer");
        }
    }
    let published = shard.stats().rows_published;
    for _ in 0..200 {
        shard.turn();
    }
    let stats = shard.stats();
    assert_eq!(
        (stats.rows_published, stats.rows_acked),
        (published, published)
    );
}
