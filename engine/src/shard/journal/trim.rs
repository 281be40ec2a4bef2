//! Trim: whole segments at or below the acknowledgement leave the chain.
//!
//! Order on disk (slot-format.md section 3.2, 7): dictionary synced (it becomes the only copy of
//! the ids) -> watermark, fdatasync -> manifest with the new head, fdatasync -> unlink, directory
//! sync (the steward's, see `removals`). Trims are gathered for [`TRIM_PAUSE`] unless room is
//! short: each costs three flushes, whatever it removes.

use std::io;

use super::commit::Commit;
use super::phase::Phase;
use super::record_write::RecordWrite;
use super::rotate::signed;
use super::{Journal, token};
use crate::fsn::Fsn;
use crate::io::{DiskOp, Doomed, Io, Token};

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
    watermark: RecordWrite,
    manifest: RecordWrite,
}

impl Trim {
    pub(super) fn in_flight(&self) -> bool {
        self.sync_dictionary.is_in_flight()
            || self.watermark.in_flight()
            || self.manifest.in_flight()
    }

    /// Whether an fdatasync of the dictionary is with the kernel.
    pub(super) fn syncs_dictionary(&self) -> bool {
        self.sync_dictionary.is_in_flight()
    }

    /// The step behind `token` is submitted again.
    pub(super) fn again(&mut self, token: Token) {
        match token {
            token::TRIM_DICTIONARY => self.sync_dictionary.again(),
            token::TRIM_WATERMARK | token::TRIM_SYNC_WATERMARK => self.watermark.again(),
            _ => self.manifest.again(),
        }
    }

    pub(super) fn holds_manifest(&self) -> bool {
        self.manifest.is_begun()
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
        if segments == 0 || self.epoch.settles() {
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
        self.watermark.last_trim = now;
        self.trim = Some(Trim {
            segments,
            head: self.chain[segments].base,
            mark: self.mark(),
            dictionary_bytes: files.dictionary_bytes,
            sync_dictionary: Phase::default(),
            watermark: RecordWrite::default(),
            manifest: RecordWrite::default(),
        });
    }

    pub(super) fn pump_trim(&mut self, io: &mut impl Io, now: u64) {
        if self.trim.is_none() {
            self.begin_trim(now);
        }
        let active = self.last_committed().base;
        let Some(trim) = &mut self.trim else { return };
        let files = self.files.as_ref().expect("trims need files");
        trim.sync_dictionary
            .skip(files.dictionary_synced >= trim.dictionary_bytes);
        let alone = !self.commit.as_ref().is_some_and(Commit::syncs_dictionary);
        trim.sync_dictionary
            .start(alone, io, token::TRIM_DICTIONARY, || DiskOp::Sync {
                file: files.dictionary.clone(),
            });
        let ready = trim.sync_dictionary.is_done() && !self.watermark.is_busy();
        let (watermark, scratch) = (&files.watermark, &mut self.scratch.watermark);
        if ready && !trim.watermark.is_begun() {
            let values = (signed(trim.mark) - 1, 0);
            trim.watermark.begin(watermark, scratch, values);
        }
        let tokens = (token::TRIM_WATERMARK, token::TRIM_SYNC_WATERMARK);
        trim.watermark.pump(io, watermark, scratch, tokens);
        let rotation = self.rotation.as_ref();
        let free = rotation.is_none_or(|rotation| !rotation.holds_manifest());
        let (manifest, scratch) = (&files.manifest, &mut self.scratch.manifest);
        if trim.watermark.is_done() && free && !trim.manifest.is_begun() {
            let values = (signed(trim.head), signed(active));
            trim.manifest.begin(manifest, scratch, values);
        }
        let tokens = (token::TRIM_MANIFEST, token::TRIM_SYNC_MANIFEST);
        trim.manifest.pump(io, manifest, scratch, tokens);
        if trim.manifest.is_done() {
            self.finish_trim();
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
                let file = &mut files.watermark;
                trim.watermark.written(result, file, "watermark write")?;
                self.watermark.recorded = self.watermark.recorded.max(trim.mark);
            }
            token::TRIM_SYNC_WATERMARK => {
                let what = "fdatasync of the watermark";
                trim.watermark.synced(result, what)?;
            }
            token::TRIM_MANIFEST => {
                let file = &mut files.manifest;
                trim.manifest.written(result, file, "manifest write")?;
            }
            _ => trim.manifest.synced(result, "fdatasync of the manifest")?,
        }
        Ok(())
    }

    /// The head is durable: the segments leave memory, their files are to be removed.
    fn finish_trim(&mut self) {
        let trim = self.trim.take().expect("called while trimming");
        let segments = trim.segments;
        for segment in self.chain.drain(..segments) {
            self.unreclaimed += segment.bytes;
            self.doomed.push(Doomed {
                name: segment.name,
                bytes: segment.bytes,
            });
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
