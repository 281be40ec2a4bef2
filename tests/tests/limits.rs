//! Limits of ARCHITECTURE.md that no other test reaches: each is met on purpose, says its name, and
//! is left again. Where the others are reached stands in docs/testing.md.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use forebay::{Engine, Error, Producer, TimestampNanos};
use forebay_tests::address::free_address;

use engine_child::{EngineChild, segments};

mod engine_child;
mod loadgen;

const PATIENCE: Duration = Duration::from_mins(3);

fn in_memory(more: &str) -> Engine {
    Engine::connect(&format!(
        "ws::addr={};initial_connect_retry=async;pin=off;close_flush_timeout_millis=0;\
         intake_ring_bytes=4k;{more}",
        free_address()
    ))
    .unwrap()
}

/// Asks until there is a place again.
fn retry(engine: &Engine) -> Producer {
    let start = Instant::now();
    loop {
        match engine.producer() {
            Ok(producer) => return producer,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_engine_has_1024_producers_and_no_more() {
    let engine = in_memory("");
    let mut producers: Vec<Producer> = (0..1_024).map(|_| engine.producer().unwrap()).collect();
    let refused = engine.producer().unwrap_err();
    let named = matches!(refused, Error::Misuse(text) if text.contains("1,024 producers"));
    assert!(named, "{refused}");
    // Every one of them works.
    for (producer, n) in producers.iter_mut().zip(0..) {
        producer.table("t").unwrap().column_i64("n", n).unwrap();
        producer.at(TimestampNanos(n + 1)).unwrap();
        producer.publish().unwrap();
    }
    let start = Instant::now();
    while engine.stats().rows_published < 1_024 {
        assert!(start.elapsed() < PATIENCE, "{:?}", engine.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
    // One that has published counts until its rows are acked; one that has not goes at once.
    drop(producers);
    assert!(engine.producer().is_err(), "their rows are not acked");
    drop(engine);
    let engine = in_memory("");
    let mut producers: Vec<Producer> = (0..1_024).map(|_| engine.producer().unwrap()).collect();
    drop(producers.pop());
    producers.push(retry(&engine));
    engine.producer().unwrap_err();
}

/// A dropped producer's ring is freed once it is drained; that of a leaked one is not, and counts.
#[test]
fn a_leaked_producer_is_counted_and_holds_up_no_close() {
    let engine = in_memory("");
    let producers = |engine: &Engine| engine.status().shards[0].producers;
    let (leaked, dropped) = (engine.producer().unwrap(), engine.producer().unwrap());
    assert_eq!(producers(&engine), 2);
    std::mem::forget(leaked);
    drop(dropped);
    let start = Instant::now();
    while producers(&engine) != 1 {
        assert!(start.elapsed() < PATIENCE, "{:?}", engine.status());
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(engine.producer().unwrap());
    while producers(&engine) != 1 {
        assert!(start.elapsed() < PATIENCE, "{:?}", engine.status());
        std::thread::sleep(Duration::from_millis(1));
    }
    engine.close().unwrap();
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn rings_end_at_intake_total_bytes() {
    let engine = in_memory("intake_total_bytes=16k;");
    let mut producers: Vec<Producer> = (0..4).map(|_| engine.producer().unwrap()).collect();
    let Error::Config { key, reason } = engine.producer().unwrap_err() else {
        panic!("a configuration error");
    };
    assert_eq!(key, "intake_total_bytes");
    assert!(
        reason.contains("16384") && reason.contains("4096"),
        "{reason}"
    );
    drop(producers.pop());
    producers.push(retry(&engine));
}

/// Descriptors of a process that lie in a directory.
fn open_below(process: u32, dir: &Path) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let targets = entries
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.starts_with(dir)).count()
}

#[test]
fn a_slot_has_at_most_20_descriptors_whatever_its_backlog() {
    let dir = loadgen::scratch();
    let sf_dir = dir.path().canonicalize().unwrap().join("sf");
    let connect = format!(
        "ws::addr={};initial_connect_retry=async;pin=off;close_flush_timeout_millis=0;sf_dir={};\
         sender_id=many;sf_max_segment_bytes=64k;",
        free_address(),
        sf_dir.display()
    );
    let slot = sf_dir.join("many");
    let mut child = EngineChild::open(&connect, &[]);
    child.publish(800, 8_000);
    let mut most = 0;
    while child.state().get("frames_written") < 800 {
        most = most.max(open_below(child.id(), &slot));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(child.ask("published"), "published");
    most = most.max(open_below(child.id(), &slot));
    let files = segments(&slot).len();
    println!("{files} segments, {most} descriptors");
    assert!(files >= 90, "{files} segments");
    assert!((1..=20).contains(&most), "{most} descriptors");
}
