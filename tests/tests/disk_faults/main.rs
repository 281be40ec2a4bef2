//! Faults of the disk, for real: full to the last byte, writes that fail, a filesystem that shuts
//! down, sectors of 4 KiB. Every fault of every operation on the simulated disk is in
//! `engine/src/io/sim/faults.rs`.
//!
//! Those that mount need root, loop devices and, one, /dev/fuse.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_loadgen::sink::{Sink, SinkConfig};
use forebay_tests::block::{Device, SmallDisk, missing};

use engine_child::EngineChild;
use failing::FailingRows;

#[path = "../engine_child/mod.rs"]
mod engine_child;
mod failing;
#[path = "../loadgen/mod.rs"]
mod loadgen;

const DISK_BYTES: u64 = 48 << 20;
const ROW_BYTES: usize = 16_000;
/// More than the disk holds.
const TOO_MANY: u64 = 20_000;

fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

/// What waits in the intake is lost with the process: what is counted here is the journal.
fn connect(address: SocketAddr, root: &Path, more: &str) -> String {
    format!(
        "ws::addr={address};sf_dir={}/sf;sender_id=faults;initial_connect_retry=async;pin=off;\
         intake=memory;reconnect_initial_backoff_millis=1;reconnect_max_backoff_millis=20;{more}",
        root.display()
    )
}

/// Keys of a journal that outgrows the small disk: it is full long before the cap.
const OUTGROWING: &str = "sf_max_segment_bytes=1m;sf_max_total_bytes=1g;\
     sf_append_deadline_millis=500;";

fn small_disk(sector_bytes: u32) -> Option<SmallDisk> {
    SmallDisk::new(DISK_BYTES, sector_bytes, tmp())
}

fn tmp() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn sink() -> Sink {
    Sink::start(SinkConfig::default()).unwrap()
}

/// Publishes until it is refused because the disk has no room, which it says by an error (a slow one
/// ends in a refusal too); answers how many frames the slot then holds.
fn publish_until_refused(child: &mut EngineChild) -> u64 {
    let before = child.state();
    for _ in 0..50 {
        let push = format!("push {TOO_MANY} {ROW_BYTES}");
        assert_eq!(child.ask(&push), "publishing");
        let answer = child.ask("published");
        assert!(answer.contains("back-pressure"), "{answer}");
        if child.state().get("disk_errors") > before.get("disk_errors") {
            let written = settled(child);
            assert!(written > before.get("frames_written"));
            return written;
        }
    }
    panic!("refused without an error of the disk: {:?}", child.state());
}

/// Frames written, once no more are.
fn settled(child: &mut EngineChild) -> u64 {
    let mut written = child.state().get("frames_written");
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = child.state().get("frames_written");
        if now == written {
            return written;
        }
        written = now;
    }
}

/// Writes a file until not a byte more fits.
fn fill_up(path: &Path) {
    let mut file = File::create(path).unwrap();
    let mut piece = vec![7; 1 << 20];
    while !piece.is_empty() {
        if file.write_all(&piece).is_err() {
            piece.truncate(piece.len() / 2);
        }
    }
    // What is left is found when it reaches the disk.
    let _ = file.sync_all();
}

/// Everything that is in the slot arrives.
fn drain(root: &Path, more: &str) -> u64 {
    let sink = sink();
    let more = format!("{more}close_flush_timeout_millis=30000;");
    let mut child = EngineChild::open(&connect(sink.addr(), root, &more), &[]);
    assert_eq!(child.ask("close"), "closed");
    drop(child);
    sink.stop().messages
}

/// A filesystem with less free than `sf_min_free_bytes` gets no segment beyond those of opening.
#[test]
fn what_should_stay_free_is_not_taken() {
    let dir = loadgen::scratch();
    let keys = "sf_max_segment_bytes=64k;sf_min_free_bytes=1000t;sf_append_deadline_millis=300;";
    let mut child = EngineChild::open(&connect(nobody(), dir.path(), keys), &[]);
    let published = publish_until_refused(&mut child);
    assert!(published < 100, "{published}");
    assert!(child.state().get("disk_errors") > 0);
    let slot = dir.path().join("sf/faults");
    assert_eq!(engine_child::segments(&slot).len(), 2);
    drop(child);
    assert_eq!(drain(dir.path(), "sf_max_segment_bytes=64k;"), published);
}

/// The same with the rings in files: what was accepted and found no room in the journal arrives too.
#[test]
fn what_found_no_room_in_the_journal_waits_in_the_intake() {
    let dir = loadgen::scratch();
    let keys = "intake_ring_bytes=64k;sf_max_segment_bytes=64k;sf_append_deadline_millis=300;";
    let in_files = |address, more: &str| {
        connect(address, dir.path(), &format!("{keys}{more}")).replace("intake=memory;", "")
    };
    let text = in_files(nobody(), "sf_min_free_bytes=1000t;");
    let mut child = EngineChild::open(&text, &[]);
    let written = publish_until_refused(&mut child);
    let published = child.state().get("published");
    assert!(
        published > written,
        "{published} of which {written} are written"
    );
    drop(child);
    let sink = sink();
    let text = in_files(sink.addr(), "close_flush_timeout_millis=30000;");
    let mut child = EngineChild::open(&text, &[]);
    assert_eq!(child.ask("close"), "closed");
    drop(child);
    assert_eq!(sink.stop().messages, published);
}

/// Field report `polled-io-unsupported`: what was written is read back on whatever the build's disk
/// is; nothing of it asks for polled I/O.
#[test]
fn polled_io_unsupported() {
    let dir = loadgen::scratch();
    let keys = "sf_max_segment_bytes=64k;";
    let mut child = EngineChild::open(&connect(nobody(), dir.path(), keys), &[]);
    child.publish(50, ROW_BYTES);
    assert_eq!(child.ask("published"), "published");
    drop(child);
    assert_eq!(drain(dir.path(), keys), 50);
}

#[test]
#[ignore = "mounts: needs root and loop devices"]
fn enospc_create() {
    let Some(disk) = small_disk(512) else {
        return;
    };
    let mut child = EngineChild::open(&connect(nobody(), disk.root(), OUTGROWING), &[]);
    let published = publish_until_refused(&mut child);
    let state = child.state();
    assert!(state.get("disk_errors") > 0, "{state:?}");
    assert!(state.get("segments_written") > 10, "{state:?}");
    // No spin: an engine that waits for room sleeps.
    let (start, before) = (Instant::now(), state.get("shard_cpu_nanos"));
    std::thread::sleep(Duration::from_secs(1));
    let spent = Duration::from_nanos(child.state().get("shard_cpu_nanos") - before);
    let waited = start.elapsed();
    assert!(spent < waited / 2, "{spent:?} of {waited:?}");
    drop(child);
    assert_eq!(drain(disk.root(), OUTGROWING), published);
}

#[test]
#[ignore = "mounts: needs root and loop devices"]
fn enospc_resume() {
    let Some(disk) = small_disk(512) else {
        return;
    };
    let filler = disk.root().join("filler");
    std::fs::write(&filler, vec![7; 10 << 20]).unwrap();
    let mut child = EngineChild::open(&connect(nobody(), disk.root(), OUTGROWING), &[]);
    let held = publish_until_refused(&mut child);
    std::fs::remove_file(&filler).unwrap();
    let start = Instant::now();
    child.wait_until("more is written", |state| {
        state.get("frames_written") > held
    });
    // By itself: the pause between attempts is 0.2 s, the rest is the disk's.
    let waited = start.elapsed();
    assert!(waited < Duration::from_secs(15), "{waited:?}");
    let published = publish_until_refused(&mut child);
    assert!(published > held + 300, "{held}, then {published}");
    drop(child);
    assert_eq!(drain(disk.root(), OUTGROWING), published);
}

/// A disk that has not a byte left opens and drains, and takes rows again afterwards.
#[test]
#[ignore = "mounts: needs root and loop devices"]
fn a_disk_that_is_full_at_the_start_opens_and_drains() {
    let Some(disk) = small_disk(512) else {
        return;
    };
    let mut child = EngineChild::open(&connect(nobody(), disk.root(), OUTGROWING), &[]);
    let published = publish_until_refused(&mut child);
    drop(child);
    fill_up(&disk.root().join("filler"));
    assert_eq!(drain(disk.root(), OUTGROWING), published);
    // What the drained slot gave back is room enough for the next one.
    let mut child = EngineChild::open(&connect(nobody(), disk.root(), OUTGROWING), &[]);
    child.publish(20, ROW_BYTES);
    assert_eq!(child.ask("published"), "published");
}

#[test]
#[ignore = "mounts: needs root and loop devices"]
fn dio_4k_sector() {
    let Some(disk) = small_disk(4096) else {
        return;
    };
    let mut child = EngineChild::open(&connect(nobody(), disk.root(), OUTGROWING), &[]);
    let sizes = (1..=5_000).step_by(97);
    let count = sizes.clone().count() as u64;
    for size in sizes {
        child.publish(1, size);
        assert_eq!(child.ask("published"), "published", "{size} bytes");
    }
    assert_eq!(child.state().get("disk_errors"), 0);
    drop(child);
    assert_eq!(drain(disk.root(), OUTGROWING), count);
}

/// The filesystem is shut down under the engine: nothing is called written any more, what is in
/// memory is delivered, and `close` says that the disk failed.
#[test]
#[ignore = "mounts: needs root and loop devices, and python3 for the ioctl"]
fn a_filesystem_that_shuts_down_stops_no_delivery() {
    let Some(disk) = small_disk(512) else {
        return;
    };
    let sink = sink();
    let keys = "sf_max_segment_bytes=1m;sf_durability=flush;";
    let mut child = EngineChild::open(&connect(sink.addr(), disk.root(), keys), &[]);
    child.publish(20, ROW_BYTES);
    assert_eq!(child.ask("published"), "published");
    disk.shut_down();
    child.publish(1, ROW_BYTES);
    let state = child.wait_until("delivered", |state| state.get("frames_acked") == 21);
    assert_eq!(state.get("frames_stable"), 20, "{state:?}");
    let state = child.wait_until("told", |state| state.reasons.contains("repair"));
    assert!(!state.is_ready() && state.get("repairs") == 0, "{state:?}");
    let answer = child.ask("close");
    assert!(answer.starts_with("error"), "{answer}");
    drop(child);
    disk.mount_again();
    assert!(drain(disk.root(), keys) <= 20, "acked ones are not lost");
    assert_eq!(sink.stop().messages, 21);
}

/// Writes of rows fail by EIO on the device, then they do not: everything is stable again.
#[test]
#[ignore = "mounts: needs root, loop devices and /dev/fuse"]
fn writes_that_fail_are_repaired_from_memory() {
    if let Some(reason) = missing() {
        eprintln!("skipped: {reason}");
        return;
    }
    let rows = FailingRows::new(64 << 20);
    let device = Device::mount(rows.clone(), tmp());
    let keys = "sf_max_segment_bytes=1m;sf_durability=flush;sf_prefill=on;";
    let mut child = EngineChild::open(&connect(nobody(), &device.root(), keys), &[]);
    child.publish(20, ROW_BYTES);
    assert_eq!(child.ask("published"), "published");
    for round in 1..=3 {
        rows.fail(1);
        child.publish(100, ROW_BYTES);
        assert_eq!(child.ask("published"), "published", "round {round}");
        let state = child.state();
        assert_eq!(state.get("repairs"), round, "{state:?}");
        assert_eq!(state.get("frames_stable"), 20 + 100 * round, "{state:?}");
        assert!(state.is_ready(), "{state:?}");
    }
    drop(child);
    assert_eq!(drain(&device.root(), keys), 320);
}
