//! Field reports about what a caller meets, each test named after its report. Those with a test
//! elsewhere: docs/testing.md.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay::{Engine, Error, Pressure, Producer, TimestampNanos};
use forebay_loadgen::sink::{Depth, Script, Sink, SinkConfig};
use forebay_tests::address::free_address;
use forebay_wire::upgrade::UpgradePolicy;

mod loadgen;

use loadgen::PATIENCE;

const NOBODY: &str = "127.0.0.1:1";

fn conf(address: &str, dir: &Path, more: &str) -> String {
    format!(
        "ws::addr={address};sf_dir={};initial_connect_retry=async;pin=off;\
         reconnect_initial_backoff_millis=5;reconnect_max_backoff_millis=20;\
         close_flush_timeout_millis={};{more}",
        dir.join("sf").display(),
        if address == NOBODY { 0 } else { 30_000 }
    )
}

/// A server that decodes and stores below `dir`.
fn sink(dir: &Path, listen: Option<SocketAddr>, script: &str) -> Sink {
    let script: Script = script.parse().expect("a script");
    let mut config = SinkConfig::scripted(script);
    config.store = Some(dir.join("store"));
    if let Some(listen) = listen {
        config.listen = listen;
    }
    Sink::start(config).expect("listens")
}

/// A row of feed `feed`: number `n` and `bytes` bytes of text.
fn row(producer: &mut Producer, feed: &str, n: u64, bytes: usize) {
    let n = i64::try_from(n).expect("small");
    let text = "x".repeat(bytes);
    let row = producer.table("t").expect("a row");
    row.symbol("feed", feed)
        .and_then(|row| row.column_i64("n", n))
        .and_then(|row| row.column_str("v", &text))
        .expect("values");
    producer.at(TimestampNanos(n + 1)).expect("a row");
}

/// Numbers by feed, in the order in which the server stored them.
fn stored(dir: &Path) -> BTreeMap<String, Vec<u64>> {
    let text = std::fs::read_to_string(dir.join("store/t.ndjson")).unwrap_or_default();
    let mut feeds: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let feed = row["feed"].as_str().expect("a feed").to_owned();
        feeds
            .entry(feed)
            .or_default()
            .push(row["n"].as_u64().expect("a number"));
    }
    feeds
}

/// First deliveries; every later copy of a number must be of one that was sent again, in order.
fn first_deliveries(numbers: &[u64]) -> Vec<u64> {
    let mut first: Vec<u64> = Vec::new();
    for n in numbers {
        if first.last().is_none_or(|last| n > last) {
            first.push(*n);
        } else {
            assert!(first.contains(n), "{n} came late: reordered");
        }
    }
    first
}

/// The top-level message was wrong ("all values are null"); the cause was a size limit.
#[test]
fn error_hides_cause() {
    let dir = loadgen::scratch();
    let too_large = |error: Error, key: &str, most: u64| {
        let text = error.to_string();
        let Error::BatchTooLarge {
            batch_bytes,
            limit_bytes,
            limit,
            ..
        } = error
        else {
            panic!("{text}");
        };
        assert_eq!(limit_bytes, most, "{text}");
        assert!(limit.contains(key) && text.contains(limit), "{text}");
        assert!((200_000..202_000).contains(&batch_bytes), "{text}");
        assert!(text.contains(&batch_bytes.to_string()), "{text}");
        assert!(text.contains(&most.to_string()), "{text}");
    };
    // Larger than a segment, whose header and the frame's own take 32 bytes of it.
    let small = "sf_max_segment_bytes=64k;sf_max_total_bytes=128k;";
    let engine = Engine::connect(&conf(NOBODY, dir.path(), small)).expect("async");
    let mut producer = engine.producer().expect("a producer");
    row(&mut producer, "A", 1, 200_000);
    let error = producer.publish().expect_err("larger than a segment");
    too_large(error, "sf_max_segment_bytes", 65_536 - 32);
    producer.clear();
    drop(producer);
    engine.close().expect("nothing was taken");

    // Larger than what the connected server takes.
    let sink = Sink::start(SinkConfig {
        depth: Depth::Decode,
        upgrade: UpgradePolicy {
            max_batch_size: Some(50_000),
            ..UpgradePolicy::default()
        },
        ..SinkConfig::default()
    });
    let sink = sink.expect("listens");
    let engine = Engine::connect(&conf(&sink.addr().to_string(), dir.path(), "")).expect("async");
    let connected = || (engine.stats().connected == 1).then_some(());
    loadgen::wait_for("connection", connected);
    let mut producer = engine.producer().expect("a producer");
    row(&mut producer, "A", 1, 200_000);
    too_large(
        producer
            .publish()
            .expect_err("larger than the server's cap"),
        "X-QWP-Max-Batch-Size",
        50_000,
    );
    producer.clear();
    drop(producer);
    engine.close().expect("nothing was taken");

    // Larger than all there may be: another kind of error, with the key of that limit.
    let full = "sf_max_segment_bytes=1m;sf_max_total_bytes=2m;sf_append_deadline_millis=20;";
    std::fs::create_dir(dir.path().join("full")).expect("a directory");
    let engine = Engine::connect(&conf(NOBODY, &dir.path().join("full"), full)).expect("async");
    let mut producer = engine.producer().expect("a producer");
    let error = (0..100).find_map(|n| {
        row(&mut producer, "A", n, 200_000);
        producer.publish().err()
    });
    let error = error.expect("2 MiB are full");
    let text = error.to_string();
    let Error::Backpressure {
        pressure,
        batch_bytes,
        ..
    } = error
    else {
        panic!("{text}");
    };
    assert!(matches!(pressure, Pressure::Reconnecting { .. }), "{text}");
    // The room that the batch takes, which may be more at the end of the ring.
    assert!(
        (200_000..524_288).contains(&batch_bytes) && text.contains("sf_max_total_bytes"),
        "{text}"
    );
}

/// After one failed flush the sender could not be used again.
#[test]
fn usable_after_failure() {
    let dir = loadgen::scratch();
    let address = free_address();
    let small = "sf_max_segment_bytes=64k;sf_max_total_bytes=128k;sf_append_deadline_millis=50;\
                 intake_ring_bytes=64k;";
    let engine = Engine::connect(&conf(&address.to_string(), dir.path(), small)).expect("async");
    let mut producer = engine.producer().expect("a producer");
    let failed = (0..100).find(|n| {
        row(&mut producer, "A", *n, 10_000);
        match producer.publish() {
            Ok(_) => false,
            Err(error @ Error::Backpressure { waited_millis, .. }) => {
                assert!(waited_millis >= 50, "{error}");
                true
            }
            Err(error) => panic!("{error}"),
        }
    });
    let failed = failed.expect("128 KiB are full");
    assert_eq!(producer.rows(), 1, "the batch stays with the producer");
    // A second failure is no different.
    assert!(matches!(producer.flush(), Err(Error::Backpressure { .. })));

    let sink = sink(dir.path(), Some(address), "");
    engine.wait_acked(PATIENCE).expect("room again");
    let feeds = stored(dir.path());
    assert_eq!(
        first_deliveries(&feeds["A"]),
        (0..failed).collect::<Vec<_>>(),
        "not the failed one"
    );
    producer.flush().expect("the same handle, the same batch");
    row(&mut producer, "A", failed + 1, 10);
    producer.flush().expect("and the next");
    engine.wait_acked(PATIENCE).expect("delivered");
    assert!(engine.status().ready, "{:?}", engine.status().reasons);
    drop(producer);
    engine.close().expect("drained");
    drop(sink);
    assert_eq!(
        first_deliveries(&stored(dir.path())["A"]),
        (0..=failed + 1).collect::<Vec<_>>()
    );
}

/// A producer that publishes each tick by itself and notes what was refused, as ranges.
struct Line {
    feed: &'static str,
    producer: Producer,
    accepted: Vec<u64>,
    refused: Vec<(u64, u64)>,
}

impl Line {
    fn send(&mut self, n: u64) -> bool {
        row(&mut self.producer, self.feed, n, 2000);
        match self.producer.try_publish() {
            Ok(_) => {
                self.accepted.push(n);
                true
            }
            Err(Error::Backpressure {
                rows_accepted: 0, ..
            }) => {
                assert_eq!(self.producer.rows(), 1, "exactly this one was refused");
                self.producer.clear();
                match self.refused.last_mut() {
                    Some((_, last)) if *last + 1 == n => *last = n,
                    _ => self.refused.push((n, n)),
                }
                false
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Two lines of one feed with duplicates and gaps: loss must be visible, and nothing may be hidden
/// by a reconnect.
#[test]
fn ab_feed_two_producers() {
    const REFUSALS: usize = 20;
    let dir = loadgen::scratch();
    // The link drops twice, and then the server confirms nothing until it is told to.
    let script = "conn 0 message 60 -> rst\nconn 1 applied 90 -> eof\nconn 2.. message 150.. -> hold 3600s\n";
    let sink = sink(dir.path(), None, script);
    let more = "sf_max_segment_bytes=64k;sf_max_total_bytes=256k;sf_append_deadline_millis=0;\
                intake_ring_bytes=64k;";
    let engine = Engine::connect(&conf(&sink.addr().to_string(), dir.path(), more)).expect("async");
    let mut lines = ["A", "B"].map(|feed| Line {
        feed,
        producer: engine.producer().expect("a producer"),
        accepted: Vec::new(),
        refused: Vec::new(),
    });
    let missed = |feed: &str, n: u64| match feed {
        "A" => (100..=110).contains(&n),
        _ => (205..=206).contains(&n),
    };
    let until = Instant::now() + PATIENCE;
    let (mut refusals, mut n, mut held) = (0, 0, true);
    // Goes on until both lines were refused and then taken again.
    while n < 260
        || held
        || lines
            .iter()
            .any(|line| line.accepted.last() != Some(&(n - 1)))
    {
        for line in &mut lines {
            if !missed(line.feed, n) && !line.send(n) {
                refusals += 1;
            }
        }
        n += 1;
        if held && refusals >= REFUSALS {
            // The server recovers: a new connection, where nothing is held back.
            sink.set_script(Script::default());
            sink.cut_connections();
            held = false;
        }
        assert!(
            Instant::now() < until,
            "tick {n}, {refusals} refused: {:?}",
            engine.status()
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    engine.wait_acked(PATIENCE).expect("delivered");
    assert!(
        engine.stats().reconnects_succeeded >= 3,
        "{:?}",
        engine.stats()
    );
    let feeds = stored(dir.path());
    for line in lines {
        let refused = |n: &u64| {
            line.refused
                .iter()
                .any(|(from, to)| (from..=to).contains(&n))
        };
        let ticks = (0..n).filter(|n| !missed(line.feed, *n));
        let expected: Vec<u64> = ticks.filter(|n| !refused(n)).collect();
        println!(
            "{}: {} ticks, refused {:?}",
            line.feed,
            expected.len(),
            line.refused
        );
        assert!(!line.refused.is_empty());
        assert_eq!(line.accepted, expected);
        assert_eq!(
            first_deliveries(&feeds[line.feed]),
            expected,
            "neither merged nor reordered"
        );
        drop(line.producer);
    }
    engine.close().expect("drained");
}
