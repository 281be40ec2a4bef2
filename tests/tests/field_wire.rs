//! What went wrong in the field between sender and server: one test per report, named after its id.
//! Reports with a test elsewhere: docs/testing.md.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forebay::{Engine, Error, Producer, Stage, TimestampMicros, TimestampNanos};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_wire::upgrade::UpgradePolicy;
use peer::{Peer, Sent, fill};

mod loadgen;
mod peer;

const PATIENCE: Duration = Duration::from_mins(3);
const MIB: u64 = 1 << 20;

fn conf(peer: &Peer, dir: &tempfile::TempDir, more: &str) -> String {
    format!(
        "ws::addr={};sf_dir={};initial_connect_retry=async;pin=off;\
         close_flush_timeout_millis=20000;reconnect_initial_backoff_millis=5;\
         reconnect_max_backoff_millis=20;{more}",
        peer.addr(),
        dir.path().join("sf").display()
    )
}

fn capped(bytes: u64) -> UpgradePolicy {
    UpgradePolicy {
        max_batch_size: Some(bytes),
        ..UpgradePolicy::default()
    }
}

/// Publishes a row and waits until it is acked.
fn deliver(producer: &mut Producer, n: u64) {
    fill(producer, n, 0);
    let receipt = producer.publish().expect("room");
    receipt.wait(Stage::Acked, PATIENCE).expect("acked");
}

#[test]
fn catchup_larger_than_cap() {
    let dir = loadgen::scratch();
    let largest = Arc::new(AtomicUsize::new(0));
    let bytes = Arc::new(AtomicUsize::new(0));
    let (max, sum) = (Arc::clone(&largest), Arc::clone(&bytes));
    let peer = Peer::start(move |number, conn| {
        if number == 0 {
            conn.upgrade(&UpgradePolicy::default());
            while let Some(n) = conn.next_row() {
                conn.ok_all();
                if n == 60 {
                    return conn.fin();
                }
            }
            return;
        }
        conn.upgrade(&capped(MIB));
        while let Some(sent) = conn.next() {
            max.fetch_max(conn.last.len(), Ordering::AcqRel);
            match sent {
                Sent::CatchUp => {
                    sum.fetch_add(conn.last.len(), Ordering::AcqRel);
                }
                Sent::Row(_) => {
                    conn.ok_all();
                }
                _ => {}
            }
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, "")).expect("async");
    let mut producer = engine.producer().expect("open");
    // 3 MiB of symbols in frames of 50 KiB.
    for n in 0..60u64 {
        for part in 0..49u64 {
            let symbol = format!("{n:04}{part:04}{}", "s".repeat(1016));
            producer.table("t").unwrap().symbol("sym", &symbol).unwrap();
            producer.at(TimestampNanos(1)).unwrap();
        }
        deliver(&mut producer, n);
    }
    fill(&mut producer, 60, 0);
    producer.publish().expect("room");
    while peer.connections() < 2 {
        std::thread::yield_now();
    }
    deliver(&mut producer, 61);
    engine.close().expect("drained");
    let (largest, bytes) = (
        largest.load(Ordering::Acquire),
        bytes.load(Ordering::Acquire),
    );
    assert!(largest as u64 <= MIB, "{largest} bytes in a message");
    assert!(bytes as u64 > 59 * 49 * 1024, "{bytes} bytes of catch-up");
    assert_eq!(peer.connections(), 2);
}

#[test]
fn a_symbol_larger_than_the_cap_waits_for_a_larger_one() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|number, conn| {
        conn.upgrade(&match number {
            0 => UpgradePolicy::default(),
            1..4 => capped(100_000),
            _ => capped(MIB),
        });
        while let Some(n) = conn.next_row() {
            conn.ok_all();
            if number == 0 && n == 1 {
                return conn.fin();
            }
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, "")).expect("async");
    let mut producer = engine.producer().expect("open");
    let symbol = "s".repeat(200_000);
    producer.table("t").unwrap().symbol("sym", &symbol).unwrap();
    producer.at(TimestampNanos(1)).unwrap();
    deliver(&mut producer, 0);
    deliver(&mut producer, 1);
    while peer.connections() < 2 {
        std::thread::yield_now();
    }
    fill(&mut producer, 2, 0);
    let receipt = producer.publish().expect("room");
    receipt.wait(Stage::Acked, PATIENCE).expect("delivered");
    assert_eq!(engine.stats().blocked_by_cap, 3);
    assert_eq!(peer.connections(), 5);
    engine.close().expect("drained");
}

#[test]
fn oversize_batch_local() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|_, conn| {
        conn.upgrade(&capped(MIB));
        conn.serve();
    });
    let more = "intake_ring_bytes=64m;sf_max_segment_bytes=64m;sf_max_total_bytes=256m;";
    let engine = Engine::connect(&conf(&peer, &dir, more)).expect("async");
    let mut producer = engine.producer().expect("open");
    deliver(&mut producer, 0);
    let mut refused = 0;
    for (n, bytes) in (1..).zip([MIB - 1000, MIB, MIB + 1, 15 * MIB]) {
        fill(&mut producer, n, usize::try_from(bytes).unwrap());
        match producer.publish() {
            Ok(receipt) => receipt.wait(Stage::Acked, PATIENCE).expect("acked"),
            Err(Error::BatchTooLarge {
                batch_bytes,
                limit_bytes,
                ..
            }) => {
                assert_eq!(limit_bytes, MIB, "the server's");
                assert!(batch_bytes >= bytes, "{batch_bytes}");
                producer.clear();
                refused += 1;
            }
            Err(error) => panic!("{bytes}: {error}"),
        }
    }
    assert_eq!(refused, 3);
    deliver(&mut producer, 9);
    assert_eq!(peer.connections(), 1);
    assert_eq!(peer.heard()[0].rows(), [0, 1, 9]);
    engine.close().expect("drained");
}

#[test]
fn nack_then_silence() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|number, conn| {
        conn.upgrade(&UpgradePolicy::default());
        while let Some(n) = conn.next_row() {
            if number == 0 && n == 3 {
                let seq = conn.messages - 1;
                conn.refuse(0x06, seq);
                return conn.listen_to_the_end();
            }
            conn.ok_all();
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, "")).expect("async");
    let mut producer = engine.producer().expect("open");
    let start = Instant::now();
    for n in 0..11 {
        fill(&mut producer, n, 0);
        producer.publish().expect("room");
    }
    engine.wait_acked(PATIENCE).expect("delivered");
    assert!(start.elapsed() < Duration::from_secs(5), "at once");
    let again = &peer.heard()[1].rows();
    assert_eq!(*again, (3..11).collect::<Vec<_>>());
    engine.close().expect("drained");
}

#[test]
fn poison_false_positive() {
    // Six refusals within a moment, then OK; then refusals without end.
    for (refusals, window) in [(6, 5000), (usize::MAX, 600)] {
        let dir = loadgen::scratch();
        let peer = Peer::start(move |number, conn| {
            conn.upgrade(&UpgradePolicy::default());
            if number >= refusals {
                return conn.serve();
            }
            if conn.next_row().is_some() {
                let seq = conn.messages - 1;
                conn.refuse(0x09, seq);
                conn.listen_to_the_end();
            }
        });
        let more = format!("poison_min_escalation_window_millis={window};max_frame_rejections=4;");
        let engine = Engine::connect(&conf(&peer, &dir, &more)).expect("async");
        let mut producer = engine.producer().expect("open");
        fill(&mut producer, 0, 0);
        let start = Instant::now();
        let receipt = producer.publish().expect("room");
        let outcome = receipt.wait(Stage::Acked, PATIENCE);
        let elapsed = start.elapsed();
        if refusals == 6 {
            outcome.expect("a burst is no poison");
            assert_eq!(engine.stats().server_errors, 6);
            engine.close().expect("drained");
        } else {
            let error = outcome.expect_err("both limits were passed");
            assert!(
                error.to_string().contains("max_frame_rejections"),
                "{error}"
            );
            assert!(elapsed >= Duration::from_millis(600), "{elapsed:?}");
            let refused = engine.stats().server_errors;
            assert!(refused >= 4, "{refused}");
            engine.close().expect_err("the row is left");
        }
    }
}

#[test]
fn schema_mismatch_blocks() {
    let dir = loadgen::scratch();
    // Nothing is refused before all rows are published.
    let published = Arc::new(AtomicBool::new(false));
    let may_refuse = Arc::clone(&published);
    let peer = Peer::start(move |_, conn| {
        conn.upgrade(&UpgradePolicy::default());
        while let Some(n) = conn.next_row() {
            if n == 0 {
                let start = Instant::now();
                while !may_refuse.load(Ordering::Acquire) && start.elapsed() < PATIENCE {
                    std::thread::yield_now();
                }
                let seq = conn.messages - 1;
                conn.refuse(0x03, seq);
                return conn.listen_to_the_end();
            }
            conn.ok_all();
        }
    });
    let run = |rows: std::ops::Range<u64>, more: &str| {
        let engine = Engine::connect(&conf(&peer, &dir, more)).expect("async");
        let mut producer = engine.producer()?;
        for n in rows {
            fill(&mut producer, n, 0);
            producer.publish()?;
        }
        published.store(true, Ordering::Release);
        engine.wait_acked(PATIENCE)?;
        assert!(engine.close().is_ok());
        Ok::<(), Error>(())
    };
    for rows in [0..3, 3..3] {
        let error = run(rows, "").expect_err("terminal, in every run");
        let text = error.to_string();
        assert!(text.contains("SCHEMA_MISMATCH"), "{text}");
    }
    let bytes: u64 = std::fs::read_dir(dir.path().join("sf/default"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().extension().is_some_and(|name| name == "sfa"))
        .map(|entry| entry.metadata().unwrap().len())
        .sum();
    assert!(bytes > 0, "the frames are still there");
    let before = peer.connections();
    run(3..5, "on_schema_error=dead_letter;").expect("the others flow");
    let heard = peer.heard();
    let rows: Vec<_> = heard[before..]
        .iter()
        .flat_map(peer::Heard::rows)
        .filter(|n| *n > 0)
        .collect();
    assert_eq!(rows[rows.len() - 4..], [1, 2, 3, 4]);
    let kept = std::fs::read_dir(dir.path().join("sf/.rejected")).unwrap();
    assert_eq!(kept.count(), 1, "and row 0 is kept");
}

/// Field report `dict-cap`, with a cap of 1,000: the next symbol is refused with an error of its own
/// and uses up nothing, also on a new connection, and old ones are taken. Once everything is acked
/// there is room again.
#[test]
fn dict_cap() {
    const CAP: u64 = 1000;
    let dir = loadgen::scratch();
    let acking = Arc::new(AtomicUsize::new(0));
    let may_ack = Arc::clone(&acking);
    let peer = Peer::start(move |number, conn| {
        conn.upgrade(&UpgradePolicy::default());
        while let Some(n) = conn.next_row() {
            if may_ack.load(Ordering::Acquire) > 0 {
                conn.ok_all();
            } else if number == 0 && n == CAP {
                return conn.fin();
            }
        }
    });
    let engine =
        Engine::connect(&conf(&peer, &dir, "intake=memory;symbol_dict_max=1000;")).expect("async");
    let mut producer = engine.producer().expect("open");
    for n in 0..CAP {
        fill(&mut producer, n, 0);
        producer.flush().expect("written");
    }
    let old = |producer: &mut Producer, n: u64| {
        producer.table("t").unwrap().symbol("sym", "S7").unwrap();
        producer
            .column_str("v", &format!("number:{n:012}"))
            .unwrap();
        producer.at(TimestampNanos(1)).unwrap();
        producer.flush().expect("written");
    };
    let refused = |producer: &mut Producer| {
        let before = engine.stats();
        let new = producer.table("t").unwrap().symbol("sym", "one more");
        let error = new.map(drop).expect_err("no room");
        assert!(
            matches!(
                error,
                Error::SymbolsFull {
                    symbols_max: 1000,
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.is_retryable() && !error.is_fatal_for_slot());
        assert_eq!(producer.rows(), 0, "its row is left out");
        let after = engine.stats();
        assert_eq!((after.symbols, after.fsn_next), (CAP, before.fsn_next));
    };
    refused(&mut producer);
    old(&mut producer, CAP);
    refused(&mut producer);
    while peer.connections() < 2 {
        std::thread::yield_now();
    }
    refused(&mut producer);
    old(&mut producer, CAP + 1);
    let reasons = engine.status().reasons;
    assert!(reasons[0].contains("symbol_dict_max"), "{reasons:?}");
    // The server lets go of what it holds with the next row.
    acking.store(1, Ordering::Release);
    old(&mut producer, CAP + 2);
    engine.wait_acked(PATIENCE).expect("delivered");
    while engine.stats().symbol_epochs == 0 {
        std::thread::yield_now();
    }
    fill(&mut producer, CAP + 3, 0);
    let receipt = producer.publish().expect("room");
    receipt.wait(Stage::Acked, PATIENCE).expect("delivered");
    assert!(engine.status().ready, "{:?}", engine.status().reasons);
    engine.close().expect("drained");
    let last = peer.heard().pop().expect("connections");
    assert_eq!(last.sent[0], Sent::Row(CAP + 3), "nothing of the old ids");
}

/// Field report `timestamp-unit`: the unit is part of the type, units are not mixed in a column, and
/// what is out of range costs its row and nothing else.
#[test]
fn timestamp_unit() {
    const AT: i64 = 1_700_000_000_123_456_789;
    let dir = loadgen::scratch();
    let store = dir.path().join("store");
    let sink = Sink::start(SinkConfig {
        depth: Depth::Decode,
        strict: true,
        store: Some(store.clone()),
        ..SinkConfig::default()
    })
    .unwrap();
    let text = format!(
        "ws::addr={};initial_connect_retry=async;pin=off;",
        sink.addr()
    );
    let engine = Engine::connect(&text).expect("async");
    let mut producer = engine.producer().expect("open");
    let begin = |producer: &mut Producer, table: &str| {
        producer.table(table).unwrap().column_i64("n", 1).unwrap();
    };
    let refusal = |outcome: Result<(), Error>| match outcome {
        Err(Error::Row { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    // The same moment in each unit.
    begin(&mut producer, "ns");
    producer.column_date("ms", AT / 1_000_000).unwrap();
    producer
        .column_ts("us", TimestampMicros(AT / 1000))
        .unwrap();
    producer.column_ts("ns", TimestampNanos(AT)).unwrap();
    producer.at(TimestampNanos(AT)).expect("nanoseconds");
    begin(&mut producer, "us");
    producer
        .at(TimestampMicros(AT / 1000))
        .expect("microseconds");
    // Any number is a time in a column that is not the designated one.
    begin(&mut producer, "ns");
    producer.column_ts("us", TimestampMicros(-1)).unwrap();
    producer.column_ts("ns", TimestampNanos(i64::MAX)).unwrap();
    producer
        .at(TimestampNanos(i64::MAX))
        .expect("the year 2262");
    for (nanos, micros) in [(-1, -1), (i64::MIN, i64::MIN)] {
        begin(&mut producer, "ns");
        assert!(refusal(producer.at(TimestampNanos(nanos))).contains("before 1970"));
        begin(&mut producer, "us");
        assert!(refusal(producer.at(TimestampMicros(micros))).contains("before 1970"));
    }
    // One column, one unit: in the designated column and in others.
    begin(&mut producer, "ns");
    let mixed = refusal(producer.at(TimestampMicros(AT / 1000)));
    assert!(mixed.contains("Timestamp"), "{mixed}");
    begin(&mut producer, "ns");
    let mixed = producer.column_ts("us", TimestampNanos(AT)).map(drop);
    assert!(refusal(mixed).contains("Timestamp"));
    begin(&mut producer, "us");
    assert!(refusal(producer.at(TimestampNanos(AT))).contains("Timestamp"));
    // The queue moves on, without the rows that were left out.
    begin(&mut producer, "us");
    producer.at(TimestampMicros(0)).expect("1970");
    assert_eq!(producer.rows(), 4);
    let receipt = producer.publish().expect("room");
    receipt.wait(Stage::Acked, PATIENCE).expect("delivered");
    assert_eq!(engine.stats().rows_invalid, 7);
    engine.close().expect("drained");
    sink.stop();
    let rows = |table: &str| {
        let text = std::fs::read_to_string(store.join(format!("{table}.ndjson"))).unwrap();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        rows("ns"),
        [
            r#"{"n":1,"ms":1700000000123,"us":1700000000123456,"ns":1700000000123456789,"timestamp":1700000000123456789}"#,
            r#"{"n":1,"ms":null,"us":-1,"ns":9223372036854775807,"timestamp":9223372036854775807}"#,
        ]
    );
    assert_eq!(
        rows("us"),
        [
            r#"{"n":1,"timestamp":1700000000123456}"#,
            r#"{"n":1,"timestamp":0}"#
        ]
    );
}

#[test]
fn partial_frame_then_reuse() {
    // A client that went on in the middle of a frame would be dropped for an illegal header: the
    // peer panics over one.
    let dir = loadgen::scratch();
    let peer = Peer::start(|number, conn| {
        conn.upgrade(&UpgradePolicy::default());
        if number % 2 == 0 && number < 20 {
            // Some bytes are read, the rest of a large frame never is.
            conn.read_some(100 + number * 1000);
            return conn.reset();
        }
        while conn.next_row().is_some() {
            conn.ok_all();
            if number < 20 {
                return conn.reset();
            }
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, "")).expect("async");
    let mut producer = engine.producer().expect("open");
    for n in 0..40 {
        fill(&mut producer, n, 200_000);
        producer.publish().expect("room");
    }
    engine.wait_acked(PATIENCE).expect("delivered");
    engine.close().expect("drained");
    assert!(peer.connections() > 20);
}

#[test]
fn sigterm_with_backlog_against_a_server_that_never_upgrades() {
    let dir = loadgen::scratch();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = Peer::listen(listener, |_, conn| conn.listen_raw());
    let text = conf(&peer, &dir, "").replace("=20000", "=500");
    let engine = Engine::connect(&text).expect("async");
    let mut producer = engine.producer().expect("open");
    for n in 0..1000 {
        fill(&mut producer, n, 0);
        producer.publish().expect("room");
    }
    producer.flush().expect("written");
    let start = Instant::now();
    let error = engine.close().expect_err("nobody took them");
    let elapsed = start.elapsed();
    assert!(
        matches!(error, Error::NotDrained { frames: 1000, bytes, untaken: 0, .. } if bytes > 0),
        "{error}"
    );
    assert!(elapsed >= Duration::from_millis(500), "{elapsed:?}");
    assert!(elapsed < Duration::from_secs(3), "{elapsed:?}");
}
