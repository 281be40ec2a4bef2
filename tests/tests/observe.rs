//! What can be seen of an engine from outside: status, handlers, refusals, gauges over restarts.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay::{
    ConnectionChange, Engine, Error, Policy, Producer, ShardState, Stage, Stats, Status, TableRows,
    TimestampNanos,
};
use forebay_loadgen::sink::{Script, Sink, SinkConfig};
use forebay_tests::address::free_address;
use forebay_wire::upgrade::{FixedReply, UpgradePolicy};

mod loadgen;

const PATIENCE: Duration = Duration::from_mins(3);

fn connect(address: SocketAddr, more: &str) -> String {
    format!(
        "ws::addr={address};initial_connect_retry=async;\
         reconnect_initial_backoff_millis=1;reconnect_max_backoff_millis=20;pin=off;{more}"
    )
}

fn row(producer: &mut Producer, table: &str, n: i64, text: &str) {
    producer.table(table).unwrap().column_i64("n", n).unwrap();
    producer.column_str("v", text).unwrap();
    producer.at(TimestampNanos(n + 1)).unwrap();
}

/// Looks until `done` holds.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn rows_of(engine: &Engine, table: &str) -> TableRows {
    let tables = engine.tables();
    let found = tables.into_iter().find(|rows| rows.table == table);
    found.unwrap_or_else(|| panic!("{table} is not counted"))
}

/// A server with faults.
fn scripted(listen: SocketAddr, script: &str) -> Sink {
    Sink::start(SinkConfig {
        listen,
        ..SinkConfig::scripted(script.parse::<Script>().unwrap())
    })
    .unwrap()
}

#[test]
fn a_status_tells_an_outage_from_a_fault_and_names_what_waits() {
    let dir = loadgen::scratch();
    let address = free_address();
    let more = format!("sf_dir={};", dir.path().join("sf").display());
    let engine = Engine::connect(&connect(address, &more)).expect("async");
    let mut producer = engine.producer().unwrap();
    for n in 0..10 {
        row(&mut producer, "t", n, "x");
    }
    producer.flush().unwrap();
    wait_until("attempts", || {
        let shard = &engine.status().shards[0];
        shard.attempts >= 3 && shard.oldest_unacked.is_some()
    });
    let status = engine.status();
    assert!(status.ready, "rows are journaled: {:?}", status.reasons);
    assert_eq!((status.terminal, status.publishes.accepted), (None, 1));
    let shard = &status.shards[0];
    assert!(
        matches!(shard.state, ShardState::Running | ShardState::Parked),
        "{shard:?}"
    );
    assert!(shard.endpoint.is_none() && shard.outage.is_some());
    assert!(shard.last_cause.contains(&address.to_string()), "{shard:?}");
    assert!(shard.oldest_unacked.is_some_and(|age| age < PATIENCE));
    assert_eq!(shard.unacked_frames, 1);
    assert!(shard.slot_bytes > 0 && shard.slot_bytes <= shard.slot_bytes_max);

    let sink = Sink::start(SinkConfig {
        listen: address,
        ..SinkConfig::default()
    })
    .unwrap();
    engine.wait_acked(PATIENCE).unwrap();
    wait_until("gauges", || {
        engine.status().shards[0].oldest_unacked.is_none()
    });
    let status = engine.status();
    let shard = &status.shards[0];
    assert_eq!((shard.outage, shard.attempts), (None, 0));
    assert_eq!((shard.unacked_frames, shard.unacked_bytes), (0, 0));
    let rows = rows_of(&engine, "t");
    assert_eq!((rows.accepted, rows.acked, rows.refused), (10, 10, 0));
    drop(producer);
    engine.close().unwrap();
    drop(sink);
}

#[test]
fn connection_events_tell_the_story_in_order_and_the_status_knows_the_server() {
    let (first, second) = (free_address(), free_address());
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let text = connect(first, "").replace("addr=", &format!("addr={second},"));
    let engine = Engine::builder(&text)
        .on_connection(move |event| tell.lock().unwrap().push(event.change.clone()))
        .connect()
        .expect("async");
    let unreachable = |change: &ConnectionChange| matches!(change, ConnectionChange::AllUnreachable { rounds, .. } if *rounds >= 2);
    wait_until("two rounds in vain", || {
        told.lock().unwrap().iter().any(unreachable)
    });
    let listen = |listen| {
        Sink::start(SinkConfig {
            listen,
            ..SinkConfig::default()
        })
        .unwrap()
    };
    let server = |address: SocketAddr| Some(address.to_string());
    let is_at = |address: SocketAddr| engine.status().shards[0].endpoint == server(address);
    let sink = listen(first);
    wait_until("connected", || is_at(first));
    sink.cut_connections();
    let again = |change: &ConnectionChange| matches!(change, ConnectionChange::Reconnected { .. });
    wait_until("again", || told.lock().unwrap().iter().any(again));
    let other = listen(second);
    sink.stop();
    wait_until("failed over", || is_at(second));
    engine.close().unwrap();
    drop(other);
    // What was told, without the attempts in vain between.
    let told = told.lock().unwrap();
    let story: Vec<_> = told
        .iter()
        .filter_map(|change| match change {
            ConnectionChange::Connected { endpoint } => Some(format!("connected {endpoint}")),
            ConnectionChange::Disconnected { endpoint, .. } => Some(format!("lost {endpoint}")),
            ConnectionChange::Reconnected { endpoint } => Some(format!("again {endpoint}")),
            ConnectionChange::FailedOver { from, to } => Some(format!("{from} to {to}")),
            _ => None,
        })
        .collect();
    let expected = [
        format!("connected {first}"),
        format!("lost {first}"),
        format!("again {first}"),
        format!("lost {first}"),
        format!("{first} to {second}"),
    ];
    assert_eq!(story[..5], expected, "{told:#?}");
    let attempts = told
        .iter()
        .filter(|change| matches!(change, ConnectionChange::AttemptFailed { .. }));
    assert!(attempts.count() >= 4, "two rounds of two servers");
}

#[test]
fn connection_events_name_the_shard_whose_connection_it_is() {
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let engine = Engine::builder(&connect(sink.addr(), "shards=3;"))
        .on_connection(move |event| tell.lock().unwrap().push(event.clone()))
        .connect()
        .expect("async");
    let shards_that = |wanted: fn(&ConnectionChange) -> bool| {
        let told = told.lock().unwrap();
        let those = told.iter().filter(|event| wanted(&event.change));
        let mut shards: Vec<_> = those.map(|event| event.shard).collect();
        shards.sort_unstable();
        shards
    };
    let connected =
        |change: &ConnectionChange| matches!(change, ConnectionChange::Connected { .. });
    wait_until("all are", || shards_that(connected).len() == 3);
    assert_eq!(shards_that(connected), [0, 1, 2], "each once");
    let endpoint = sink.addr().to_string();
    for shard in engine.status().shards {
        assert_eq!(shard.endpoint.as_ref(), Some(&endpoint), "{}", shard.shard);
    }
    sink.cut_connections();
    let again = |change: &ConnectionChange| matches!(change, ConnectionChange::Reconnected { .. });
    wait_until("all are again", || shards_that(again).len() == 3);
    assert_eq!(shards_that(again), [0, 1, 2], "each once");
    engine.close().unwrap();
}

#[test]
fn a_blocked_handler_holds_up_neither_delivery_nor_close() {
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let (release, released) = std::sync::mpsc::sync_channel::<()>(0);
    let entered = Arc::new(AtomicBool::new(false));
    let enter = Arc::clone(&entered);
    let engine = Engine::builder(&connect(
        sink.addr(),
        "connection_listener_inbox_capacity=1;",
    ))
    .on_connection(move |_| {
        enter.store(true, Ordering::SeqCst);
        let _ = released.recv();
    })
    .connect()
    .expect("async");
    wait_until("blocked", || entered.load(Ordering::SeqCst));
    let mut producer = engine.producer().unwrap();
    for n in 0..20 {
        row(&mut producer, "t", n, "x");
        let receipt = producer.publish().unwrap();
        receipt.wait(Stage::Acked, PATIENCE).unwrap();
        sink.cut_connections();
    }
    let stats = engine.stats();
    assert!(
        stats.connection_events_dropped > 0,
        "one place for many events"
    );
    assert_eq!(stats.rows_acked, 20);
    drop(producer);
    let start = Instant::now();
    engine.close().unwrap();
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "close took {took:?}");
    drop(release);
}

#[test]
fn a_terminal_error_is_told_once_and_ends_the_readiness() {
    let sink = Sink::start(SinkConfig {
        upgrade: UpgradePolicy {
            fixed: Some(FixedReply {
                status: 401,
                headers: Vec::new(),
            }),
            ..UpgradePolicy::default()
        },
        ..SinkConfig::default()
    })
    .unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let engine = Engine::builder(&connect(sink.addr(), ""))
        .on_error(move |error| {
            if error.policy == Policy::Terminal {
                tell.lock().unwrap().push(error.clone());
            }
        })
        .connect()
        .expect("async");
    wait_until("told", || !told.lock().unwrap().is_empty());
    let status = engine.status();
    assert!(!status.ready && status.reasons[0].starts_with("shard 0: "));
    assert_eq!(status.shards[0].state, ShardState::Failed);
    let terminal = status.terminal.expect("latched");
    assert!(terminal.contains("401"), "{terminal}");
    assert_eq!(engine.recent_errors().len(), 1);
    assert!(matches!(engine.producer(), Err(Error::Peer { .. })));
    let _ = engine.close();
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].endpoint, sink.addr().to_string());
}

/// Field report refusals-not-counted.
#[test]
fn refusals_are_counted_by_cause_and_add_up() {
    // A ring of 4 KiB and an engine that is full soon: nobody listens at first.
    let address = free_address();
    let more = "intake_ring_bytes=4k;sf_append_deadline_millis=0;sf_max_segment_bytes=64k;\
                sf_max_total_bytes=128k;max_frame_rejections=1000;close_flush_timeout_millis=0;";
    let engine = Engine::connect(&connect(address, more)).expect("async");
    let mut producer = engine.producer().unwrap();
    let text = "x".repeat(1000);
    let (mut accepted, mut refused, mut refused_full) = (0, 0, 0);
    row(&mut producer, "t", 0, &text);
    while refused_full < 100 {
        match producer.publish() {
            Ok(_) => {
                accepted += 1;
                row(&mut producer, "t", accepted, &text);
            }
            // The shard may not have come to the ring yet.
            Err(Error::Backpressure { .. }) if !engine.status().shards[0].is_full => {
                std::thread::sleep(Duration::from_millis(1));
                refused += 1;
                assert!(refused < 30_000, "never full");
            }
            Err(Error::Backpressure { .. }) => {
                refused += 1;
                refused_full += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    producer.clear();
    row(&mut producer, "big", 0, &"x".repeat(3000));
    for _ in 0..50 {
        assert!(matches!(
            producer.publish(),
            Err(Error::BatchTooLarge { .. })
        ));
    }
    producer.clear();
    let status = engine.status();
    assert!(!status.ready && status.shards[0].is_full, "{status:?}");
    assert_eq!(status.shards[0].full_in, Some(Duration::ZERO));
    let publishes = status.publishes;
    assert_eq!((publishes.timed_out, publishes.oversize), (refused, 50));
    assert_eq!(publishes.accepted, u64::try_from(accepted).unwrap());
    assert_eq!(publishes.ended, 0);
    let (t, big) = (rows_of(&engine, "t"), rows_of(&engine, "big"));
    assert_eq!((t.accepted, t.refused), (publishes.accepted, refused));
    assert_eq!((big.accepted, big.refused), (0, 50));
    assert!(matches!(engine.close(), Err(Error::NotDrained { .. })));

    // The third kind: the server's.
    let sink = scripted(address, "message 0 times 10 -> nack 0x09 later");
    let engine = Engine::connect(&connect(address, more)).expect("async");
    let mut producer = engine.producer().unwrap();
    row(&mut producer, "t", 0, "x");
    let receipt = producer.publish().unwrap();
    receipt.wait(Stage::Acked, PATIENCE).unwrap();
    let status = engine.status();
    let publishes = status.publishes;
    assert_eq!(status.stats.server_errors, 10);
    assert_eq!((publishes.timed_out, publishes.oversize), (0, 0));
    assert_eq!(publishes.accepted, 1);
    assert_eq!(rows_of(&engine, "t").acked, 1);
    drop(producer);
    engine.close().unwrap();
    assert_eq!(sink.stop().rows, 1);
}

#[test]
fn invalid_rows_are_counted_and_left_out() {
    let engine =
        Engine::connect(&connect(free_address(), "close_flush_timeout_millis=0;")).expect("async");
    let mut producer = engine.producer().unwrap();
    row(&mut producer, "t", 0, "x");
    producer.table("t").unwrap();
    assert!(matches!(
        producer.column_f64("n", 1.0),
        Err(Error::Row { .. })
    ));
    producer.publish().unwrap();
    assert_eq!(engine.stats().rows_invalid, 1);
    let rows = rows_of(&engine, "t");
    assert_eq!((rows.accepted, rows.refused), (1, 1));
    producer.clear();
    drop(producer);
    assert!(engine.close().is_err(), "nobody confirmed the row");
}

/// Field report alive-but-dead, as far as an engine of one shard can show it.
#[test]
fn a_shard_that_panics_is_named_and_nobody_hangs() {
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let tap = Box::new(|_: &[u8]| panic!("injected"));
    let engine = Engine::connect_tapped(&connect(sink.addr(), ""), tap).expect("async");
    wait_until("the panic", || !engine.status().ready);
    let status = engine.status();
    assert_eq!(status.shards[0].state, ShardState::Panicked);
    assert!(
        status.reasons[0].starts_with("shard 0: ") && status.reasons[0].contains("panicked"),
        "{:?}",
        status.reasons
    );
    assert!(matches!(engine.producer(), Err(Error::Poisoned { .. })));
    assert_eq!(engine.recent_errors().len(), 1);
    assert!(engine.close().is_err());
}

#[test]
fn a_handler_may_close_its_own_engine() {
    let sink = Sink::start(SinkConfig {
        upgrade: UpgradePolicy {
            fixed: Some(FixedReply {
                status: 403,
                headers: Vec::new(),
            }),
            ..UpgradePolicy::default()
        },
        ..SinkConfig::default()
    })
    .unwrap();
    let slot = Arc::new(Mutex::new(None::<Engine>));
    let (theirs, closed) = (Arc::clone(&slot), Arc::new(AtomicBool::new(false)));
    let done = Arc::clone(&closed);
    let held = slot.lock().unwrap();
    let engine = Engine::builder(&connect(sink.addr(), ""))
        .on_error(move |_| {
            if let Some(engine) = theirs.lock().unwrap().take() {
                let _ = engine.close();
                done.store(true, Ordering::SeqCst);
            }
        })
        .connect()
        .expect("async");
    let mut held = held;
    *held = Some(engine);
    drop(held);
    wait_until("closed", || closed.load(Ordering::SeqCst));
}

/// Every gauge, and every counter, is far from a wrapped number.
fn check_gauges(status: &Status, unacked: u64) {
    for (name, value) in status.stats.iter() {
        assert!(value < 1 << 40, "{name} is {value}");
    }
    assert_eq!(status.shards[0].unacked_frames, unacked);
    assert_eq!(status.shards[0].unacked_bytes > 0, unacked > 0);
    assert_eq!(status.shards[0].oldest_unacked.is_some(), unacked > 0);
}

fn not_falling(before: &Stats, now: &Stats) {
    let gauges = [
        "unacked_frames",
        "unacked_bytes",
        "disk_bytes",
        "connected",
        "drainers_active",
    ];
    for ((name, before), (_, now)) in before.iter().zip(now.iter()) {
        assert!(
            now >= before || gauges.contains(&name),
            "{name} fell from {before} to {now}"
        );
    }
}

/// Publishes `frames` while nobody listens, restarts `restarts` times, then lets a server take
/// all; looks at the gauges all along.
fn restarts(dir: &Path, frames: u64, restarts: u64) {
    let address = free_address();
    let more = format!(
        "sf_dir={};sf_max_segment_bytes=64k;close_flush_timeout_millis=0;",
        dir.display()
    );
    let text = connect(address, &more);
    for run in 0..=restarts {
        let engine = Engine::connect(&text).expect("async");
        let mut producer = engine.producer().unwrap();
        if run == 0 {
            for n in 0..frames {
                row(&mut producer, "t", i64::try_from(n).unwrap(), "some text");
                producer.publish().unwrap();
            }
            producer.flush().unwrap();
        }
        wait_until("gauges", || {
            let shard = &engine.status().shards[0];
            shard.unacked_frames == frames && shard.oldest_unacked.is_some() == (frames > 0)
        });
        check_gauges(&engine.status(), frames);
        if run < restarts {
            drop(producer);
            let outcome = engine.close();
            assert_eq!(outcome.is_err(), frames > 0, "{outcome:?}");
            continue;
        }
        let before = engine.stats();
        // OKs come twice, late, and for connections that end, so that frames come again.
        let faults = format!(
            "message 0.. -> duplicate-ok\nmessage 5 -> hold 5ms\nmessage {} times 3 -> eof",
            frames / 3 + 1
        );
        let sink = scripted(address, &faults);
        engine.wait_acked(PATIENCE).unwrap();
        wait_until("gauges", || {
            engine.status().shards[0].oldest_unacked.is_none()
        });
        check_gauges(&engine.status(), 0);
        not_falling(&before, &engine.stats());
        assert_eq!(engine.stats().fsn_acked, frames);
        drop(producer);
        engine.close().unwrap();
        drop(sink);
    }
}

/// Field report metric-underflow.
#[test]
fn gauges_never_wrap_over_restarts() {
    let dir = loadgen::scratch();
    for (name, frames) in [("none", 0), ("one", 1), ("many", 300)] {
        restarts(&dir.path().join(name), frames, 2);
    }
}

#[test]
fn rows_per_table_add_up_over_producers_and_restarts_of_the_connection() {
    let sink = Sink::start(SinkConfig {
        drop_after: Some(40),
        ..SinkConfig::default()
    })
    .unwrap();
    let engine = Engine::connect(&connect(sink.addr(), "max_frame_rejections=1000;")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut producer = engine.producer().unwrap();
            scope.spawn(move || {
                for n in 0..200 {
                    row(&mut producer, "a", n, "x");
                    row(&mut producer, "b", n, "x");
                    row(&mut producer, "a", n, "x");
                    producer.publish().unwrap();
                }
            });
        }
    });
    engine.wait_acked(PATIENCE).unwrap();
    let (a, b) = (rows_of(&engine, "a"), rows_of(&engine, "b"));
    assert_eq!((a.accepted, a.acked), (1200, 1200));
    assert_eq!((b.accepted, b.acked), (600, 600));
    assert_eq!(engine.status().publishes.accepted, 600);
    engine.close().unwrap();
}

#[test]
fn the_environment_names_the_string_or_the_error_does() {
    // No other test of this process reads the variable, and it is never set.
    let error = Engine::from_env().expect_err("not set");
    assert!(error.to_string().contains("QDB_CLIENT_CONF"), "{error}");
}

#[test]
fn dead_letters_are_told_and_counted_apart_from_what_was_acked() {
    let dir = loadgen::scratch();
    let sink = scripted(free_address(), "table bad -> nack 0x03 \"no such column\"");
    let more = format!(
        "on_schema_error=dead_letter;rejected_dir={};",
        dir.path().join("kept").display()
    );
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let engine = Engine::builder(&connect(sink.addr(), &more))
        .on_error(move |error| tell.lock().unwrap().push(error.policy))
        .connect()
        .expect("async");
    let mut producer = engine.producer().unwrap();
    for n in 0..3 {
        row(&mut producer, "good", n, "x");
    }
    for n in 0..2 {
        row(&mut producer, "bad", n, "x");
    }
    producer.publish().unwrap();
    engine.wait_acked(PATIENCE).unwrap();
    let (good, bad) = (rows_of(&engine, "good"), rows_of(&engine, "bad"));
    assert_eq!((good.accepted, good.acked, good.dead_lettered), (3, 3, 0));
    assert_eq!((bad.accepted, bad.acked, bad.dead_lettered), (2, 0, 2));
    drop(producer);
    engine.close().unwrap();
    assert!(told.lock().unwrap().contains(&Policy::Abandoned));
    assert_eq!(sink.stop().rows, 3);
}
