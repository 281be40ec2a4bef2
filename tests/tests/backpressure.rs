//! The cap is reached: what a refusal says while the server is slow and while it is away, what it
//! counts, what ends a wait and how soon, and that the same handle goes on afterwards; also when
//! the cap, the time limit or the servers are changed meanwhile.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forebay::{Engine, Error, Pressure, Producer, Stage, TimestampNanos};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_tests::address::free_address;
use forebay_wire::upgrade::UpgradePolicy;

mod loadgen;

const PATIENCE: Duration = Duration::from_mins(3);
/// How soon a wait ends.
const SOON: Duration = Duration::from_millis(100);
/// `sf_max_total_bytes`: four segments.
const CAP_BYTES: u64 = 256 << 10;
/// Longer than any test.
const LONG: &str = "sf_append_deadline_millis=120000;";

fn connect(dir: &Path, address: SocketAddr, more: &str) -> Engine {
    let close = if more.contains("close_flush") {
        ""
    } else {
        "close_flush_timeout_millis=0;"
    };
    Engine::connect(&format!(
        "ws::addr={address};sf_dir={};sf_max_segment_bytes=64k;sf_max_total_bytes={CAP_BYTES};\
         intake_ring_bytes=64k;initial_connect_retry=async;pin=off;{close}\
         reconnect_initial_backoff_millis=5;reconnect_max_backoff_millis=20;{more}",
        dir.join("sf").display()
    ))
    .unwrap()
}

fn serve(dir: &Path, address: SocketAddr, ack_delay: Duration) -> Sink {
    Sink::start(SinkConfig {
        listen: address,
        depth: Depth::Decode,
        strict: true,
        store: Some(dir.join("store")),
        ack_delay,
        ..SinkConfig::default()
    })
    .unwrap()
}

fn fill(producer: &mut Producer, n: u64) {
    let n = i64::try_from(n).unwrap();
    producer.table("t").unwrap().column_i64("n", n).unwrap();
    let text = "x".repeat(3_000);
    producer.column_str("v", &text).unwrap();
    producer.at(TimestampNanos(n + 1)).unwrap();
}

/// Publishes until the cap is reached and there is no room; answers how many batches were accepted.
/// One more is buffered.
fn fill_up(engine: &Engine, producer: &mut Producer) -> u64 {
    let mut n = 0;
    let (start, mut refused_since) = (Instant::now(), None);
    fill(producer, n);
    loop {
        let was_full = engine.status().shards[0].is_full;
        match producer.try_publish() {
            Ok(_) => {
                n += 1;
                refused_since = None;
                fill(producer, n);
            }
            // It may be a rotation only, or a steward that is behind.
            Err(Error::Backpressure { .. }) => {
                let since = *refused_since.get_or_insert_with(Instant::now);
                if was_full && since.elapsed() > Duration::from_millis(500) {
                    return n;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => panic!("{error}"),
        }
        assert!(n < 1_000, "the cap holds");
        assert!(start.elapsed() < PATIENCE, "{:?}", engine.status());
    }
}

fn check_stored(dir: &Path, batches: u64) {
    let text = std::fs::read_to_string(dir.join("store/t.ndjson")).unwrap();
    let mut rows: Vec<u64> = text
        .lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            row["n"].as_u64().unwrap()
        })
        .collect();
    rows.dedup();
    assert_eq!(rows, (0..batches).collect::<Vec<_>>(), "each, in order");
}

/// Looks again and again until it is so.
fn spin_until(engine: &Engine, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{:?}", engine.status());
        std::thread::yield_now();
    }
}

/// What ended a blocked `publish` and how long after `event` had happened; the handle is given back.
fn wait_ended_by(
    mut producer: Producer,
    event: impl FnOnce(),
) -> (Result<(), Error>, Duration, Producer) {
    let (ready, started) = channel();
    let waiting = std::thread::spawn(move || {
        ready.send(()).unwrap();
        let outcome = producer.publish().map(drop);
        (outcome, Instant::now(), producer)
    });
    started.recv().unwrap();
    // It sleeps by then: its first look lasts 20 us.
    std::thread::sleep(Duration::from_millis(30));
    assert!(!waiting.is_finished(), "it waits");
    event();
    let happened = Instant::now();
    let (outcome, ended, producer) = waiting.join().unwrap();
    (outcome, ended.saturating_duration_since(happened), producer)
}

#[test]
fn a_refusal_while_publishing_says_so_and_a_hundred_count_a_hundred() {
    let dir = loadgen::scratch();
    // Longer than the hundred refusals take; the sink ends when it has answered.
    let sink = serve(dir.path(), free_address(), Duration::from_secs(20));
    let engine = connect(dir.path(), sink.addr(), "sf_append_deadline_millis=20;");
    let mut producer = engine.producer().unwrap();
    let n = fill_up(&engine, &mut producer);
    assert!(engine.status().shards[0].is_full, "{:?}", engine.status());
    assert_eq!(producer.headroom(), 0);
    let before = engine.stats();
    for round in 0..100 {
        let refused = if round % 2 == 0 {
            producer.publish().map(drop).unwrap_err()
        } else {
            producer.try_flush().unwrap_err()
        };
        let Error::Backpressure {
            pressure,
            batch_bytes,
            waited_millis,
            rows_accepted,
            positions,
        } = &refused
        else {
            panic!("{refused}");
        };
        assert_eq!(*pressure, Pressure::Publishing, "the server is there");
        assert!((3_000..4_096).contains(batch_bytes), "{batch_bytes}");
        let least = if round % 2 == 0 { 20 } else { 0 };
        assert!((least..least + 10_000).contains(waited_millis), "{refused}");
        assert_eq!((*rows_accepted, *positions), (0, None));
        let text = refused.to_string();
        for part in [
            "the rows stay",
            "sf_max_total_bytes",
            "sf_append_deadline_millis",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(refused.is_retryable() && refused.code() == 1);
    }
    let after = engine.stats();
    let counted = |stats: &forebay::Stats| (stats.publishes_timed_out, stats.backpressure_stalls);
    assert_eq!(counted(&after).0 - counted(&before).0, 100);
    assert_eq!(counted(&after).1 - counted(&before).1, 100);
    assert_eq!(producer.rows(), 1, "the refused row, once");
    assert!(after.disk_bytes <= CAP_BYTES, "{}", after.disk_bytes);
    // The same handle goes on.
    engine.reconfigure("sf_max_total_bytes=10m;").unwrap();
    engine
        .reconfigure("sf_append_deadline_millis=10000;")
        .unwrap();
    producer.flush().unwrap();
    fill(&mut producer, n + 1);
    producer.flush().unwrap();
    assert!(!engine.status().shards[0].is_full);
    assert!(engine.close().is_err(), "nothing is acked");
    drop(sink);
    let sink = serve(dir.path(), free_address(), Duration::ZERO);
    std::fs::write(dir.path().join("store/t.ndjson"), "").unwrap();
    let engine = connect(dir.path(), sink.addr(), "close_flush_timeout_millis=30000;");
    engine.close().unwrap();
    drop(sink.stop());
    check_stored(dir.path(), n + 2);
}

#[test]
fn a_wait_is_ended_by_room_within_100_ms() {
    check_soon("room", ended_by_room);
}

fn ended_by_room() -> Duration {
    let dir = loadgen::scratch();
    let address = free_address();
    let engine = connect(dir.path(), address, LONG);
    let mut producer = engine.producer().unwrap();
    let n = fill_up(&engine, &mut producer);
    let mut sink = None;
    let (outcome, soon, mut producer) = wait_ended_by(producer, || {
        sink = Some(serve(dir.path(), address, Duration::ZERO));
        // Room is there when the shard takes entries again.
        spin_until(&engine, || !engine.status().shards[0].is_full);
    });
    outcome.unwrap();
    fill(&mut producer, n + 1);
    producer.publish().unwrap();
    engine.wait_acked(PATIENCE).unwrap();
    engine.close().unwrap();
    drop(sink.unwrap().stop());
    check_stored(dir.path(), n + 2);
    soon
}

#[test]
fn a_wait_is_ended_by_a_raised_cap_within_100_ms() {
    check_soon("a raised cap", ended_by_a_raised_cap);
}

fn ended_by_a_raised_cap() -> Duration {
    let dir = loadgen::scratch();
    let address = free_address();
    let engine = connect(dir.path(), address, LONG);
    let mut producer = engine.producer().unwrap();
    let n = fill_up(&engine, &mut producer);
    let refused = producer.try_publish().unwrap_err();
    let is_outage = matches!(
        refused,
        Error::Backpressure { pressure: Pressure::Reconnecting { attempts, .. }, .. } if attempts > 0
    );
    assert!(is_outage && refused.code() == 2, "{refused}");
    let (written, mut seen) = (engine.stats().segments_written, Duration::ZERO);
    let (outcome, soon, mut producer) = wait_ended_by(producer, || {
        let start = Instant::now();
        engine.reconfigure("sf_max_total_bytes=1m;").unwrap();
        spin_until(&engine, || !engine.status().shards[0].is_full);
        seen = start.elapsed();
        // Room is there when there is a segment, for which the disk takes the time that it likes.
        spin_until(&engine, || engine.stats().segments_written > written);
    });
    outcome.unwrap();
    assert_eq!(engine.status().shards[0].slot_bytes_max, 1 << 20);
    // Three quarters of it are new room, and the new cap holds as the old one did.
    let mut more = n + 1;
    engine
        .reconfigure("sf_append_deadline_millis=200;")
        .unwrap();
    fill(&mut producer, more);
    let start = Instant::now();
    loop {
        let was_full = engine.status().shards[0].is_full;
        match producer.publish() {
            Ok(_) => {
                more += 1;
                fill(&mut producer, more);
            }
            Err(_) if was_full => break,
            // A slow disk: it is at a rotation.
            Err(Error::Backpressure { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", engine.status());
    }
    assert!(more - n > 200, "{} batches more", more - n);
    let used = engine.stats().disk_bytes;
    assert!(used <= 1 << 20, "{used} bytes");
    // A lower cap refuses what was refused, and delivery makes the room.
    engine
        .reconfigure(&format!("sf_max_total_bytes={CAP_BYTES};"))
        .unwrap();
    producer.publish().unwrap_err();
    goes_on(dir.path(), address, engine, producer, more + 1);
    seen + soon
}

#[test]
fn a_wait_is_ended_by_close_within_100_ms() {
    check_soon("close", ended_by_close);
}

fn ended_by_close() -> Duration {
    let dir = loadgen::scratch();
    let engine = connect(dir.path(), free_address(), LONG);
    let mut producer = engine.producer().unwrap();
    fill_up(&engine, &mut producer);
    let closing = std::sync::Mutex::new(None);
    let (outcome, soon, mut producer) = wait_ended_by(producer, || {
        *closing.lock().unwrap() = Some(std::thread::spawn(move || engine.close()));
    });
    // What was waiting may still be taken in the last moment.
    assert!(
        matches!(outcome, Ok(()) | Err(Error::Closed)),
        "{outcome:?}"
    );
    let closed = closing.into_inner().unwrap().unwrap().join().unwrap();
    assert!(
        matches!(closed, Err(Error::NotDrained { .. })),
        "{closed:?}"
    );
    fill(&mut producer, 9_999);
    assert!(matches!(producer.publish(), Err(Error::Closed)));
    soon
}

#[test]
fn a_wait_is_ended_by_refused_credentials_within_100_ms() {
    check_soon("401", ended_by_refused_credentials);
}

fn ended_by_refused_credentials() -> Duration {
    let dir = loadgen::scratch();
    let address = free_address();
    let engine = connect(dir.path(), address, LONG);
    let mut producer = engine.producer().unwrap();
    fill_up(&engine, &mut producer);
    let mut sink = None;
    let (outcome, soon, mut producer) = wait_ended_by(producer, || {
        let upgrade = UpgradePolicy {
            authorization: Some("Bearer secret".to_owned()),
            ..UpgradePolicy::default()
        };
        sink = Some(Sink::start(SinkConfig {
            listen: address,
            upgrade,
            ..SinkConfig::default()
        }));
        spin_until(&engine, || engine.status().terminal.is_some());
    });
    let error = outcome.unwrap_err();
    assert!(error.to_string().contains("401"), "{error}");
    assert!(producer.publish().is_err(), "for good");
    engine.close().unwrap_err();
    soon
}

#[test]
fn a_refusal_while_reconnecting_says_how_long_and_counts_too() {
    let dir = loadgen::scratch();
    let address = free_address();
    let engine = connect(dir.path(), address, "sf_append_deadline_millis=20;");
    let mut producer = engine.producer().unwrap();
    let n = fill_up(&engine, &mut producer);
    let before = engine.stats().publishes_timed_out;
    let mut outages = Vec::new();
    for _ in 0..100 {
        let refused = producer.publish().map(drop).unwrap_err();
        let Error::Backpressure {
            pressure:
                Pressure::Reconnecting {
                    attempts,
                    outage_millis,
                },
            waited_millis,
            rows_accepted: 0,
            ..
        } = refused
        else {
            panic!("{refused}");
        };
        assert!((20..520).contains(&waited_millis), "{refused}");
        outages.push((attempts, outage_millis));
        let text = refused.to_string();
        for part in [
            "Reconnecting".to_owned(),
            format!("attempts: {attempts},"),
            "the rows stay".to_owned(),
            "sf_max_total_bytes".to_owned(),
            "sf_append_deadline_millis".to_owned(),
        ] {
            assert!(text.contains(&part), "{part}: {text}");
        }
    }
    // One outage: it gets older, and attempts go on.
    assert!(outages.is_sorted(), "{outages:?}");
    assert!(outages[99].0 > outages[0].0, "{outages:?}");
    assert!(outages[99].1 >= outages[0].1 + 99 * 20, "{outages:?}");
    assert_eq!(engine.stats().publishes_timed_out - before, 100);
    goes_on(dir.path(), address, engine, producer, n + 1);
}

/// The same handle goes on as soon as there is a server: it publishes what was refused, and `batches`
/// arrive in all.
fn goes_on(dir: &Path, address: SocketAddr, engine: Engine, mut producer: Producer, batches: u64) {
    let sink = serve(dir, address, Duration::ZERO);
    engine
        .reconfigure("sf_append_deadline_millis=30000;")
        .unwrap();
    producer.publish().unwrap();
    engine.wait_acked(PATIENCE).unwrap();
    engine.close().unwrap();
    drop(sink.stop());
    check_stored(dir, batches);
}

/// How long after `event` had happened the last of three producers at the cap and of a receipt knew;
/// every one of them must have ended as `is_right` says.
fn all_waits_ended_by(
    event: impl FnOnce(Engine, &Path, SocketAddr) -> (Instant, Box<dyn std::any::Any>),
    is_right: fn(&Result<(), Error>) -> bool,
) -> Duration {
    let dir = loadgen::scratch();
    let address = free_address();
    let engine = connect(dir.path(), address, LONG);
    let mut producers: Vec<Producer> = (0..3).map(|_| engine.producer().unwrap()).collect();
    fill(&mut producers[0], 0);
    let receipt = producers[0].publish().unwrap();
    for producer in &mut producers {
        fill_up(&engine, producer);
    }
    let (tell, told) = channel();
    let told_receipt = tell.clone();
    std::thread::spawn(move || {
        let outcome = receipt.wait(Stage::Acked, Duration::from_mins(2));
        told_receipt.send((outcome, Instant::now())).unwrap();
    });
    for mut producer in producers {
        let tell = tell.clone();
        std::thread::spawn(move || {
            let outcome = producer.publish().map(drop);
            tell.send((outcome, Instant::now())).unwrap();
        });
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(told.try_recv().is_err(), "all four wait");
    let (happened, kept) = event(engine, dir.path(), address);
    let waits = (0..4).map(|_| {
        let (outcome, ended) = told.recv_timeout(PATIENCE).unwrap();
        assert!(is_right(&outcome), "{outcome:?}");
        ended.saturating_duration_since(happened)
    });
    let last = waits.max().unwrap();
    drop(kept);
    last
}

/// The least of some tries is what the engine takes, whatever else the machine does.
fn check_soon(what: &str, mut attempt: impl FnMut() -> Duration) {
    let mut seen = Vec::new();
    while seen.len() < 5 && seen.last().is_none_or(|last| *last >= SOON) {
        seen.push(attempt());
    }
    println!("{what}: {seen:?}");
    assert!(seen.iter().any(|last| *last < SOON), "{what}: {seen:?}");
}

#[test]
fn every_wait_is_ended_by_another_server_within_100_ms() {
    check_soon("another server", || {
        let event = |engine: Engine, dir: &Path, _| -> (Instant, Box<dyn std::any::Any>) {
            let sink = serve(dir, free_address(), Duration::ZERO);
            engine
                .reconfigure(&format!("addr={};", sink.addr()))
                .unwrap();
            spin_until(&engine, || !engine.status().shards[0].is_full);
            (Instant::now(), Box::new((engine, sink)))
        };
        all_waits_ended_by(event, Result::is_ok)
    });
}

#[test]
fn every_wait_is_ended_by_a_terminal_error_within_100_ms() {
    check_soon("401", || {
        let event = |engine: Engine, _: &Path, address| -> (Instant, Box<dyn std::any::Any>) {
            let upgrade = UpgradePolicy {
                authorization: Some("Bearer secret".to_owned()),
                ..UpgradePolicy::default()
            };
            let sink = Sink::start(SinkConfig {
                listen: address,
                upgrade,
                ..SinkConfig::default()
            });
            spin_until(&engine, || engine.status().terminal.is_some());
            (Instant::now(), Box::new((engine, sink)))
        };
        let is_right = |outcome: &Result<(), Error>| {
            let text = outcome.as_ref().err().map(ToString::to_string);
            text.is_some_and(|text| text.contains("401"))
        };
        all_waits_ended_by(event, is_right)
    });
}

#[test]
fn every_wait_is_ended_by_close_within_100_ms() {
    check_soon("close", || {
        let event = |engine: Engine, _: &Path, _| -> (Instant, Box<dyn std::any::Any>) {
            let closed = engine.close();
            let is_right = matches!(closed, Err(Error::NotDrained { .. }));
            assert!(is_right, "{closed:?}");
            (Instant::now(), Box::new(()))
        };
        // What a producer waits with may still be taken in the last moment.
        let is_right = |outcome: &Result<(), Error>| matches!(outcome, Ok(()) | Err(Error::Closed));
        all_waits_ended_by(event, is_right)
    });
}

#[test]
fn servers_are_exchanged_while_rows_flow() {
    let dir = loadgen::scratch();
    let [first, second] = [free_address(), free_address()];
    let old = Sink::start(SinkConfig {
        listen: first,
        ..SinkConfig::default()
    });
    let old = old.unwrap();
    let engine = connect(dir.path(), first, "close_flush_timeout_millis=30000;");
    let mut producer = engine.producer().unwrap();
    fill(&mut producer, 0);
    producer.publish().unwrap();
    engine.wait_acked(PATIENCE).unwrap();
    let sink = serve(dir.path(), second, Duration::ZERO);
    let start = Instant::now();
    engine.reconfigure(&format!("addr={second};")).unwrap();
    for n in 0..50 {
        fill(&mut producer, n);
        producer.publish().unwrap();
    }
    engine.wait_acked(PATIENCE).unwrap();
    println!("another server: {:?}", start.elapsed());
    let endpoint = engine.status().shards[0].endpoint.clone();
    assert_eq!(endpoint, Some(second.to_string()));
    // The present server stays connected when others are added or taken away.
    let connects = engine.stats().reconnects_succeeded;
    for list in [format!("addr={first},{second};"), format!("addr={second};")] {
        engine.reconfigure(&list).unwrap();
        fill(&mut producer, 50 + engine.stats().rows_acked - 51);
        producer.publish().unwrap();
        engine.wait_acked(PATIENCE).unwrap();
    }
    assert_eq!(engine.stats().reconnects_succeeded, connects);
    engine.close().unwrap();
    assert_eq!(old.stop().messages, 1, "the first row only");
    drop(sink.stop());
    check_stored(dir.path(), 52);
}

#[test]
fn what_cannot_be_changed_is_refused_and_changes_nothing() {
    let dir = loadgen::scratch();
    let engine = connect(dir.path(), free_address(), LONG);
    let refused = engine.reconfigure("sf_max_total_bytes=1m;sf_durability=flush;");
    let Err(Error::Config { key, reason }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(key, "sf_durability");
    assert!(reason.contains("close it and connect anew"), "{reason}");
    assert_eq!(engine.status().shards[0].slot_bytes_max, CAP_BYTES);
}
