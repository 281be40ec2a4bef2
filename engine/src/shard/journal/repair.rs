//! Repair of a poisoned journal, from memory, under the same lock.
//!
//! A failed write or fdatasync latches: nothing is submitted and no stage is reported any more,
//! appends wait, delivery goes on from memory. When the last operation has come back, everything
//! that no fdatasync is known to cover is written anew by the steward ([`crate::steward`],
//! `rebuild`), and the journal goes on where it was: all of it is stable then. A repair that fails
//! is tried again, with growing pauses, for as long as the engine runs.

use std::io;
use std::sync::Arc;

use super::rotate::signed;
use super::{Journal, Segment};
use crate::fsn::Fsn;
use crate::io::{BLOCK, Io, Pinned, Request};
use crate::slot::record::Record;
use crate::slot::segment::HEADER_BYTES;
use crate::slot::{DualFile, chunk};
use crate::steward::{Lost, Rebuild, Rebuilt};

/// First and longest pause before a repair that failed is tried again, in nanoseconds.
const PAUSE_FIRST: u64 = 200_000_000;
const PAUSE_MAX: u64 = 10_000_000_000;
/// Bytes of a piece of segment memory that is lent to the steward.
const PART_BYTES: usize = 1 << 20;
/// Entries of a chunk of a dictionary that is written anew.
const CHUNK_ENTRIES: u32 = 1024;

/// Where a repair stands.
#[derive(Debug, Default)]
pub(super) struct Repair {
    is_asked: bool,
    is_hopeless: bool,
    retry_at: u64,
    pause: u64,
}

impl Journal {
    /// Asks for a repair when nothing is in flight any more.
    pub(super) fn pump_repair(&mut self, io: &mut impl Io, now: u64) {
        if self.repair.is_asked
            || self.repair.is_hopeless
            || now < self.repair.retry_at
            || self.in_flight()
        {
            return;
        }
        let request = Request::Rebuild(Arc::new(self.plan_repair()));
        self.repair.is_asked = io.request(request).is_ok();
    }

    /// There is nothing to repair from.
    pub(super) fn give_up_repair(&mut self) {
        self.repair.is_hopeless = true;
    }

    fn plan_repair(&self) -> Rebuild {
        let files = self.files.as_ref().expect("poison needs files");
        let is_whole = files.dictionary_synced == files.dictionary_due;
        let dictionary = (!is_whole).then(|| self.whole_dictionary());
        let lost = self
            .chain
            .iter()
            .enumerate()
            .filter_map(|(index, segment)| {
                let key = self.first_key + index as u64;
                self.is_doubtful(segment).then(|| Lost {
                    key,
                    name: segment.name.clone(),
                    bytes: segment.bytes,
                    from: segment.memory_from - segment.memory_from % BLOCK as u64,
                    parts: parts_of(segment),
                })
            });
        let active = self.last_committed().base;
        let mark = signed(self.mark()) - 1;
        Rebuild {
            dir: files.dir.clone(),
            incarnation: files.incarnation.clone(),
            dictionary,
            segments: lost.collect(),
            watermark: files.watermark.next(mark, 0),
            manifest: next_record(&files.manifest, signed(self.chain[0].base), signed(active)),
        }
    }

    /// Whether something of the segment is covered by no fdatasync.
    fn is_doubtful(&self, segment: &Segment) -> bool {
        let doubtful = segment.next() > self.stable || !segment.committed;
        assert!(
            !doubtful || segment.memory.is_some(),
            "memory is kept until its frames are stable"
        );
        doubtful
    }

    fn whole_dictionary(&self) -> Vec<u8> {
        let mut bytes = chunk::HEADER.to_vec();
        let all = self.dictionary.len();
        let mut from = 0;
        while from < all {
            let to = all.min(from + CHUNK_ENTRIES);
            self.dictionary.chunk(from, to, &mut bytes);
            from = to;
        }
        bytes
    }

    /// The steward's answer.
    pub(super) fn rebuilt(&mut self, answer: io::Result<Rebuilt>, now: u64) {
        self.repair.is_asked = false;
        let rebuilt = match answer {
            Ok(rebuilt) => rebuilt,
            Err(error) => {
                self.gate.counters.disk_errors.add(1);
                let cause = format!("repairing the journal (tried again): {error}");
                self.gate.failed(&cause, false);
                self.repair.pause = (2 * self.repair.pause).clamp(PAUSE_FIRST, PAUSE_MAX);
                self.repair.retry_at = now + self.repair.pause;
                return;
            }
        };
        self.take_rebuilt(rebuilt);
        self.forget_steps();
        self.count_rebuilt(now);
        self.poisoned = None;
        self.repair = Repair::default();
        self.gate.counters.repairs.add(1);
        self.publish_gauges();
    }

    fn take_rebuilt(&mut self, rebuilt: Rebuilt) {
        let files = self.files.as_mut().expect("poison needs files");
        files.manifest = rebuilt.manifest;
        files.watermark = rebuilt.watermark;
        if let Some((file, bytes)) = rebuilt.dictionary {
            files.dictionary = file;
            (files.dictionary_bytes, files.dictionary_synced) = (bytes, bytes);
            files.dictionary_due = bytes;
            self.dictionary_pending.clear();
        }
        for (key, file) in rebuilt.segments {
            let segment = self
                .segment_mut(key)
                .expect("nothing is trimmed in a repair");
            segment.file = Some(file);
            if segment.committed {
                segment.written = segment.end;
            }
        }
    }

    /// What was under way when the disk failed begins anew, or is done.
    fn forget_steps(&mut self) {
        self.commit = None;
        self.trim = None;
        let recorded = self.files.as_ref().map(|files| files.watermark.first);
        let recorded = recorded.and_then(|last| u64::try_from(last + 1).ok());
        self.watermark.restart(Fsn(recorded.unwrap_or(0)));
        if let Some(rotation) = &mut self.rotation {
            // Both files are as after their fdatasyncs; the manifest does not name the new one.
            rotation.resume_at_manifest();
        }
    }

    /// Everything in committed segments is stable.
    fn count_rebuilt(&mut self, now: u64) {
        let through = self.last_committed().next();
        let counters = &self.gate.counters;
        counters.frames_written.add(through.since(self.written));
        counters.frames_stable.add(through.since(self.stable));
        (self.written, self.stable) = (through, through);
        self.last_sync = now;
    }
}

/// The record behind the next one: the next may have reached the disk in part.
fn next_record(file: &DualFile, first: i64, second: i64) -> Record {
    let next = file.next(first, second);
    Record {
        generation: next.generation + 1,
        ..next
    }
}

/// The segment's memory from its first whole block on; of one that the manifest does not name, the
/// header alone.
fn parts_of(segment: &Segment) -> Vec<Pinned> {
    let region = segment
        .memory
        .as_ref()
        .expect("doubtful ones are in memory");
    let length = |bytes: u64| usize::try_from(bytes).expect("mapped");
    let from = length(segment.memory_from - segment.memory_from % BLOCK as u64);
    let end = if segment.committed {
        length(segment.end)
    } else {
        length(HEADER_BYTES)
    };
    let starts = (from..end).step_by(PART_BYTES);
    starts
        .map(|start| region.pin(start..end.min(start + PART_BYTES)))
        .collect()
}
