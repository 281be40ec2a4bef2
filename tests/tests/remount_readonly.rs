//! The filesystem of the slot is shut down while producers flush, with the intake on tmpfs: the
//! process lives, every producer gets an error that says what happened, and what was accepted stays
//! on tmpfs.
//!
//! ext4 on a loop device, shut down by `FS_IOC_SHUTDOWN`. Needs root, loop devices and python3 (the
//! ioctl). With the intake in the slot the process would get SIGBUS: docs/durability.md.

#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay::{Engine, Error, Pressure, Producer, TimestampNanos};
use forebay_tests::block::SmallDisk;

const DISK_BYTES: u64 = 96 << 20;
const PRODUCERS: u64 = 8;
const PATIENCE: Duration = Duration::from_mins(3);
fn produce(mut rows: Producer, flushed: &AtomicU64) -> Error {
    for n in 0.. {
        let row = rows
            .table("t")
            .and_then(|rows| rows.column_i64("n", n))
            .and_then(|rows| rows.at(TimestampNanos(n + 1)));
        if let Err(error) = row {
            return error;
        }
        if let Err(error) = rows.flush() {
            return error;
        }
        flushed.fetch_add(1, Ordering::Relaxed);
    }
    unreachable!("the disk fails before the numbers end")
}

#[test]
#[ignore = "needs root, loop devices and python3: .ci/run"]
fn a_filesystem_that_is_shut_down_is_an_error_and_no_signal() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let Some(disk) = SmallDisk::new(DISK_BYTES, 512, tmp) else {
        return;
    };
    let intake = tempfile::tempdir_in("/dev/shm").unwrap();
    let conf = format!(
        "ws::addr=127.0.0.1:1;sf_dir={}/sf;intake=file;intake_dir={}/intake;pin=off;\
         initial_connect_retry=async;close_flush_timeout_millis=0;sf_max_segment_bytes=64k;\
         sf_append_deadline_millis=3000;",
        disk.root().display(),
        intake.path().display()
    );
    let engine = Engine::connect(&conf).unwrap();
    let producers: Vec<_> = (0..PRODUCERS).map(|_| engine.producer().unwrap()).collect();
    let flushed = AtomicU64::new(0);
    let errors: Vec<Error> = std::thread::scope(|scope| {
        let work: Vec<_> = producers
            .into_iter()
            .map(|producer| scope.spawn(|| produce(producer, &flushed)))
            .collect();
        let start = Instant::now();
        while flushed.load(Ordering::Relaxed) < 1_000 {
            assert!(start.elapsed() < PATIENCE, "nothing is flushed");
            std::thread::sleep(Duration::from_millis(1));
        }
        disk.shut_down();
        work.into_iter().map(|work| work.join().unwrap()).collect()
    });
    // The journal waits for its repair, which such a filesystem never allows.
    for error in &errors {
        let waits = |pressure: &Pressure| matches!(pressure, Pressure::Repairing);
        assert!(
            matches!(error, Error::Backpressure { pressure, .. } if waits(pressure)),
            "{error:?}"
        );
    }
    let status = engine.status();
    assert!(!status.ready && !status.reasons.is_empty(), "{status:?}");
    let closed = engine.close().unwrap_err();
    println!(
        "{} batches flushed by {PRODUCERS} producers, then: {}; close: {closed}",
        flushed.load(Ordering::Relaxed),
        errors[0]
    );
    // What was accepted and not written waits on tmpfs for a start with a disk that works.
    assert!(
        std::fs::read_dir(intake.path().join("intake"))
            .unwrap()
            .count()
            > 0
    );
}
