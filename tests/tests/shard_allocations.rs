//! What a shard asks the heap for: nothing by frame, whatever it does with it, and three pieces by
//! segment. With the disk and an answering server, counted on the shard's thread alone.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::path::Path;
use std::time::Duration;

use forebay::{Engine, Producer, Stats};
use forebay_loadgen::allocations::{self, Counting};
use forebay_loadgen::sink::{Sink, SinkConfig};

mod producing;
use producing::{PATIENCE, connect, free_address, row, scratch, until};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The request for a spare, and that for the removal of a segment with the list of what to remove.
const BY_SEGMENT: u64 = 3;

/// An engine at work, with its server.
struct Rig {
    // Declared first: it goes before its engine.
    producer: Producer,
    engine: Engine,
    _sink: Sink,
    rows: u64,
}

impl Rig {
    fn new(dir: &Path, more: &str) -> Self {
        let config = SinkConfig {
            listen: free_address(),
            ..SinkConfig::default()
        };
        let sink = Sink::start(config).unwrap();
        let keys = format!("sf_dir={};intake=file;{more}", dir.display());
        let engine = connect(sink.addr(), &keys);
        let producer = engine.producer().unwrap();
        Self {
            engine,
            producer,
            _sink: sink,
            rows: 0,
        }
    }

    /// Publishes so many frames of so many rows, and waits until the server has them.
    fn frames(&mut self, frames: u64, rows: u64, pause: Duration) {
        for _ in 0..frames {
            for _ in 0..rows {
                row(&mut self.producer, "t", self.rows, "some text of a row");
                self.rows += 1;
            }
            self.producer.publish().unwrap();
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
        }
        self.engine.wait_acked(PATIENCE).unwrap();
        // What is acked leaves the chain, but for what is active; then the shard has nothing to do.
        until("segments are removed", || {
            let stats = self.engine.stats();
            stats.segments_trimmed + 2 >= stats.segments_written
        });
        std::thread::sleep(Duration::from_millis(150));
        let parks = self.engine.stats().parks;
        until("parked", || self.engine.stats().parks > parks);
    }

    /// What the shard asked for during `work`, and the counters before and after.
    fn counted(&mut self, work: impl FnOnce(&mut Self)) -> (u64, Stats, Stats) {
        // With the thread that its executor keeps for calls that block.
        let shard = allocations::shard_threads();
        assert!(!shard.is_empty(), "a shard runs");
        let (asked, before) = (allocations::of(&shard), self.engine.stats());
        work(self);
        let asked = allocations::of(&shard) - asked;
        (asked, before, self.engine.stats())
    }
}

#[test]
fn a_shard_asks_for_memory_by_segment_and_not_by_frame() {
    assert!(allocations::is_counting());
    let dir = scratch();
    // All of it fits in one segment.
    let mut rig = Rig::new(&dir.path().join("large"), "sf_max_segment_bytes=64m;");
    rig.frames(2_000, 1, Duration::ZERO);
    for (frames, rows, pause) in [
        (10_000, 1, Duration::ZERO),
        (1_000, 200, Duration::ZERO),
        // So rare that the shard sleeps in between.
        (100, 1, Duration::from_millis(2)),
    ] {
        let (asked, before, after) = rig.counted(|rig| rig.frames(frames, rows, pause));
        let name = format!("{frames} frames of {rows}, {pause:?} apart: {after:?}");
        assert_eq!(after.frames_acked - before.frames_acked, frames, "{name}");
        assert!(after.commits > before.commits, "{name}");
        assert_eq!(after.segments_written, before.segments_written, "{name}");
        // At the latest when nothing more comes.
        assert!(after.parks > before.parks, "{name}");
        assert_eq!(asked, 0, "{name}");
    }
    drop(rig);

    let mut rig = Rig::new(&dir.path().join("small"), "sf_max_segment_bytes=256k;");
    rig.frames(1_000, 100, Duration::ZERO);
    let (asked, before, after) = rig.counted(|rig| rig.frames(2_000, 100, Duration::ZERO));
    let made = after.segments_written - before.segments_written;
    let removed = after.segments_trimmed - before.segments_trimmed;
    println!("{asked} requests for {made} segments made and {removed} removed");
    assert!(made > 20 && removed > 10, "{made} made, {removed} removed");
    assert!(
        asked <= BY_SEGMENT * made.max(removed),
        "{asked}: {after:?}"
    );
}
