//! Which producer's entry each frame was, and how far frames have come: receipts, counters and
//! latencies follow from it.
//!
//! Exact for the last [`EXACT_FRAMES_MAX`] frames. Older ones (an outage with millions of small
//! frames) are folded into marks of up to [`MARK_FRAMES`] frames per lane: a receipt of a folded
//! frame is reported with the last frame of its mark, later than it could be, never earlier.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::fsn::Fsn;
use crate::observe::{Counters, Histogram};
use crate::router::lane::{Lane, Stage};

const EXACT_FRAMES_MAX: usize = 65_536;
const MARK_FRAMES: u64 = 4096;
const STAGES: usize = 4;
const WRITTEN: usize = 0;
const STABLE: usize = 1;
const ACKED: usize = 2;
const DURABLE: usize = 3;

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
    /// When the first of them was accepted.
    accepted_ns: u64,
}

#[derive(Debug, Default)]
struct LaneProgress {
    lane: Option<Arc<Lane>>,
    marks: VecDeque<Mark>,
    /// Entry count per stage (written, stable, acked, durable) already published.
    reached: [u64; STAGES],
    touched: bool,
    /// First FSN behind the lane's last frame.
    end: Fsn,
    /// The producer is gone and its ring is empty: freed once every stage has passed `end`.
    left: bool,
}

/// Progress of all frames of a slot that this process published.
#[derive(Debug)]
pub(crate) struct Progress {
    frames: VecDeque<Meta>,
    /// FSN of `frames[0]`.
    base: Fsn,
    /// First FSN not reported, per stage.
    reported: [Fsn; STAGES],
    lanes: Vec<LaneProgress>,
    has_files: bool,
    /// The stage at which a frame is done with the server: acked, or durable where that is asked.
    last: usize,
    marked: usize,
    /// Bytes of own frames not acked.
    own_bytes: u64,
    /// Frames and bytes that were recovered and are not acked.
    recovered: (u64, u64),
}

/// Index into the per-stage arrays.
fn index(stage: Stage) -> usize {
    match stage {
        Stage::Accepted | Stage::Written => WRITTEN,
        Stage::Stable => STABLE,
        Stage::Acked => ACKED,
        Stage::Durable => DURABLE,
    }
}

/// Notes how many entries of a lane, if it is one, have reached a stage.
fn come_to(lanes: &mut [LaneProgress], lane: usize, which: usize, reached: u64) {
    if let Some(lane) = lanes.get_mut(lane)
        && reached > lane.reached[which]
    {
        lane.reached[which] = reached;
        lane.touched = true;
    }
}

impl Progress {
    /// Starts at `next`, the first FSN this process gives out; `unacked_bytes` lie unacked in
    /// `recovered` frames before it.
    pub(crate) fn new(
        next: Fsn,
        has_files: bool,
        durable: bool,
        (recovered, unacked_bytes): (u64, u64),
    ) -> Self {
        Self {
            frames: VecDeque::with_capacity(EXACT_FRAMES_MAX + 1),
            base: next,
            reported: [next; STAGES],
            lanes: Vec::new(),
            has_files,
            last: if durable { DURABLE } else { ACKED },
            marked: 0,
            own_bytes: 0,
            recovered: (recovered, unacked_bytes),
        }
    }

    /// Registers a lane; the number names it until [`leave`](Self::leave) and beyond, until its
    /// last frame has passed every stage.
    pub(crate) fn join(&mut self, lane: Arc<Lane>) -> usize {
        let joined = LaneProgress {
            lane: Some(lane),
            ..LaneProgress::default()
        };
        if let Some(free) = self.lanes.iter().position(|lane| lane.lane.is_none()) {
            self.lanes[free] = joined;
            return free;
        }
        self.lanes.push(joined);
        self.lanes.len() - 1
    }

    /// Nothing more will come from the lane.
    pub(crate) fn leave(&mut self, index: usize) {
        self.lanes[index].left = true;
    }

    /// Frees lanes that have left and whose frames have passed every stage; calls `freed` for
    /// each. `true` if some wait for an fdatasync only.
    pub(crate) fn sweep(&mut self, mut freed: impl FnMut(&Arc<Lane>)) -> bool {
        let [written, stable, ..] = self.reported;
        let acked = self.reported[self.last];
        let mut waits = false;
        for lane in self.lanes.iter_mut().filter(|lane| lane.left) {
            let on_disk = !self.has_files || stable >= lane.end;
            if acked >= lane.end && on_disk {
                if let Some(shared) = lane.lane.take() {
                    freed(&shared);
                }
                *lane = LaneProgress::default();
            } else {
                waits |= acked >= lane.end && written >= lane.end;
            }
        }
        waits
    }

    /// Forgets all frames from `next` on: their entries come again, as other frames.
    ///
    /// # Errors
    /// If these books know less, or a frame is missing that they know to be on disk.
    pub(crate) fn rewind(&mut self, next: Fsn) -> Result<(), String> {
        let end = self.base.plus(self.frames.len() as u64);
        if next < self.base || next > end {
            let known = (self.base, end);
            return Err(format!(
                "the disk ends at {next:?}, the books know {known:?}"
            ));
        }
        let keep = usize::try_from(next.since(self.base)).map_err(|error| error.to_string())?;
        let counted = self.reported[self.last].since(self.base).max(keep as u64);
        let open = usize::try_from(counted).unwrap_or(usize::MAX);
        let bytes = self
            .frames
            .iter()
            .skip(open)
            .map(|meta| u64::from(meta.bytes));
        self.own_bytes = self.own_bytes.saturating_sub(bytes.sum());
        self.frames.truncate(keep);
        for reported in &mut self.reported {
            *reported = (*reported).min(next);
        }
        for lane in &mut self.lanes {
            lane.end = lane.end.min(next);
            lane.touched = false;
        }
        Ok(())
    }

    /// How many entries of a lane are in frames that these books know.
    pub(crate) fn on_disk(&self, lane: usize) -> u64 {
        let of_lane = |meta: &&Meta| meta.lane as usize == lane;
        let last = self.frames.iter().rev().find(of_lane);
        let exact = last.map_or(0, |meta| meta.seq + 1);
        let lane = &self.lanes[lane];
        let marked = lane.marks.back().map_or(0, |mark| mark.seq_end);
        exact.max(marked).max(lane.reached[WRITTEN])
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
        let written = !self.has_files || self.reported[WRITTEN] > self.base;
        if self.frames.len() >= EXACT_FRAMES_MAX && written {
            self.fold();
        }
        let bytes = u32::try_from(bytes).expect("frames are at most 16 MiB");
        self.lanes[lane].end = self.base.plus(self.frames.len() as u64 + 1);
        let lane = u32::try_from(lane).expect("lanes are bounded by the producers");
        self.own_bytes += u64::from(bytes);
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
        // What is acked already was counted.
        let open = |stage: usize| self.reported[stage] <= fsn;
        let rows = if open(ACKED) { u64::from(meta.rows) } else { 0 };
        let bytes = if open(self.last) {
            u64::from(meta.bytes)
        } else {
            0
        };
        let marks = &mut self.lanes[meta.lane as usize].marks;
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
                    accepted_ns: meta.accepted_ns,
                });
                self.marked += 1;
            }
        }
    }

    /// Reports that every frame below `to` has reached `stage`.
    pub(crate) fn advance(&mut self, stage: Stage, to: Fsn, now: u64, counters: &Counters) {
        let which = index(stage);
        let from = self.reported[which];
        if to <= from || (!self.has_files && which < ACKED) {
            return;
        }
        self.reported[which] = to;
        if self.marked > 0 {
            self.advance_marks(which, to, counters);
        }
        let histogram = match which {
            WRITTEN => Some(&counters.accept_to_written),
            STABLE => Some(&counters.accept_to_stable),
            ACKED => Some(&counters.accept_to_acked),
            _ => None,
        };
        let first = usize::try_from(from.since(self.base)).expect("frames are in memory");
        let last = usize::try_from(to.since(self.base)).expect("frames are in memory");
        let (mut rows, mut bytes) = (0, 0);
        let mut burst = histogram.map(Histogram::burst);
        // The lane at hand, and its count.
        let (mut lane, mut reached) = (usize::MAX, 0);
        for meta in self.frames.range(first.min(last)..last) {
            if let Some(burst) = &mut burst {
                burst.add(now.saturating_sub(meta.accepted_ns));
            }
            if meta.lane as usize != lane {
                come_to(&mut self.lanes, lane, which, reached);
                lane = meta.lane as usize;
                reached = self.lanes[lane].reached[which];
            }
            bytes += u64::from(meta.bytes);
            // Not for the first time after a panic of the shard.
            if meta.seq >= reached {
                reached = meta.seq + 1;
                rows += u64::from(meta.rows);
            }
        }
        drop(burst);
        come_to(&mut self.lanes, lane, which, reached);
        if which == ACKED {
            counters.rows_acked.add(rows);
        }
        if which == self.last {
            self.own_bytes = self.own_bytes.saturating_sub(bytes);
        }
        self.forget_finished();
        self.publish(stage);
    }

    /// Counts recovered frames that were acked; they have no entry in any lane.
    pub(crate) fn recovered_acked(&mut self, frames: u64) {
        let (left, bytes) = self.recovered;
        let frames = frames.min(left);
        if frames == left {
            self.recovered = (0, 0);
        } else {
            self.recovered = (left - frames, bytes - bytes / left * frames);
        }
    }

    /// Bytes of frames not acked; recovered ones count by their average.
    pub(crate) fn unacked_bytes(&self) -> u64 {
        self.own_bytes + self.recovered.1
    }

    /// When the oldest unacked frame was accepted, at the latest: a recovered one at `start`.
    pub(crate) fn oldest_unacked(&self, start: u64) -> Option<u64> {
        if self.recovered.0 > 0 {
            return Some(start);
        }
        let acked = self.reported[self.last];
        let marks = self.lanes.iter().filter(|lane| !lane.marks.is_empty());
        let marked = marks.filter_map(|lane| {
            let open = lane.marks.iter().find(|mark| mark.end > acked);
            open.map(|mark| mark.accepted_ns)
        });
        if self.marked > 0
            && let Some(oldest) = marked.min()
        {
            return Some(oldest);
        }
        let index = usize::try_from(acked.since(self.base)).ok()?;
        self.frames.get(index).map(|meta| meta.accepted_ns)
    }

    fn advance_marks(&mut self, which: usize, to: Fsn, counters: &Counters) {
        let stable = if self.has_files {
            self.reported[STABLE]
        } else {
            to
        };
        let finished = to.min(stable).min(self.reported[self.last]);
        for lane in self.lanes.iter_mut().filter(|lane| !lane.marks.is_empty()) {
            for mark in lane.marks.iter().take_while(|mark| mark.end <= to) {
                if lane.reached[which] < mark.seq_end {
                    lane.reached[which] = mark.seq_end;
                    lane.touched = true;
                    if which == ACKED {
                        counters.rows_acked.add(mark.rows);
                    }
                    if which == self.last {
                        self.own_bytes = self.own_bytes.saturating_sub(mark.bytes);
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
            let asked = &self.reported[..=self.last];
            asked.iter().copied().min().expect("three or four stages")
        } else {
            self.reported[self.last]
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
                shared.notify(stage);
            }
        }
    }
}
