//! Which producer's entry each frame was, and how far frames have come: receipts, counters and
//! latencies follow from it.
//!
//! Exact for the last [`EXACT_FRAMES_MAX`] frames. Older ones (an outage with millions of small
//! frames) are folded into marks of up to [`MARK_FRAMES`] frames per lane: a receipt of a folded
//! frame is reported with the last frame of its mark, later than it could be, never earlier.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::fsn::Fsn;
use crate::observe::Counters;
use crate::router::lane::{Lane, Stage};

const EXACT_FRAMES_MAX: usize = 65_536;
const MARK_FRAMES: u64 = 4096;

/// A frame whose acknowledgement is awaited.
#[derive(Debug, Clone, Copy)]
struct Meta {
    accepted_ns: u64,
    /// Number of the entry in its lane.
    seq: u64,
    lane: u32,
    rows: u32,
    bytes: u32,
}

/// Frames up to `end` came from entries up to `seq_end` of the lane.
#[derive(Debug, Clone, Copy)]
struct Mark {
    start: Fsn,
    end: Fsn,
    seq_end: u64,
    rows: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct LaneProgress {
    lane: Option<Arc<Lane>>,
    marks: VecDeque<Mark>,
    /// Entry count per stage (written, stable, acked) already published.
    reached: [u64; 3],
    touched: bool,
}

/// Progress of all frames of a slot that this process published.
#[derive(Debug)]
pub(crate) struct Progress {
    frames: VecDeque<Meta>,
    /// FSN of `frames[0]`.
    base: Fsn,
    /// First FSN not reported, per stage.
    reported: [Fsn; 3],
    lanes: Vec<LaneProgress>,
    has_files: bool,
    marked: usize,
    /// Bytes of frames not acked; recovered frames count by their average.
    unacked_bytes: u64,
    recovered_left: u64,
}

/// Index into the per-stage arrays.
fn index(stage: Stage) -> usize {
    match stage {
        Stage::Accepted | Stage::Written => 0,
        Stage::Stable => 1,
        Stage::Acked | Stage::Durable => 2,
    }
}

impl Progress {
    /// Starts at `next`, the first FSN this process gives out; `unacked_bytes` lie unacked in
    /// `recovered` frames before it.
    pub(crate) fn new(next: Fsn, has_files: bool, recovered: u64, unacked_bytes: u64) -> Self {
        Self {
            frames: VecDeque::with_capacity(EXACT_FRAMES_MAX + 1),
            base: next,
            reported: [next; 3],
            lanes: Vec::new(),
            has_files,
            marked: 0,
            unacked_bytes,
            recovered_left: recovered,
        }
    }

    /// Registers a lane under an index.
    pub(crate) fn join(&mut self, index: usize, lane: Arc<Lane>) {
        if index >= self.lanes.len() {
            self.lanes.resize_with(index + 1, LaneProgress::default);
        }
        self.lanes[index] = LaneProgress {
            lane: Some(lane),
            ..LaneProgress::default()
        };
    }

    /// Whether all entries of the lane below `seq_end` are acked.
    pub(crate) fn is_acked(&self, index: usize, seq_end: u64) -> bool {
        self.lanes[index].reached[2] >= seq_end
    }

    /// Notes the frame just appended.
    pub(crate) fn appended(
        &mut self,
        lane: usize,
        seq: u64,
        accepted_ns: u64,
        rows: u32,
        bytes: usize,
    ) {
        let written = !self.has_files || self.reported[0] > self.base;
        if self.frames.len() >= EXACT_FRAMES_MAX && written {
            self.fold();
        }
        let bytes = u32::try_from(bytes).expect("frames are at most 16 MiB");
        let lane = u32::try_from(lane).expect("at most 1,024 lanes");
        self.unacked_bytes += u64::from(bytes);
        self.frames.push_back(Meta {
            accepted_ns,
            seq,
            lane,
            rows,
            bytes,
        });
    }

    /// Moves the oldest frame into its lane's marks.
    fn fold(&mut self) {
        let Some(meta) = self.frames.pop_front() else {
            return;
        };
        let fsn = self.base;
        self.base = fsn.plus(1);
        let marks = &mut self.lanes[meta.lane as usize].marks;
        let (rows, bytes) = (u64::from(meta.rows), u64::from(meta.bytes));
        match marks.back_mut() {
            Some(mark) if fsn.since(mark.start) < MARK_FRAMES => {
                mark.end = fsn.plus(1);
                mark.seq_end = meta.seq + 1;
                mark.rows += rows;
                mark.bytes += bytes;
            }
            _ => {
                let (end, seq_end) = (fsn.plus(1), meta.seq + 1);
                marks.push_back(Mark {
                    start: fsn,
                    end,
                    seq_end,
                    rows,
                    bytes,
                });
                self.marked += 1;
            }
        }
    }

    /// Reports that every frame below `to` has reached `stage`.
    pub(crate) fn advance(&mut self, stage: Stage, to: Fsn, now: u64, counters: &Counters) {
        let which = index(stage);
        let from = self.reported[which];
        if to <= from || (!self.has_files && which < 2) {
            return;
        }
        self.reported[which] = to;
        if self.marked > 0 {
            self.advance_marks(which, to, counters);
        }
        let histogram = match which {
            0 => &counters.accept_to_written,
            1 => &counters.accept_to_stable,
            _ => &counters.accept_to_acked,
        };
        let first = usize::try_from(from.since(self.base)).expect("frames are in memory");
        let last = usize::try_from(to.since(self.base)).expect("frames are in memory");
        let (mut rows, mut bytes) = (0, 0);
        for meta in self.frames.range(first.min(last)..last) {
            histogram.record(now.saturating_sub(meta.accepted_ns), 1);
            let lane = &mut self.lanes[meta.lane as usize];
            lane.reached[which] = meta.seq + 1;
            lane.touched = true;
            rows += u64::from(meta.rows);
            bytes += u64::from(meta.bytes);
        }
        if which == 2 {
            counters.rows_acked.add(rows);
            self.unacked_bytes = self.unacked_bytes.saturating_sub(bytes);
        }
        self.forget_finished();
        self.publish(stage);
    }

    /// Counts recovered frames that were acked; they have no entry in any lane.
    pub(crate) fn recovered_acked(&mut self, frames: u64) {
        let frames = frames.min(self.recovered_left);
        if frames > 0 {
            self.unacked_bytes -= self.unacked_bytes / self.recovered_left * frames;
            self.recovered_left -= frames;
        }
    }

    /// Bytes of frames not acked.
    pub(crate) fn unacked_bytes(&self) -> u64 {
        self.unacked_bytes
    }

    fn advance_marks(&mut self, which: usize, to: Fsn, counters: &Counters) {
        let stable = if self.has_files { self.reported[1] } else { to };
        let finished = to.min(stable).min(self.reported[2]);
        for lane in self.lanes.iter_mut().filter(|lane| !lane.marks.is_empty()) {
            for mark in lane.marks.iter().take_while(|mark| mark.end <= to) {
                if lane.reached[which] < mark.seq_end {
                    lane.reached[which] = mark.seq_end;
                    lane.touched = true;
                    if which == 2 {
                        counters.rows_acked.add(mark.rows);
                        self.unacked_bytes = self.unacked_bytes.saturating_sub(mark.bytes);
                    }
                }
            }
            while lane.marks.front().is_some_and(|mark| mark.end <= finished) {
                lane.marks.pop_front();
                self.marked -= 1;
            }
        }
    }

    /// Drops frames that have reached every stage that can still be asked for.
    fn forget_finished(&mut self) {
        let done = if self.has_files {
            self.reported.iter().copied().min().expect("three stages")
        } else {
            self.reported[2]
        };
        let count = usize::try_from(done.since(self.base))
            .unwrap_or(0)
            .min(self.frames.len());
        self.frames.drain(..count);
        self.base = self.base.plus(count as u64);
    }

    /// Publishes the touched lanes' counts and wakes who waits for them.
    fn publish(&mut self, stage: Stage) {
        let which = index(stage);
        for lane in self.lanes.iter_mut().filter(|lane| lane.touched) {
            lane.touched = false;
            if let Some(shared) = &lane.lane {
                shared.advance(stage, lane.reached[which]);
                shared.notify();
            }
        }
    }
}
