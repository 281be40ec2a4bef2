//! Trim: whole segments at or below the acknowledgement leave the chain.
//!
//! Order on disk (slot-format.md section 3.2, 7): dictionary synced (it becomes the only copy of
//! the ids) -> watermark, fdatasync -> manifest with the new head, fdatasync -> unlink, directory
//! sync (the steward's). Trims are gathered for [`TRIM_PAUSE`] unless room is short: each costs
//! three flushes, whatever it removes.

use std::io;

use super::phase::Phase;
use super::rotate::signed;
use super::{Journal, token};
use crate::fsn::Fsn;
use crate::io::{BLOCK, DiskOp, Io, Request, Token};
use crate::slot::record::Record;

/// Shortest time between two trims, in nanoseconds.
const TRIM_PAUSE: u64 = 50_000_000;
/// Most segments of one trim (slot-format.md section 7).
const TRIM_SEGMENTS_MAX: usize = 64;

/// A trim under way.
#[derive(Debug)]
pub(super) struct Trim {
    segments: usize,
    head: Fsn,
    mark: Fsn,
    dictionary_bytes: u64,
    sync_dictionary: Phase,
    watermark: Phase,
    sync_watermark: Phase,
    manifest: Phase,
    sync_manifest: Phase,
    marked: Option<Record>,
    record: Option<Record>,
}

impl Trim {
    pub(super) fn in_flight(&self) -> bool {
        [
            self.sync_dictionary,
            self.watermark,
            self.sync_watermark,
            self.manifest,
            self.sync_manifest,
        ]
        .into_iter()
        .any(Phase::is_in_flight)
    }

    pub(super) fn holds_manifest(&self) -> bool {
        self.record.is_some()
    }
}

impl Journal {
    /// The watermark record's value: what is both acked and written (design.md, section 3).
    pub(super) fn mark(&self) -> Fsn {
        self.acked.min(self.written)
    }

    fn trimmable(&self) -> usize {
        let mark = self.mark();
        let sealed = self.chain.len() - 1;
        self.chain
            .iter()
            .take(sealed.min(TRIM_SEGMENTS_MAX))
            .take_while(|s| s.next() <= mark)
            .count()
    }

    fn begin_trim(&mut self, now: u64) {
        let segments = self.trimmable();
        if segments == 0 {
            return;
        }
        let short = !self.has_room_for(2 * self.options.segment_bytes);
        if !short && now < self.watermark.last_trim + TRIM_PAUSE {
            return;
        }
        // The successor must be named by the manifest before it can become its head.
        if !self.chain[segments].committed {
            return;
        }
        let files = self.files.as_ref().expect("trims need files");
        let synced = files.dictionary_synced == files.dictionary_bytes;
        self.watermark.last_trim = now;
        self.trim = Some(Trim {
            segments,
            head: self.chain[segments].base,
            mark: self.mark(),
            dictionary_bytes: files.dictionary_bytes,
            sync_dictionary: if synced { Phase::Done } else { Phase::Waiting },
            watermark: Phase::Waiting,
            sync_watermark: Phase::Waiting,
            manifest: Phase::Waiting,
            sync_manifest: Phase::Waiting,
            marked: None,
            record: None,
        });
    }

    pub(super) fn pump_trim(&mut self, io: &mut impl Io, now: u64) {
        if self.trim.is_none() {
            self.begin_trim(now);
        }
        let active = self
            .chain
            .iter()
            .rev()
            .find(|s| s.committed)
            .map(|s| s.base);
        let Some(trim) = &mut self.trim else { return };
        let files = self.files.as_mut().expect("trims need files");
        let sync = |file: &crate::io::File| DiskOp::Sync { file: file.clone() };
        let dictionary = &files.dictionary;
        trim.sync_dictionary
            .start(true, io, token::TRIM_DICTIONARY, || sync(dictionary));
        let ready = trim.sync_dictionary.is_done();
        if ready && trim.marked.is_none() && !self.watermark.is_busy() {
            let record = files.watermark.next(signed(trim.mark) - 1, 0);
            let (_, half) = files.watermark.half(record);
            self.scratch
                .watermark
                .slice_mut(0..BLOCK)
                .copy_from_slice(&half);
            trim.marked = Some(record);
        }
        if let Some(record) = trim.marked {
            trim.watermark
                .start(true, io, token::TRIM_WATERMARK, || DiskOp::Write {
                    file: files.watermark.file.clone(),
                    offset: record.offset(),
                    bytes: self.scratch.watermark.pin(0..BLOCK),
                    tail: None,
                });
        }
        let marked = trim.watermark.is_done();
        let watermark = &files.watermark.file;
        trim.sync_watermark
            .start(marked, io, token::TRIM_SYNC_WATERMARK, || sync(watermark));
        let free = self
            .rotation
            .as_ref()
            .is_none_or(|rotation| !rotation.holds_manifest());
        if trim.sync_watermark.is_done() && free && trim.record.is_none() {
            let active = active.expect("some segment is always committed");
            let record = files.manifest.next(signed(trim.head), signed(active));
            let (_, half) = files.manifest.half(record);
            self.scratch
                .manifest
                .slice_mut(0..BLOCK)
                .copy_from_slice(&half);
            trim.record = Some(record);
        }
        if let Some(record) = trim.record {
            trim.manifest
                .start(true, io, token::TRIM_MANIFEST, || DiskOp::Write {
                    file: files.manifest.file.clone(),
                    offset: record.offset(),
                    bytes: self.scratch.manifest.pin(0..BLOCK),
                    tail: None,
                });
        }
        let written = trim.manifest.is_done();
        let manifest = &files.manifest.file;
        trim.sync_manifest
            .start(written, io, token::TRIM_SYNC_MANIFEST, || sync(manifest));
        if trim.sync_manifest.is_done() {
            self.finish_trim(io);
        }
    }

    pub(super) fn trim_done(
        &mut self,
        token: Token,
        result: io::Result<u32>,
    ) -> Result<(), String> {
        let trim = self.trim.as_mut().expect("a completion has its trim");
        let files = self.files.as_mut().expect("trims need files");
        match token {
            token::TRIM_DICTIONARY => {
                trim.sync_dictionary
                    .finish(result, 0, "fdatasync of the dictionary")?;
                files.dictionary_synced = files.dictionary_synced.max(trim.dictionary_bytes);
            }
            token::TRIM_WATERMARK => {
                trim.watermark.finish(result, BLOCK, "watermark write")?;
                files
                    .watermark
                    .set_current(trim.marked.expect("written after it was made"));
                self.watermark.recorded = self.watermark.recorded.max(trim.mark);
            }
            token::TRIM_SYNC_WATERMARK => {
                trim.sync_watermark
                    .finish(result, 0, "fdatasync of the watermark")?;
            }
            token::TRIM_MANIFEST => trim.manifest.finish(result, BLOCK, "manifest write")?,
            _ => {
                trim.sync_manifest
                    .finish(result, 0, "fdatasync of the manifest")?;
                files
                    .manifest
                    .set_current(trim.record.expect("written after it was made"));
            }
        }
        Ok(())
    }

    /// The head is durable: the segments leave memory, the steward removes the files.
    fn finish_trim(&mut self, io: &mut impl Io) {
        let trim = self.trim.as_ref().expect("called while trimming");
        let segments = trim.segments;
        let names = self
            .chain
            .iter()
            .take(segments)
            .map(|s| s.name.clone())
            .collect();
        let dir = self.files.as_ref().expect("trims need files").dir.clone();
        if io.request(Request::Remove { dir, names }).is_err() {
            return; // the steward's queue is full: next turn
        }
        self.trim = None;
        for segment in self.chain.drain(..segments) {
            self.allocated -= segment.bytes;
            if let Some(region) = segment.memory {
                self.memory.put(region);
            }
        }
        self.first_key += segments as u64;
        self.gate.counters.segments_trimmed.add(segments as u64);
        self.publish_gauges();
    }

    /// Memory mode: acked segments give their memory back.
    pub(super) fn trim_memory(&mut self) {
        while self.chain.len() > 1 && self.chain[0].next() <= self.acked {
            let segment = self.chain.pop_front().expect("more than one");
            self.first_key += 1;
            self.allocated -= segment.bytes;
            self.gate.counters.segments_trimmed.add(1);
            if let Some(region) = segment.memory {
                self.memory.put(region);
            }
        }
    }
}
