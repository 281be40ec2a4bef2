//! What drainers cost the foreground: printed, not asserted, for decision 0008.

use std::process::Command;
use std::time::{Duration, Instant};

use forebay::{Engine, Producer, TimestampNanos};

use crate::rig::Rig;
use crate::until;

const ORPHANS: usize = 4;
/// Frames of an orphan, of about 2 KiB: more than is drained while the foreground is measured.
const FRAMES: i64 = 100_000;
const ROWS: i64 = 100;
const FLUSHES: usize = 1_000;
const SPRINT: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_millis(1);

fn batch(producer: &mut Producer, rows: i64, text: &str) {
    for n in 0..rows {
        producer.table("t").unwrap().symbol("sym", "S0").unwrap();
        producer.symbol("slot", "own").unwrap();
        producer.column_i64("n", n).unwrap();
        producer.column_str("v", text).unwrap();
        producer.at(TimestampNanos(n + 1)).unwrap();
    }
}

fn leave(rig: &Rig, id: &str) {
    let conf = rig.conf(id, "127.0.0.1:1", "close_flush_timeout_millis=0;");
    let engine = Engine::connect(&conf.replace("segment_bytes=64k", "segment_bytes=4m")).unwrap();
    let mut producer = engine.producer().unwrap();
    let text = "x".repeat(2000);
    for _ in 0..FRAMES {
        batch(&mut producer, 1, &text);
        producer.publish().unwrap();
    }
    producer.flush().unwrap();
    engine.close().expect_err("nobody listens");
}

fn foreground(rig: &Rig, drain: bool) -> Engine {
    if drain {
        for n in 0..ORPHANS {
            leave(rig, &format!("s{n}"));
        }
    }
    // What was just written is no orphan's cost.
    assert!(Command::new("sync").status().unwrap().success());
    let switch = if drain { "on" } else { "off" };
    let more = format!("pin=on;close_flush_timeout_millis=0;drain_orphans={switch};");
    let conf = rig.conf("own", &rig.address.to_string(), &more);
    let conf = conf
        .replace("pin=off;", "")
        .replace("segment_bytes=64k", "segment_bytes=4m");
    let engine = Engine::connect(&conf).unwrap();
    if drain {
        until(&engine, "four drainers", |s| s.drainers_active == 4);
    }
    engine
}

/// `flush()` of 100 rows a millisecond, open loop.
fn latency(drain: bool) {
    let rig = Rig::new();
    let _sink = rig.counting_sink();
    let engine = foreground(&rig, drain);
    let mut producer = engine.producer().unwrap();
    let mut times = Vec::with_capacity(FLUSHES);
    let start = Instant::now();
    for n in 0..FLUSHES {
        let due = start + PERIOD * u32::try_from(n).unwrap();
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        batch(&mut producer, ROWS, "");
        producer.flush().unwrap();
        times.push(due.elapsed());
    }
    times.sort();
    let (p50, p99, last) = (
        times[FLUSHES / 2],
        times[FLUSHES * 99 / 100],
        times[FLUSHES - 1],
    );
    let busy = engine.stats().drainers_active;
    println!(
        "drain={drain} flush p50 {p50:?} p99 {p99:?} max {last:?}; {busy} drainers at the end"
    );
    let _ = engine.close();
}

/// Batches of 1,000 rows as fast as they are taken.
fn rate(drain: bool) {
    let rig = Rig::new();
    let _sink = rig.counting_sink();
    let engine = foreground(&rig, drain);
    let mut producer = engine.producer().unwrap();
    let start = Instant::now();
    while start.elapsed() < SPRINT {
        batch(&mut producer, 1000, "");
        producer.publish().unwrap();
    }
    let stats = engine.stats();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = stats.rows_acked as f64 / start.elapsed().as_secs_f64() / 1e6;
    let busy = stats.drainers_active;
    println!("drain={drain} {rate:.2} M rows/s acked; {busy} drainers at the end");
    let _ = engine.close();
}

#[test]
#[ignore = "prints figures; wants a quiet machine"]
fn what_drainers_cost() {
    for drain in [false, true, false, true] {
        latency(drain);
        rate(drain);
    }
}
