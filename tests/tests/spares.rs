//! Segments made ahead: rotation never waits for a file to be made, what is not ready is counted,
//! and an idle engine gives space back.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_loadgen::sink::{Sink, SinkConfig};

use engine_child::{DiskWatch, EngineChild, PATIENCE, segments};

mod engine_child;
mod loadgen;

const ROW_BYTES: usize = 8_000;
/// Rows of that size in a segment of 64 KiB.
const ROWS_IN_SEGMENT: u64 = 8;

struct Rig {
    dir: tempfile::TempDir,
    sink: Sink,
}

impl Rig {
    fn new() -> Self {
        Self {
            dir: loadgen::scratch(),
            sink: Sink::start(SinkConfig::default()).unwrap(),
        }
    }

    fn slot(&self) -> PathBuf {
        self.dir.path().join("sf/spares")
    }

    fn connect(&self, more: &str) -> String {
        format!(
            "ws::addr={};sf_dir={};sender_id=spares;initial_connect_retry=async;pin=off;{more}",
            self.sink.addr(),
            self.dir.path().join("sf").display()
        )
    }
}

fn wait_for_segments(slot: &Path, count: usize) {
    let start = Instant::now();
    while segments(slot).len() != count {
        let late = start.elapsed() > PATIENCE;
        assert!(!late, "{count} wanted: {:?}", segments(slot));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Field report `slow-fallocate`: making a segment takes 1.5 s, much longer than a rotation's own
/// syncs on a slow disk.
#[test]
fn slow_fallocate() {
    // Leaves room in a segment for the small rows below.
    const BYTES: usize = ROW_BYTES - 500;
    let rig = Rig::new();
    // With the default intake a flush does not wait for segments.
    let keys = "sf_max_segment_bytes=64k;sf_spares=3;intake=memory;";
    let slow = [("FOREBAY_FAULT_STEWARD_SLOW_MILLIS", "1500")];
    let mut child = EngineChild::open(&rig.connect(keys), &slow);
    // An engine that gets no rows for 3 s is content with one spare.
    let mut small = 0;
    while segments(&rig.slot()).len() < 4 {
        assert!(small < 40, "four wanted: {:?}", segments(&rig.slot()));
        child.publish(1, 1);
        assert_eq!(child.ask("published"), "published");
        small += 1;
        std::thread::sleep(Duration::from_millis(500));
    }
    // Three rotations, each with its spare ready.
    child.publish(4 * ROWS_IN_SEGMENT, BYTES);
    assert_eq!(child.ask("published"), "published");
    let state = child.state();
    assert!(state.get("segments_written") == 3, "{state:?}");
    assert_eq!(state.get("spare_stalls"), 0, "{state:?}");
    let slowest = state.get("slowest_micros");
    assert!(slowest < 1_300_000, "a flush waited: {slowest} us");
    // More than are ready: producers wait for the steward, and that is counted.
    child.publish(4 * ROWS_IN_SEGMENT, BYTES);
    assert_eq!(child.ask("published"), "published");
    let state = child.state();
    assert!(state.get("spare_stalls") > 0, "{state:?}");
    assert!(state.get("slowest_micros") > 400_000, "{state:?}");
    assert_eq!(child.ask("close"), "closed");
    assert_eq!(rig.sink.stop().messages, small + 8 * ROWS_IN_SEGMENT);
}

/// Field report `space-not-returned`: many times the cap goes through, then nothing.
#[test]
fn space_not_returned() {
    const ROWS: u64 = 2_000;
    let rig = Rig::new();
    let keys = "sf_max_segment_bytes=1m;sf_max_total_bytes=16m;sf_spares=3;";
    let watch = DiskWatch::on(rig.slot());
    let mut child = EngineChild::open(&rig.connect(keys), &[]);
    // 128 MB.
    child.publish(ROWS, 8 * ROW_BYTES);
    child.wait_until("all acked", |state| state.get("frames_acked") == ROWS);
    assert_eq!(child.ask("published"), "published");
    // The active segment and one spare: what is acked is trimmed, surplus spares go when it idles.
    child.wait_until("reclaimed", |state| {
        state.get("unreclaimed_bytes") == 0 && state.get("disk_bytes") < 3 << 20
    });
    assert_eq!(segments(&rig.slot()).len(), 2);
    let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
    let deleted = open.flatten().filter_map(|entry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        let text = target.to_string_lossy().into_owned();
        (text.contains(".sfa") && text.ends_with("(deleted)")).then_some(text)
    });
    assert_eq!(deleted.collect::<Vec<_>>(), [""; 0]);
    // It goes on, with as many spares as before.
    child.publish(64, 8 * ROW_BYTES);
    child.wait_until("all acked", |state| state.get("frames_acked") == ROWS + 64);
    assert_eq!(child.ask("published"), "published");
    assert_eq!(child.ask("close"), "closed");
    let most = watch.most();
    assert!(most <= 16 << 20, "{most} bytes on disk");
    assert_eq!(rig.sink.stop().messages, ROWS + 64);
}

/// Field report `hard-cap`: the server never acknowledges, and ten times the cap is produced.
#[test]
fn hard_cap() {
    const CAP_BYTES: u64 = 8 << 20;
    let dir = loadgen::scratch();
    let connect = format!(
        "ws::addr=127.0.0.1:1;sf_dir={};sender_id=spares;initial_connect_retry=async;pin=off;\
         sf_max_segment_bytes=512k;sf_max_total_bytes=8m;sf_append_deadline_millis=5000;\
         close_flush_timeout_millis=0;",
        dir.path().join("sf").display()
    );
    let slot = dir.path().join("sf/spares");
    let watch = DiskWatch::on(slot.clone());
    let mut child = EngineChild::open(&connect, &[]);
    let batches = 10 * CAP_BYTES / ROW_BYTES as u64;
    assert_eq!(
        child.ask(&format!("push {batches} {ROW_BYTES}")),
        "publishing"
    );
    let answer = child.ask("published");
    assert!(answer.contains("back-pressure"), "{answer}");
    let state = child.state();
    assert!(state.get("backpressure_stalls") > 0, "{state:?}");
    assert!(state.get("disk_bytes") > CAP_BYTES / 2, "the cap is used");
    drop(child);
    // Spares count.
    let most = watch.most();
    assert!(most <= CAP_BYTES, "{most} bytes on disk");
}

/// Spares of `flush` are filled: the process has written all of them before it has a row.
#[test]
fn spares_of_durable_modes_are_written_ahead() {
    if is_tmpfs(&loadgen::scratch()) {
        println!("skipped: on tmpfs the kernel counts nothing as written");
        return;
    }
    for (keys, filled) in [
        ("sf_durability=flush;", true),
        ("sf_durability=append;", true),
        ("sf_durability=flush;sf_prefill=off;", false),
        ("sf_durability=periodic;", false),
        ("", false),
        ("sf_prefill=on;", true),
    ] {
        let rig = Rig::new();
        let keys = format!("sf_max_segment_bytes=2m;{keys}");
        let mut child = EngineChild::open(&rig.connect(&keys), &[]);
        wait_for_segments(&rig.slot(), 3);
        // Where files cannot be made without a name, that is there before they are filled.
        let start = Instant::now();
        while filled && written_bytes(child.id()) < 6 << 20 {
            let bytes = written_bytes(child.id());
            assert!(start.elapsed() < PATIENCE, "{keys}: {bytes} bytes written");
            std::thread::sleep(Duration::from_millis(2));
        }
        let bytes = written_bytes(child.id());
        assert!(filled || bytes < 1 << 20, "{keys}: {bytes} bytes written");
        child.publish(100, 8 * ROW_BYTES);
        child.wait_until("all acked", |state| state.get("frames_acked") == 100);
        assert_eq!(child.ask("published"), "published");
        assert_eq!(child.ask("close"), "closed");
        assert_eq!(rig.sink.stop().messages, 100);
    }
}

fn is_tmpfs(dir: &tempfile::TempDir) -> bool {
    let mut stat = Command::new("stat");
    let kind = stat.args(["-f", "-c", "%T"]).arg(dir.path()).output();
    kind.unwrap().stdout.starts_with(b"tmpfs")
}

/// What a process has sent towards the disk.
fn written_bytes(pid: u32) -> u64 {
    let counts = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = counts
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.unwrap().parse().unwrap()
}
