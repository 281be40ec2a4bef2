//! What the modes of `sf_durability` promise: the stage at which `flush()` returns, by the real
//! engine on a real disk, and what a power cut at any later moment leaves, on the simulated one.
//!
//! `FOREBAY_SCALE=n` multiplies the seeds, `FOREBAY_SEED=n` runs that one alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use forebay::internals::sim::{Summary, run_power_cuts_in};
use forebay::{Engine, Producer, Receipt, Stage, TimestampNanos};
use forebay_tests::seeds::sweep;

/// Seeds of each mode.
const SEEDS: u64 = 100;
const PATIENCE: Duration = Duration::from_mins(3);

/// An engine without a server, with the rest of its connect string.
fn engine(dir: &tempfile::TempDir, rest: &str) -> Engine {
    let dir = dir.path().display();
    let conf = format!(
        "ws::addr=127.0.0.1:1;sf_dir={dir};initial_connect_retry=async;pin=off;\
         reconnect_initial_backoff_millis=1000;close_flush_timeout_millis=0;{rest}"
    );
    Engine::connect(&conf).expect("connects")
}

fn temp() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

fn row(producer: &mut Producer, number: i64, text: &str) {
    let row = producer.table("t").expect("a table");
    let row = row.column_i64("n", number).expect("a number");
    let row = row.column_str("v", text).expect("a text");
    row.at(TimestampNanos(number + 1)).expect("a row");
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a batch has reached when `publish()`, and when `flush()`, has returned.
fn reached(mode: &str, intake: &str) -> [Stage; 2] {
    let dir = temp();
    let interval = if mode == "periodic" {
        "sf_sync_interval_millis=600000;"
    } else {
        ""
    };
    let engine = engine(&dir, &format!("sf_durability={mode};{intake}{interval}"));
    let mut producer = engine.producer().expect("a producer");
    let highest = |receipt: &Receipt| {
        let all = [Stage::Stable, Stage::Written];
        let mut reached = all
            .into_iter()
            .filter(|stage| receipt.reached(*stage).expect("files"));
        reached.next().unwrap_or(Stage::Accepted)
    };
    // Held up by nothing, a batch is written soon: its receipt is asked at once.
    row(&mut producer, 0, "a");
    let published = highest(&producer.publish().expect("published"));
    row(&mut producer, 1, "b");
    producer.flush().expect("flushed");
    let flushed = highest(&producer.publish().expect("nothing new"));
    let stats = engine.stats();
    let syncs = stats.syncs > 0;
    assert_eq!(syncs, flushed == Stage::Stable, "{mode}: {stats:?}");
    drop(producer);
    engine.close().expect_err("the frames stay");
    [published, flushed]
}

#[test]
fn flush_returns_at_written_or_stable_as_the_mode_says() {
    for mode in ["memory", "periodic"] {
        let [published, flushed] = reached(mode, "intake=memory;");
        assert!(published <= Stage::Written, "{mode}: {published:?}");
        assert_eq!(flushed, Stage::Written, "{mode}");
    }
    for intake in ["", "intake=memory;"] {
        assert_eq!(reached("flush", intake)[1], Stage::Stable);
        assert_eq!(reached("append", intake), [Stage::Stable, Stage::Stable]);
    }
}

/// With the rings in files, which is the default, accepted survives the process: nothing is waited
/// for that no filled commit window would let come soon.
#[test]
fn flush_returns_at_accepted_where_that_survives_the_process() {
    for mode in ["memory", "periodic;sf_sync_interval_millis=600000"] {
        let dir = temp();
        let window = "commit_window_micros=1000000;commit_window_bytes=1g;";
        let engine = engine(&dir, &format!("sf_durability={mode};{window}"));
        let mut producer = engine.producer().expect("a producer");
        row(&mut producer, 0, "a");
        producer.flush().expect("flushed");
        assert_eq!(engine.stats().frames_written, 0, "{mode}");
        drop(producer);
        engine.close().expect_err("the frame stays");
    }
}

#[test]
fn an_automatic_publish_of_append_returns_at_stable() {
    let dir = temp();
    let rest = "sf_durability=append;auto_flush=on;auto_flush_rows=2;auto_flush_interval=off;";
    let engine = engine(&dir, rest);
    let mut producer = engine.producer().expect("a producer");
    for number in 0..6 {
        row(&mut producer, number, "a");
        let published = number.midpoint(1).cast_unsigned();
        assert_eq!(
            engine.stats().frames_stable,
            published,
            "after row {number}"
        );
    }
    drop(producer);
    engine.close().expect_err("the frames stay");
}

#[test]
fn without_a_directory_flush_returns_at_accepted() {
    let conf = "ws::addr=127.0.0.1:1;initial_connect_retry=async;pin=off;\
                close_flush_timeout_millis=0;";
    let engine = Engine::connect(conf).expect("connects");
    let mut producer = engine.producer().expect("a producer");
    row(&mut producer, 0, "a");
    producer.flush().expect("flushed");
    assert_eq!(engine.stats().syncs, 0);
    drop(producer);
    engine
        .close()
        .expect_err("the row is lost, and close says so");
}

/// The official client's `periodic` waits for its network thread and gives up after one segment.
#[test]
fn periodic_syncs_and_rotates_through_a_whole_outage() {
    let dir = temp();
    let engine = engine(
        &dir,
        "sf_durability=periodic;sf_sync_interval_millis=20;sf_max_segment_bytes=64k;",
    );
    let mut producer = engine.producer().expect("a producer");
    let text = "x".repeat(4_000);
    for number in 0..200 {
        row(&mut producer, number, &text);
        producer.publish().expect("published");
    }
    // Nobody waits for stable: the timer alone brings it about.
    wait_until("all stable", || engine.stats().frames_stable == 200);
    let stats = engine.stats();
    assert!(stats.segments_written >= 12, "{stats:?}");
    assert_eq!(stats.frames_acked, 0);
    drop(producer);
    engine.close().expect_err("the frames stay");
}

#[test]
fn a_wait_for_stable_forces_an_fdatasync_in_memory_mode() {
    let dir = temp();
    let engine = engine(&dir, "");
    let mut producer = engine.producer().expect("a producer");
    row(&mut producer, 0, "a");
    let receipt = producer.publish().expect("published");
    receipt.wait(Stage::Stable, PATIENCE).expect("stable");
    assert_eq!(engine.stats().frames_stable, 1);
    drop(producer);
    engine.close().expect_err("the frame stays");
}

#[derive(Default)]
struct Counting(AtomicU64);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn thousands_of_waiting_receipts_cost_one_wake_up_each() {
    const RECEIPTS: u64 = 4_000;
    let dir = temp();
    // The window keeps the first commit back until most receipts wait.
    let rest = "sf_durability=flush;commit_window_micros=300000;commit_window_bytes=1g;";
    let engine = engine(&dir, rest);
    let mut producer = engine.producer().expect("a producer");
    let mut waiting = Vec::new();
    for number in 0..RECEIPTS {
        row(&mut producer, i64::try_from(number).expect("small"), "a");
        let mut receipt = Box::pin(producer.publish().expect("published"));
        let counting = Arc::new(Counting::default());
        let waker = Waker::from(Arc::clone(&counting));
        let poll = receipt.as_mut().poll(&mut Context::from_waker(&waker));
        if poll.is_pending() {
            waiting.push((receipt, counting));
        }
    }
    let waited = waiting.len() as u64;
    assert!(waited > RECEIPTS / 2, "only {waited} had to wait");
    wait_until("all woken", || {
        waiting.iter().all(|(_, c)| c.0.load(Ordering::Relaxed) > 0)
    });
    for (receipt, counting) in &mut waiting {
        let poll = receipt
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(poll, Poll::Ready(Ok(()))), "{poll:?}");
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
    }
    let stats = engine.stats();
    assert!(stats.commits < 50, "{} commits", stats.commits);
    drop(producer);
    engine.close().expect_err("the frames stay");
}

#[test]
fn a_commit_window_gathers_frames_until_its_bytes_are_there() {
    let dir = temp();
    let rest = "intake=memory;commit_window_micros=1000000;commit_window_bytes=64k;";
    let engine = engine(&dir, rest);
    let mut producer = engine.producer().expect("a producer");
    for number in 0..10 {
        row(&mut producer, number, "a");
        producer.publish().expect("published");
    }
    assert_eq!(engine.stats().commits, 0, "they gather");
    row(&mut producer, 10, &"x".repeat(64 << 10));
    producer.flush().expect("flushed");
    let stats = engine.stats();
    assert_eq!((stats.commits, stats.frames_written), (1, 11));
    drop(producer);
    engine.close().expect_err("the frames stay");
}

#[test]
fn a_commit_window_ends_by_time() {
    let dir = temp();
    let rest = "intake=memory;commit_window_micros=50000;commit_window_bytes=1g;";
    let engine = engine(&dir, rest);
    let mut producer = engine.producer().expect("a producer");
    let mut took = Vec::new();
    for number in 0..10 {
        row(&mut producer, number, "a");
        let began = Instant::now();
        producer.flush().expect("flushed");
        took.push(began.elapsed());
    }
    // It counts from the begin of the turn that took the row, which the machine may have held up
    // since before there was one.
    let short = took
        .iter()
        .filter(|took| **took < Duration::from_millis(50));
    assert!(short.count() <= 2, "{took:?}");
    assert_eq!(engine.stats().commits, 10);
    drop(producer);
    engine.close().expect_err("the frames stay");
}

/// Power cuts in one mode, and whether they went through what can break.
fn power_cuts(test: &str, mode: &'static str) -> Option<Summary> {
    let names = ("durability_modes", test);
    // A shard does the same in `append` as in `flush`, so other seeds.
    let other = u64::from(mode == "append") << 32;
    let total = sweep(names, SEEDS, |seed| run_power_cuts_in(mode, seed | other))?;
    let seeds = total.seeds;
    assert!(total.power_cuts >= seeds, "{} cuts", total.power_cuts);
    assert!(total.rotations >= 10 * seeds, "{}", total.rotations);
    assert!(total.dictionary_writes >= 10 * seeds);
    assert!(total.stable_at_cuts >= 20 * seeds);
    Some(total)
}

#[test]
fn memory_keeps_full_segments_and_what_was_waited_for() {
    let test = "memory_keeps_full_segments_and_what_was_waited_for";
    if let Some(total) = power_cuts(test, "memory") {
        // The promise ends there: the cuts do take what no fdatasync covers.
        assert!(total.unstable_lost >= total.seeds, "{total}");
    }
}

#[test]
fn periodic_keeps_what_is_older_than_its_interval() {
    power_cuts("periodic_keeps_what_is_older_than_its_interval", "periodic");
}

#[test]
fn flush_keeps_what_flush_returned_for() {
    power_cuts("flush_keeps_what_flush_returned_for", "flush");
}

#[test]
fn append_keeps_what_publish_returned_for() {
    power_cuts("append_keeps_what_publish_returned_for", "append");
}
