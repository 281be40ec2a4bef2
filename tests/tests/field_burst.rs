//! Field report burst-bounded, in a process of its own: it looks at the memory of the process.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay::{Engine, Error, Producer, TimestampNanos};

mod loadgen;

use loadgen::{PATIENCE, Running, binary};

const MIB: u64 = 1 << 20;

/// A row: number `n` and a kilobyte of text.
fn row(producer: &mut Producer, n: i64) {
    let text = "x".repeat(1000);
    let row = producer.table("t").expect("a row");
    row.column_i64("n", n)
        .and_then(|row| row.column_str("v", &text))
        .expect("values");
    producer.at(TimestampNanos(n + 1)).expect("a row");
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = text
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("VmRSS");
    let kib = line.split_whitespace().nth(1).expect("a number");
    kib.parse::<u64>().expect("a number") * 1024
}

/// A burst at the opening of the market: an unbounded queue, growing delay, silent staleness.
///
/// A server that confirms late, a steady rate, then a burst as fast as it goes of twice the cap. The
/// delay shows while it lasts, and a full engine says so.
#[test]
fn burst_bounded() {
    let dir = loadgen::scratch();
    let (script, store) = (dir.path().join("slow"), dir.path().join("store"));
    std::fs::write(&script, "start -> delay 100ms\n").expect("a script");
    let mut sink = Running::start(
        Command::new(binary())
            .args(["sink", "--listen", "127.0.0.1:0", "--decode", "--script"])
            .arg(&script)
            .arg("--store")
            .arg(&store)
            .stdout(Stdio::piped()),
    );
    let mut line = String::new();
    let stdout = sink.0.stdout.take().expect("piped");
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("its address");
    let address = line.trim().strip_prefix("listening ").expect("its address");
    let engine = Engine::connect(&format!(
        "ws::addr={address};sf_dir={};initial_connect_retry=async;pin=off;\
         sf_max_segment_bytes=64k;sf_max_total_bytes=512k;memory_budget_bytes=1m;\
         sf_append_deadline_millis=0;intake_ring_bytes=128k;close_flush_timeout_millis=30000;",
        dir.path().join("sf").display()
    ));
    let engine = engine.expect("async");
    let mut producer = engine.producer().expect("a producer");
    // The ring holds them all, whatever holds the shard up.
    for n in 0..100 {
        row(&mut producer, n);
        producer.try_publish().expect("far from full");
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = resident();
    let (mut refused, mut oldest, mut most, mut peak) = (0, Duration::ZERO, 0, 0);
    let until = Instant::now() + PATIENCE;
    for n in 100..1124 {
        row(&mut producer, n);
        loop {
            match producer.try_publish() {
                Ok(_) => break,
                Err(Error::Backpressure { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            let status = engine.status();
            oldest = oldest.max(status.shards[0].oldest_unacked.unwrap_or_default());
            most = most.max(status.shards[0].slot_bytes);
            peak = peak.max(resident());
            assert!(Instant::now() < until, "{status:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    engine.wait_acked(PATIENCE).expect("delivered");
    println!("{refused} refusals, oldest {oldest:?}, {most} bytes, resident {before} to {peak}");
    assert!(refused > 0, "an explicit result");
    assert!(
        oldest > Duration::from_millis(50),
        "the delay shows: {oldest:?}"
    );
    assert!(most <= MIB / 2, "{most} bytes, the cap is 512 KiB");
    assert!(peak < before + 8 * MIB, "from {before} to {peak}");
    drop(producer);
    engine.close().expect("drained");
    let text = std::fs::read_to_string(store.join("t.ndjson")).expect("rows");
    let rows = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let numbers = rows.map(|row: serde_json::Value| row["n"].as_i64().expect("a number"));
    assert!(numbers.eq(0..1124), "nothing lost or reordered");
}
