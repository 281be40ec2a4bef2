//! The maintenance thread dies, cannot be started, or is slow: the disk stays under its bound,
//! nothing is lost, and whoever looks is told.
//!
//! Real processes with `FOREBAY_FAULT_STEWARD_*` in their environment. Requests outlive whoever
//! made them: a shard that panicked, an engine that closed.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_loadgen::sink::{Sink, SinkConfig};

use engine_child::{DiskWatch, EngineChild, segments};

mod engine_child;
mod loadgen;

/// `sf_max_total_bytes`: eight segments.
const CAP_BYTES: u64 = 512 << 10;
/// Twelve segments' worth of rows, several times the cap.
const BATCHES: u64 = 400;
const ROW_BYTES: usize = 8_000;

struct Rig {
    dir: tempfile::TempDir,
    sink: Option<Sink>,
}

impl Rig {
    fn new() -> Self {
        Self {
            dir: loadgen::scratch(),
            sink: Some(Sink::start(SinkConfig::default()).unwrap()),
        }
    }

    fn address(&self) -> SocketAddr {
        self.sink.as_ref().unwrap().addr()
    }

    fn slot(&self) -> PathBuf {
        self.dir.path().join("sf/steward")
    }

    fn connect(&self, more: &str) -> String {
        self.connect_to(self.address(), more)
    }

    fn connect_to(&self, address: SocketAddr, more: &str) -> String {
        format!(
            "ws::addr={address};sf_dir={};sender_id=steward;sf_max_segment_bytes=64k;\
             sf_max_total_bytes={CAP_BYTES};initial_connect_retry=async;pin=off;{more}",
            self.dir.path().join("sf").display()
        )
    }

    /// Publishes everything under these faults; answers the process, and the most bytes on disk
    /// meanwhile.
    fn publish_under(&self, keys: &str, faults: &[(&str, &str)]) -> EngineChild {
        let mut child = EngineChild::open(&self.connect(keys), faults);
        child.publish(BATCHES, ROW_BYTES);
        child
    }

    /// All of it arrived, once.
    fn check_delivered(mut self, frames: u64) {
        assert_eq!(self.sink.take().unwrap().stop().messages, frames);
    }
}

fn finish(child: &mut EngineChild) {
    assert_eq!(child.ask("published"), "published");
    assert_eq!(child.ask("close"), "closed");
}

const DIE_AFTER: &str = "FOREBAY_FAULT_STEWARD_DIE_AFTER";
const DEATHS: &str = "FOREBAY_FAULT_STEWARD_DEATHS";
const DIE_AT_START: &str = "FOREBAY_FAULT_STEWARD_DIE_AT_START";
const DIE_LATE: &str = "FOREBAY_FAULT_STEWARD_DIE_LATE";
const SPAWN_FAILS: &str = "FOREBAY_FAULT_STEWARD_SPAWN_FAILS";
const SLOW_MILLIS: &str = "FOREBAY_FAULT_STEWARD_SLOW_MILLIS";

#[test]
fn a_steward_that_dies_once_is_started_again_and_nothing_is_lost() {
    for late in ["0", "1"] {
        let rig = Rig::new();
        let watch = DiskWatch::on(rig.slot());
        let faults = [(DIE_AFTER, "3"), (DEATHS, "1"), (DIE_LATE, late)];
        let mut child = rig.publish_under("steward_respawn_backoff_millis=3000;", &faults);
        let dead = child.wait_until("the death", |state| {
            state.get("steward_deaths") == 1 && state.reasons.contains("the steward died")
        });
        assert!(!dead.is_ready(), "{dead:?}");
        let alive = child.wait_until("all acked, and ready", |state| {
            state.get("frames_acked") == BATCHES && state.is_ready()
        });
        let counted = ["steward_deaths", "steward_respawns", "steward_fallback"];
        assert_eq!(counted.map(|name| alive.get(name)), [1, 1, 0]);
        finish(&mut child);
        let most = watch.most();
        assert!(most <= CAP_BYTES, "{most} bytes on disk");
        rig.check_delivered(BATCHES);
    }
}

#[test]
fn a_steward_that_dies_six_times_in_a_minute_leaves_its_work_to_the_shard() {
    let rig = Rig::new();
    let watch = DiskWatch::on(rig.slot());
    let keys = "steward_respawn_backoff_millis=20;";
    let mut child = rig.publish_under(keys, &[(DIE_AFTER, "1")]);
    let over = child.wait_until("the fall-back", |state| state.get("steward_fallback") == 1);
    assert!(!over.is_ready(), "{over:?}");
    assert!(over.reasons.contains("given up"), "{over:?}");
    let done = child.wait_until("all acked and reclaimed", |state| {
        // The active segment, spares, and at most one that cannot be trimmed yet.
        let few = state.get("disk_bytes") < 5 * (64 << 10);
        few && state.get("frames_acked") == BATCHES && state.get("unreclaimed_bytes") == 0
    });
    assert_eq!(done.get("steward_deaths"), 6);
    assert_eq!(done.get("steward_respawns"), 5);
    assert!(done.get("steward_inline_requests") > 10, "{done:?}");
    assert!(!done.is_ready(), "it stays degraded: {done:?}");
    let left = segments(&rig.slot());
    assert!(left.len() <= 4, "{left:?}");
    finish(&mut child);
    let most = watch.most();
    assert!(most <= CAP_BYTES, "{most} bytes on disk");
    rig.check_delivered(BATCHES);
}

#[test]
fn a_steward_that_dies_while_the_engine_stops_is_not_started_again() {
    let rig = Rig::new();
    let address = rig.address();
    // Its first request kills it, and its pause is longer than this test.
    let keys = "steward_respawn_backoff_millis=600000;";
    let mut child = EngineChild::open(&rig.connect_to(address, keys), &[(DIE_AFTER, "0")]);
    // One rotation needs no steward: a spare was made at the start.
    child.publish(12, ROW_BYTES);
    let dead = child.wait_until("the death", |state| state.get("steward_deaths") == 1);
    assert_eq!(dead.get("steward_respawns"), 0);
    child.wait_until("all acked", |state| state.get("frames_acked") == 12);
    let start = Instant::now();
    finish(&mut child);
    assert!(start.elapsed() < Duration::from_secs(4), "{start:?}");
    assert_eq!(segments(&rig.slot()), [""; 0], "the closer reclaimed");
    rig.check_delivered(12);
}

#[test]
fn starts_that_fail_count_and_are_tried_again() {
    let rig = Rig::new();
    let keys = "steward_respawn_backoff_millis=50;";
    let mut child = rig.publish_under(keys, &[(SPAWN_FAILS, "2"), (DIE_AT_START, "1")]);
    let done = child.wait_until("all acked, and ready", |state| {
        state.get("frames_acked") == BATCHES && state.is_ready()
    });
    let counted = [
        "steward_spawn_failures",
        "steward_deaths",
        "steward_respawns",
        "steward_fallback",
    ];
    assert_eq!(counted.map(|name| done.get(name)), [2, 3, 3, 0]);
    finish(&mut child);
    rig.check_delivered(BATCHES);
}

#[test]
fn a_steward_that_never_starts_leaves_its_work_to_the_shard() {
    let rig = Rig::new();
    let watch = DiskWatch::on(rig.slot());
    let keys = "steward_respawn_backoff_millis=5;steward_respawn_max=2;";
    let mut child = rig.publish_under(keys, &[(SPAWN_FAILS, "1000")]);
    let done = child.wait_until("all acked", |state| state.get("frames_acked") == BATCHES);
    let counted = [
        "steward_spawn_failures",
        "steward_deaths",
        "steward_respawns",
        "steward_fallback",
    ];
    assert_eq!(counted.map(|name| done.get(name)), [3, 3, 2, 1]);
    assert!(done.reasons.contains("given up"), "{done:?}");
    finish(&mut child);
    let most = watch.most();
    assert!(most <= CAP_BYTES, "{most} bytes on disk");
    rig.check_delivered(BATCHES);
}

#[test]
fn a_slow_steward_slows_producers_and_the_disk_stays_under_its_bound() {
    let rig = Rig::new();
    let watch = DiskWatch::on(rig.slot());
    let mut child = rig.publish_under("", &[(SLOW_MILLIS, "40")]);
    let done = child.wait_until("all acked", |state| state.get("frames_acked") == BATCHES);
    assert!(done.get("rotation_stalls") > 0, "{done:?}");
    assert_eq!(done.get("steward_deaths"), 0);
    finish(&mut child);
    let most = watch.most();
    assert!(most <= CAP_BYTES, "{most} bytes on disk");
    rig.check_delivered(BATCHES);
}

/// The shard panics again and again, each time with requests on the steward's list or in its hand:
/// what the last life asked for makes no file and removes none in the next one.
#[test]
fn requests_of_a_shard_that_panicked_touch_nothing_of_its_successor() {
    let rig = Rig::new();
    let watch = DiskWatch::on(rig.slot());
    let faults = [
        (SLOW_MILLIS, "30"),
        ("FOREBAY_FAULT_SHARD_PANIC_AT", "rotate"),
        ("FOREBAY_FAULT_SHARD_PANIC_AFTER", "21"),
        ("FOREBAY_FAULT_SHARD_PANICS", "8"),
    ];
    let keys = "steward_respawn_backoff_millis=10;steward_respawn_max=8;";
    let mut child = rig.publish_under(keys, &faults);
    assert_eq!(child.ask("published"), "published");
    let done = child.wait_until("all acked and reclaimed", |state| {
        state.get("rows_acked") == BATCHES && state.get("unreclaimed_bytes") == 0
    });
    assert_eq!(done.get("shard_panics"), 8, "{done:?}");
    assert_eq!(done.get("shard_restarts"), 8);
    assert!(done.is_ready(), "{done:?}");
    assert_eq!(child.ask("close"), "closed");
    assert_eq!(
        segments(&rig.slot()),
        [""; 0],
        "drained: nothing was left behind"
    );
    let most = watch.most();
    assert!(most <= CAP_BYTES, "{most} bytes on disk");
    let frames = rig.sink.as_ref().unwrap().totals().messages;
    assert!(frames >= BATCHES, "{frames}");
}

/// The engine closes while its steward sleeps over a removal; the next engine makes files of the
/// same names. The steward wakes up and finds that the slot is not its own any more.
#[test]
fn requests_of_a_closed_engine_touch_nothing_of_the_next_one() {
    const SLEEP_MILLIS: u64 = 9_000;
    let rig = Rig::new();
    let slow = SLEEP_MILLIS.to_string();
    let connect = rig.connect("");
    let begun = Instant::now();
    let mut child = EngineChild::open(&connect, &[(SLOW_MILLIS, &slow)]);
    child.publish(12, ROW_BYTES);
    child.wait_until("a trim", |state| state.get("segments_trimmed") > 0);
    let closing = Instant::now();
    finish(&mut child);
    let took = closing.elapsed();
    assert!(took >= Duration::from_secs(4), "it had a request: {took:?}");
    assert!(
        took < Duration::from_secs(9),
        "the wait is bounded: {took:?}"
    );
    assert_eq!(segments(&rig.slot()), [""; 0], "drained");

    // Nobody listens now, so that frames stay.
    let silent = rig.connect_to(
        SocketAddr::from(([127, 0, 0, 1], 1)),
        "close_flush_timeout_millis=0;",
    );
    assert_eq!(child.ask(&format!("open {silent}")), "open");
    child.publish(12, ROW_BYTES);
    assert_eq!(child.ask("published"), "published");
    let before = segments(&rig.slot());
    assert!(
        before.contains(&"sf-0000000000000000.sfa".to_owned()),
        "{before:?}"
    );
    // Past the moment at which the first steward has done what it was asked for, or not.
    let until = Duration::from_millis(2 * SLEEP_MILLIS) + Duration::from_millis(500);
    std::thread::sleep(until.saturating_sub(begun.elapsed()));
    let after = segments(&rig.slot());
    assert!(
        before.iter().all(|name| after.contains(name)),
        "{before:?} {after:?}"
    );
    let answer = child.ask("close");
    assert!(answer.contains("12"), "12 frames are left: {answer}");
    drop(child);

    let mut child = EngineChild::open(&connect, &[]);
    child.wait_until("all acked", |state| state.get("frames_acked") == 12);
    assert_eq!(child.ask("close"), "closed");
    drop(child);
    rig.check_delivered(24);
}
