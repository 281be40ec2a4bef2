//! What drainers cost the foreground: printed, not asserted, for decision 0008.

use std::time::{Duration, Instant};

use forebay::{Engine, Producer, TimestampNanos};

use crate::rig::Rig;
use crate::until;

const ORPHANS: usize = 4;
/// Frames of an orphan, of about 2 KiB: more than is drained while the foreground is measured.
const FRAMES: i64 = 60_000;
const ROWS: i64 = 100;
const FLUSHES: usize = 4_000;
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

/// `flush()` of 100 rows a millisecond, open loop; then as fast as it goes for a while.
fn measure(rig: &Rig, drain: bool) {
    let more = if drain {
        "drain_orphans=on;"
    } else {
        "drain_orphans=off;"
    };
    let more = format!("pin=on;close_flush_timeout_millis=0;{more}");
    let conf = rig.conf("own", &rig.address.to_string(), &more);
    let conf = conf
        .replace("pin=off;", "")
        .replace("segment_bytes=64k", "segment_bytes=4m");
    let engine = Engine::connect(&conf).unwrap();
    if drain {
        until(&engine, "four drainers", |s| s.drainers_active == 4);
    }
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
    let at = |share: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank in a short list"
        )]
        let rank = (share * times.len() as f64) as usize;
        times[rank]
    };
    let (from, start) = (engine.stats().rows_acked, Instant::now());
    while start.elapsed() < Duration::from_secs(3) {
        batch(&mut producer, 1000, "");
        producer.publish().unwrap();
    }
    engine.wait_acked(Duration::from_secs(30)).unwrap();
    let rows = engine.stats().rows_acked - from;
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = rows as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!(
        "drain={drain} flush p50 {:?} p99 {:?} p99.9 {:?}; {rate:.2} M rows/s; still draining: {}",
        at(0.5),
        at(0.99),
        at(0.999),
        engine.stats().drainers_active
    );
    let _ = engine.close();
}

#[test]
#[ignore = "prints figures; wants a quiet machine"]
fn what_drainers_cost() {
    let rig = Rig::new();
    for n in 0..ORPHANS {
        leave(&rig, &format!("s{n}"));
    }
    let _sink = rig.counting_sink();
    for drain in [false, true, false, true] {
        measure(&rig, drain);
    }
}
