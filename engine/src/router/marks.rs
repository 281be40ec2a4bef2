//! The application's own positions: which of them have reached which stage.
//!
//! A mark says "when so many entries of the lane have reached a stage, everything up to this
//! position has". The producer adds marks; any thread reads, without a lock and without waiting.
//!
//! Why readers may meet a slot half-written: its two words are written entries first and read
//! position first, and a slot is only ever given a later mark (or made empty: entries `u64::MAX`).
//! So the entries that a reader sees are those of the position that it sees, or of a later one:
//! what it concludes holds, at worst it concludes it a moment late.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::lane::{STAGES, Stage};

/// Marks kept per stage. When all wait, every second one goes, and from then on as many share a
/// slot: a position is then reported with the last of its slot.
const SLOTS: usize = 256;
/// No entries: the slot is empty.
const EMPTY: u64 = u64::MAX;

/// Marks of one lane, by stage. The memory comes with the first mark.
#[derive(Debug, Default)]
pub(crate) struct Marks(OnceLock<Box<[Track]>>);

#[derive(Debug)]
struct Track {
    slots: Box<[Slot]>,
    /// Slots in use. This and the next two are the producer's alone.
    used: AtomicUsize,
    /// Marks that share a slot, and those in the last one.
    stride: AtomicUsize,
    merged: AtomicUsize,
    /// One more than the highest position known to have reached the stage; 0 for none.
    passed: AtomicU64,
}

#[derive(Debug)]
struct Slot {
    entries: AtomicU64,
    /// One more than the position.
    position: AtomicU64,
}

impl Slot {
    fn set(&self, entries: u64, position: u64) {
        self.entries.store(entries, Ordering::Release);
        self.position.store(position, Ordering::Release);
    }

    fn get(&self) -> (u64, u64) {
        let position = self.position.load(Ordering::Acquire);
        (self.entries.load(Ordering::Acquire), position)
    }
}

impl Marks {
    /// Makes the memory for marks.
    pub(crate) fn reserve(&self) {
        self.tracks();
    }

    fn tracks(&self) -> &[Track] {
        self.0.get_or_init(|| STAGES.map(|_| Track::new()).into())
    }

    /// Positions up to `position` are complete with the first `entries` entries; neither is lower
    /// than before. For the lane's producer only. `reached` tells how many entries have reached a
    /// stage.
    pub(crate) fn note(&self, entries: u64, position: u64, reached: impl Fn(Stage) -> u64) {
        for (track, stage) in self.tracks().iter().zip(STAGES) {
            track.note(entries, position.saturating_add(1), reached(stage));
        }
    }

    /// The highest position that has reached `stage`, at which `reached` entries have arrived.
    pub(crate) fn passed(&self, stage: Stage, reached: u64) -> Option<u64> {
        let tracks = self.0.get()?.iter().zip(STAGES);
        let (track, _) = tracks.into_iter().find(|(_, other)| *other == stage)?;
        track.look(reached).checked_sub(1)
    }
}

impl Track {
    fn new() -> Self {
        let empty = || Slot {
            entries: AtomicU64::new(EMPTY),
            position: AtomicU64::new(0),
        };
        Self {
            slots: (0..SLOTS).map(|_| empty()).collect(),
            used: AtomicUsize::new(0),
            stride: AtomicUsize::new(1),
            merged: AtomicUsize::new(1),
            passed: AtomicU64::new(0),
        }
    }

    fn note(&self, entries: u64, position: u64, reached: u64) {
        let load = |word: &AtomicUsize| word.load(Ordering::Relaxed);
        let (mut used, mut stride) = (load(&self.used), load(&self.stride));
        let mut merged = load(&self.merged);
        let late = stride > 1 && self.slots[0].get().0 <= reached;
        if used == SLOTS || late {
            let done = self.slots[..used].partition_point(|slot| slot.get().0 <= reached);
            if done > 0 {
                let passed = self.slots[done - 1].get().1;
                self.passed.fetch_max(passed, Ordering::AcqRel);
                used = self.keep(used - done, |index| index + done);
                (stride, merged) = (1, 1);
            } else {
                used = self.keep(used / 2, |index| 2 * index + 1);
                stride *= 2;
                merged = stride;
            }
        }
        if merged < stride && used > 0 {
            self.slots[used - 1].set(entries, position);
            merged += 1;
        } else {
            self.slots[used].set(entries, position);
            (used, merged) = (used + 1, 1);
        }
        self.used.store(used, Ordering::Relaxed);
        self.stride.store(stride, Ordering::Relaxed);
        self.merged.store(merged, Ordering::Relaxed);
    }

    /// Keeps `count` marks, the new number `i` being the old number `from(i)`.
    fn keep(&self, count: usize, from: impl Fn(usize) -> usize) -> usize {
        for index in 0..count {
            let (entries, position) = self.slots[from(index)].get();
            self.slots[index].set(entries, position);
        }
        for slot in &self.slots[count..] {
            slot.entries.store(EMPTY, Ordering::Release);
        }
        count
    }

    /// One more than the highest position that is complete with `reached` entries.
    fn look(&self, reached: u64) -> u64 {
        let marks = self.slots.iter().map(Slot::get);
        let done = marks.filter(|(entries, _)| *entries <= reached);
        let best = done.map(|(_, position)| position).max().unwrap_or(0);
        // What was seen once is never taken back, though its mark may go.
        best.max(self.passed.fetch_max(best, Ordering::AcqRel))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn positions_pass_with_their_entries_and_never_fall_back() {
        let marks = Marks::default();
        assert_eq!(marks.passed(Stage::Acked, u64::MAX - 1), None, "no mark");
        for entry in 1..=100_000u64 {
            let acked = entry / 2;
            marks.note(entry, entry * 10, |_| acked);
            let passed = marks.passed(Stage::Acked, acked).unwrap_or(0);
            assert!(passed <= acked * 10, "{passed} of {acked} entries");
        }
        assert_eq!(marks.passed(Stage::Acked, 100_000), Some(1_000_000));
        assert_eq!(marks.passed(Stage::Acked, 0), Some(1_000_000), "seen once");
    }

    #[test]
    fn thousands_that_wait_are_thinned_out_and_reported_late_at_worst() {
        let marks = Marks::default();
        for entry in 1..=10_000u64 {
            marks.note(entry, entry, |_| 0);
        }
        for reached in (0..10_000).step_by(97) {
            let passed = marks.passed(Stage::Written, reached).unwrap_or(0);
            assert!(passed <= reached && reached - passed <= 256, "{passed}");
        }
        assert_eq!(marks.passed(Stage::Written, 10_000), Some(10_000));
        // Once they have passed, every mark counts again.
        for entry in 10_001..=10_100u64 {
            marks.note(entry, entry, |_| entry - 10);
            assert_eq!(marks.passed(Stage::Written, entry - 1), Some(entry - 1));
        }
    }

    /// Other threads read while the producer adds: nothing is seen early, nothing is taken back.
    #[test]
    fn readers_beside_the_producer_see_only_what_holds() {
        let (marks, reached, over) = (Marks::default(), AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !over.load(Ordering::Acquire) {
                        let entries = reached.load(Ordering::Acquire);
                        let passed = marks.passed(Stage::Acked, entries).unwrap_or(0);
                        // The other reader may have seen more meanwhile.
                        assert!(passed <= reached.load(Ordering::Acquire) * 3, "{passed}");
                        assert!(passed >= last, "{passed} after {last}");
                        last = passed;
                    }
                });
            }
            for entry in 1..=300_000u64 {
                // In bursts, so that marks are sometimes passed and sometimes thinned out.
                if entry % 1000 == 0 {
                    reached.store(entry - 1, Ordering::Release);
                }
                marks.note(entry, entry * 3, |_| reached.load(Ordering::Acquire));
            }
            over.store(true, Ordering::Release);
        });
    }
}
