//! Rotation: the active segment is full, a spare takes its place.
//!
//! Appends go on in the new segment's memory at once; nothing is written to its file before the
//! manifest names it. Order on disk (slot-format.md section 7, with the old segment synced in
//! every mode so that a power cut cannot leave a hole behind a durable manifest):
//!
//! ```text
//! last write of the old segment -> fdatasync(old)  \
//! header with the exact base    -> fdatasync(new)  -> manifest -> fdatasync -> first frame
//! ```

use std::io;

use super::phase::Phase;
use super::record_write::RecordWrite;
use super::segment::Segment;
use super::spares::extra_spares_max;
use super::{Journal, Position, Stall, token};
use crate::fsn::Fsn;
use crate::io::{BLOCK, DiskOp, Io, Token};
use crate::shard::fault::{self, Place};
use crate::slot::segment::SegmentHeader;

/// A rotation under way.
#[derive(Debug)]
pub(super) struct Rotation {
    /// Key of the new segment; the old one is its predecessor.
    key: u64,
    header: Phase,
    sync_new: Phase,
    sync_old: Phase,
    manifest: RecordWrite,
}

impl Rotation {
    pub(super) fn in_flight(&self) -> bool {
        [self.header, self.sync_new, self.sync_old]
            .into_iter()
            .any(Phase::is_in_flight)
            || self.manifest.in_flight()
    }

    /// The step behind `token` is submitted again.
    pub(super) fn again(&mut self, token: Token) {
        match token {
            token::HEADER => self.header.again(),
            token::SYNC_OLD => self.sync_old.again(),
            token::SYNC_NEW => self.sync_new.again(),
            _ => self.manifest.again(),
        }
    }

    /// Both files were written anew: only the manifest is left to do.
    pub(super) fn resume_at_manifest(&mut self) {
        (self.header, self.sync_new, self.sync_old) = (Phase::Done, Phase::Done, Phase::Done);
        self.manifest = RecordWrite::default();
    }

    /// Whether the manifest record is on its way: no other may be.
    pub(super) fn holds_manifest(&self) -> bool {
        self.manifest.is_begun()
    }
}

impl Journal {
    /// Makes a spare the active segment.
    pub(super) fn rotate(&mut self, io: &mut impl Io, sent: Position) -> Result<(), Stall> {
        if self.files.is_none() {
            return self.rotate_memory();
        }
        if self.rotation.is_some() || self.commit_lags() {
            self.gate.counters.rotation_stalls.add(1);
            return Err(Stall::Rotation);
        }
        let Some(spare) = self.spares.pop_front() else {
            if !std::mem::replace(&mut self.spare_missed, true) {
                self.gate.counters.spare_stalls.add(1);
                if self.spares_asked > 0 {
                    let (segment, total) = (self.options.segment_bytes, self.options.total_bytes);
                    self.appetite.missed(extra_spares_max(segment, total));
                }
            }
            if self.spares_asked > 0 {
                self.gate.counters.rotation_stalls.add(1);
                return Err(Stall::Rotation);
            }
            return Err(Stall::Full);
        };
        self.evict(sent);
        let Ok(region) = self.memory.take(spare.bytes) else {
            self.spares.push_front(spare);
            return Err(Stall::Full);
        };
        let mut segment = Segment::promoted(spare, self.published, region);
        let header = SegmentHeader {
            manifest_required: true,
            base: segment.base,
            created_micros: segment.created_micros,
        }
        .to_bytes();
        let block = self.scratch.header.slice_mut(0..BLOCK);
        block.fill(0);
        block[..header.len()].copy_from_slice(&header);
        let memory = segment
            .memory
            .as_mut()
            .expect("a promoted spare has memory");
        memory.slice_mut(0..header.len()).copy_from_slice(&header);
        // The first commit rewrites block 0, which the header shares with the first frames.
        segment.memory_from = 0;
        segment.written = header.len() as u64;
        self.chain.push_back(segment);
        self.spare_missed = false;
        self.appetite.rotated();
        self.gate.counters.segments_written.add(1);
        self.rotation = Some(Rotation {
            key: self.first_key + self.chain.len() as u64 - 1,
            header: Phase::Waiting,
            sync_new: Phase::Waiting,
            sync_old: Phase::Waiting,
            manifest: RecordWrite::default(),
        });
        self.pump_rotation(io);
        Ok(())
    }

    /// Whether a segment before the active one still has frames to write.
    fn commit_lags(&self) -> bool {
        let active = self.chain.back().expect("the chain is never empty");
        self.written < active.base
    }

    fn rotate_memory(&mut self) -> Result<(), Stall> {
        let size = self.options.segment_bytes;
        if !self.closing && self.allocated + size > self.options.total_bytes {
            return Err(Stall::Full);
        }
        let Ok(region) = self.memory.take(size) else {
            return Err(Stall::Full);
        };
        self.allocated += size;
        self.chain
            .push_back(Segment::in_memory(self.published, size, region));
        self.gate.counters.segments_written.add(1);
        Ok(())
    }

    pub(super) fn pump_rotation(&mut self, io: &mut impl Io) {
        let Some(rotation) = &mut self.rotation else {
            return;
        };
        let files = self.files.as_ref().expect("rotations need files");
        let index = usize::try_from(rotation.key - self.first_key).expect("inside the chain");
        let (old, new) = (&self.chain[index - 1], &self.chain[index]);
        let file = |segment: &Segment| segment.file.clone().expect("rotations need files");
        rotation
            .header
            .start(true, io, token::HEADER, || DiskOp::Write {
                file: file(new),
                offset: 0,
                bytes: self.scratch.header.pin(0..BLOCK),
                tail: None,
            });
        let header_done = rotation.header.is_done();
        let sync = || DiskOp::Sync { file: file(new) };
        rotation
            .sync_new
            .start(header_done, io, token::SYNC_NEW, sync);
        // Never beside another fdatasync of the same file: the kernel tells a failure to one.
        let syncing = self
            .commit
            .as_ref()
            .is_some_and(|c| c.is_on(rotation.key - 1));
        let old_written = old.written == old.end && !syncing;
        let sync = || DiskOp::Sync { file: file(old) };
        rotation
            .sync_old
            .start(old_written, io, token::SYNC_OLD, sync);
        let synced = rotation.sync_new.is_done() && rotation.sync_old.is_done();
        let free = self.trim.as_ref().is_none_or(|trim| !trim.holds_manifest());
        let (manifest, scratch) = (&files.manifest, &mut self.scratch.manifest);
        if synced && free && !rotation.manifest.is_begun() {
            let values = (signed(self.chain[0].base), signed(new.base));
            rotation.manifest.begin(manifest, scratch, values);
        }
        let tokens = (token::MANIFEST, token::SYNC_MANIFEST);
        rotation.manifest.pump(io, manifest, scratch, tokens);
    }

    pub(super) fn rotation_done(
        &mut self,
        token: Token,
        result: io::Result<u32>,
    ) -> Result<(), String> {
        fault::pass(Place::Rotate);
        let rotation = self
            .rotation
            .as_mut()
            .expect("a completion has its rotation");
        match token {
            token::HEADER => rotation
                .header
                .finish(result, BLOCK, "segment header write")?,
            token::SYNC_NEW => rotation
                .sync_new
                .finish(result, 0, "fdatasync of a new segment")?,
            token::SYNC_OLD => {
                rotation
                    .sync_old
                    .finish(result, 0, "fdatasync of a full segment")?;
                let next = self.segment(self.rotation_key()).expect("kept").base;
                self.synced_through(next);
            }
            token::MANIFEST => {
                let manifest = &mut self.files.as_mut().expect("rotations need files").manifest;
                rotation
                    .manifest
                    .written(result, manifest, "manifest write")?;
            }
            _ => {
                rotation
                    .manifest
                    .synced(result, "fdatasync of the manifest")?;
                let key = rotation.key;
                self.rotation = None;
                self.segment_mut(key)
                    .expect("the new segment is kept")
                    .committed = true;
                // Closed before it is ever unlinked: the last close of a removed file is slow.
                if let Some(old) = self.segment_mut(key - 1) {
                    old.file = None;
                }
            }
        }
        Ok(())
    }

    fn rotation_key(&self) -> u64 {
        self.rotation.as_ref().expect("called while rotating").key
    }
}

/// An FSN as the dual records store it.
pub(super) fn signed(fsn: Fsn) -> i64 {
    i64::try_from(fsn.0).expect("2^63 frames are never reached")
}
