//! Disks of the moment of a power cut, each opened by the engine and judged by what it delivers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::Engine;
use forebay_loadgen::sink::{Depth, Sink, SinkConfig, Watch};
use forebay_tests::block::{Device, Entry, Recorder};
use forebay_tests::numbered;

use crate::recording::{Recording, conf, tmp};

const PATIENCE: Duration = Duration::from_mins(3);
/// What a disk does whole or not at all, in bytes. Disks promise less (the simulator's tears at 512),
/// but ext4 rests on blocks of 4 KiB: torn ones of its own can make it unmountable.
const PIECE: usize = 4096;

/// A moment of the power cut, and what becomes of the writes that no flush covers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cut {
    /// Just behind a flush: all before it is there.
    Flush(usize),
    /// At any position; of the writes since the last flush any blocks are there.
    Subset(usize, u64),
}

/// A disk and a server for one image after the other.
pub(crate) struct Bench {
    device: Device<Recorder>,
    sink: Sink,
    delivered: Arc<Mutex<Vec<u64>>>,
}

impl Bench {
    pub(crate) fn new(bytes: usize) -> Self {
        let delivered = Arc::new(Mutex::new(Vec::new()));
        let rows = Arc::clone(&delivered);
        let sink = Sink::start(SinkConfig {
            depth: Depth::Decode,
            strict: true,
            watch: Some(Watch::new(move |block| {
                locked(&rows).push(numbered::number_of(block));
            })),
            ..SinkConfig::default()
        });
        Self {
            device: Device::new(Recorder::new(bytes), tmp()),
            sink: sink.expect("listens"),
            delivered,
        }
    }

    /// The disk after the cut is mounted and opened: what is delivered?
    pub(crate) fn judge(&mut self, recording: &Recording, cut: Cut) -> Verdict {
        let (position, image) = image(recording, cut);
        locked(&self.delivered).clear();
        self.device.file.load(&image);
        self.device.attach();
        self.device.mount_disk().expect("a filesystem in order");
        let conf = conf(self.sink.addr(), &self.device.root(), "");
        let engine = Engine::connect(&conf).expect("the slot opens");
        engine.wait_acked(PATIENCE).expect("delivered");
        let set_aside = engine.stats().slots_set_aside;
        engine.close().expect("drained");
        assert!(self.device.unmount_disk(), "the disk stays mounted");
        let rows = locked(&self.delivered).clone();
        assert_eq!(set_aside, 0, "the slot was set aside; delivered {rows:?}");
        check(recording, position, &rows)
    }
}

/// How an image was.
pub(crate) struct Verdict {
    /// Rows that it delivered.
    pub(crate) delivered: u64,
    /// Rows of them that had to be there.
    pub(crate) promised: u64,
}

fn check(recording: &Recording, position: usize, rows: &[u64]) -> Verdict {
    let (stable, received) = (
        recording.stable_at(position),
        recording.received_at(position),
    );
    let said = format!("stable below {stable}, received below {received}: {rows:?}");
    let first = rows.first().copied().unwrap_or(received);
    let end = rows.last().map_or(received, |last| last + 1);
    let whole = rows.iter().copied().eq(first..end.max(first)) || rows.is_empty();
    assert!(whole, "rows in order, none left out or twice; {said}");
    assert!(
        first <= received,
        "a row that nobody has is missing; {said}"
    );
    assert!(stable <= end, "a stable row is missing; {said}");
    assert!(end <= recording.script.rows, "a row was invented; {said}");
    Verdict {
        delivered: rows.len() as u64,
        promised: stable.saturating_sub(first),
    }
}

/// The disk as the cut leaves it, and the position of the cut.
fn image(recording: &Recording, cut: Cut) -> (usize, Vec<u8>) {
    let mut image = recording.base.clone();
    let (position, mut chance) = match cut {
        Cut::Flush(position) => (position, None),
        Cut::Subset(position, seed) => (position, Some(Chance(seed | 1))),
    };
    let log = &recording.log[..position];
    let flushed = log
        .iter()
        .rposition(|entry| matches!(entry, Entry::Flush { .. }));
    let flushed = flushed.map_or(0, |last| last + 1);
    // All, most, half or few of what no flush covers, in blocks.
    let percent = chance
        .as_mut()
        .map_or(100, |c| [100, 90, 50, 15][c.below(4)]);
    for (index, entry) in log.iter().enumerate() {
        let Entry::Write { offset, bytes, .. } = entry else {
            continue;
        };
        for (number, part) in bytes.chunks(PIECE).enumerate() {
            let lost = index >= flushed && chance.as_mut().is_some_and(|c| c.below(100) >= percent);
            if !lost {
                let at = offset + number * PIECE;
                image[at..at + part.len()].copy_from_slice(part);
            }
        }
    }
    (position, image)
}

/// Up to `count` of the positions, evenly spread, first and last included.
pub(crate) fn spread(positions: &[usize], count: usize) -> Vec<usize> {
    if positions.len() <= count {
        return positions.to_vec();
    }
    let last = positions.len() - 1;
    let chosen = (0..count).map(|index| positions[index * last / (count - 1).max(1)]);
    chosen.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Numbers that follow from a seed (xorshift).
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
