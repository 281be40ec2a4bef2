//! Group commit: one in flight; what gathers meanwhile goes with the next.
//!
//! Order: dictionary write (if new symbols) -> segment write (whole blocks from the segment's
//! memory, a private zero-padded copy of the partial last block) -> fdatasync of the dictionary
//! and of the segment, where the mode or a waiter asks for it. A commit never spans files.

use std::io;

use super::segment::offset;
use super::trim::Trim;
use super::{Journal, token};
use crate::fsn::Fsn;
use crate::io::{BLOCK, DiskOp, Io, Token};
use crate::shard::fault::{self, Place};

const BLOCK_BYTES: u64 = BLOCK as u64;
/// Writes in a row that may end within their first block before the file counts as broken.
const STUCK_MAX: u8 = 4;
/// Pause before a write that found the disk full is tried again, in nanoseconds.
const FULL_PAUSE: u64 = 200_000_000;

/// Where the commit in flight stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Dictionary,
    Segment,
    SyncDictionary,
    SyncSegment,
}

/// The commit in flight.
#[derive(Debug)]
pub(super) struct Commit {
    step: Step,
    submitted: bool,
    key: u64,
    /// Block-aligned start of what is still to be written.
    from: u64,
    /// The segment's end when the commit began.
    to: u64,
    /// First FSN behind the commit.
    fsn: Fsn,
    dictionary_bytes: usize,
    /// Dictionary bytes of this commit that are on disk.
    dictionary_done: usize,
    /// Segment writes in a row that got no further.
    stuck: u8,
    /// No submission before this time: the disk was full.
    retry_at: u64,
    sync: bool,
}

impl Commit {
    pub(super) fn is_on(&self, key: u64) -> bool {
        self.key == key
    }

    /// Whether an fdatasync of the dictionary is with the kernel.
    pub(super) fn syncs_dictionary(&self) -> bool {
        self.submitted && self.step == Step::SyncDictionary
    }

    /// Its present step is submitted again.
    pub(super) fn again(&mut self) {
        self.submitted = false;
    }

    /// Whether its present step is with the kernel.
    pub(super) fn is_submitted(&self) -> bool {
        self.submitted
    }
}

impl Journal {
    pub(super) fn pump_commit(&mut self, io: &mut impl Io, now: u64) {
        let held = self.commit.as_ref().map_or(self.written, |c| c.fsn);
        if held < self.published {
            self.window.gather(now);
        }
        if self.commit.is_none() {
            self.begin_commit(now);
        }
        self.submit_commit(io, now);
    }

    fn begin_commit(&mut self, now: u64) {
        let periodic = self.options.sync_interval > 0
            && now.saturating_sub(self.last_sync) >= self.options.sync_interval;
        let last = self.closing && self.options.sync_interval > 0;
        let sync = self.is_sync_asked() || periodic || last;
        let Some((key, segment)) = self.next_to_write() else {
            if sync && self.stable < self.written && self.rotation.is_none() {
                self.begin_sync_only();
            }
            return;
        };
        let (from, to, fsn) = (
            segment.written - segment.written % BLOCK_BYTES,
            segment.end,
            segment.next(),
        );
        // A full segment is never waited with: the next one waits for it.
        let is_active = key + 1 == self.first_key + self.chain.len() as u64;
        let gathered = to - segment.written;
        if is_active && !self.closing && !self.window.is_over(now, gathered) {
            return;
        }
        self.window.taken();
        let dictionary_bytes = self.stage_dictionary();
        let step = if dictionary_bytes > 0 {
            Step::Dictionary
        } else {
            Step::Segment
        };
        self.stage_tail(key, to);
        self.commit = Some(Commit {
            step,
            submitted: false,
            key,
            from,
            to,
            fsn,
            dictionary_bytes,
            dictionary_done: 0,
            stuck: 0,
            retry_at: 0,
            sync,
        });
    }

    /// The oldest segment with something to write that the manifest already names.
    fn next_to_write(&self) -> Option<(u64, &super::Segment)> {
        if self.written >= self.published {
            return None;
        }
        // Usually the last or the last but one; never more than two hold unwritten frames.
        let index = self
            .chain
            .iter()
            .rposition(|segment| segment.base <= self.written)?;
        let segment = &self.chain[index];
        let due = segment.committed && segment.written < segment.end;
        due.then_some((self.first_key + index as u64, segment))
    }

    /// A sync of what is already written: a waiter came late.
    fn begin_sync_only(&mut self) {
        let index = self
            .chain
            .iter()
            .rposition(|segment| segment.base < self.written);
        let Some(index) = index else { return };
        let segment = &self.chain[index];
        self.commit = Some(Commit {
            step: Step::SyncDictionary,
            submitted: false,
            key: self.first_key + index as u64,
            from: segment.written,
            to: segment.written,
            fsn: self.written,
            dictionary_bytes: 0,
            dictionary_done: 0,
            stuck: 0,
            retry_at: 0,
            sync: true,
        });
    }

    /// Moves pending dictionary chunks to write memory; returns their bytes.
    fn stage_dictionary(&mut self) -> usize {
        let bytes = self.dictionary_pending.len();
        if bytes > self.scratch.dictionary.bytes() {
            match crate::io::Region::new(bytes.next_power_of_two()) {
                Ok(region) => self.scratch.dictionary = region,
                Err(error) => {
                    self.poison(&format!("memory for {bytes} bytes of dictionary: {error}"));
                    return 0;
                }
            }
        }
        self.scratch
            .dictionary
            .slice_mut(0..bytes)
            .copy_from_slice(&self.dictionary_pending);
        self.dictionary_pending.clear();
        bytes
    }

    /// Copies the partial last block and pads it with zeros, so that appends may go on in the
    /// segment's memory while the copy is written.
    fn stage_tail(&mut self, key: u64, to: u64) {
        let block = to - to % BLOCK_BYTES;
        let index = offset(key - self.first_key);
        let region = self.chain[index]
            .memory
            .as_ref()
            .expect("unwritten frames are in memory");
        let partial = region.slice(offset(block)..offset(to));
        let tail = self.scratch.tail.slice_mut(0..BLOCK);
        tail[..partial.len()].copy_from_slice(partial);
        tail[partial.len()..].fill(0);
    }

    fn submit_commit(&mut self, io: &mut impl Io, now: u64) {
        let Some(commit) = &self.commit else { return };
        if commit.submitted || now < commit.retry_at {
            return;
        }
        let files = self.files.as_ref().expect("commits need files");
        let (token, op) = match commit.step {
            Step::Dictionary => (
                token::DICTIONARY,
                DiskOp::Write {
                    file: files.dictionary.clone(),
                    offset: files.dictionary_bytes,
                    bytes: self
                        .scratch
                        .dictionary
                        .pin(commit.dictionary_done..commit.dictionary_bytes),
                    tail: None,
                },
            ),
            Step::Segment => (token::SEGMENT, self.segment_write(commit)),
            Step::SyncDictionary if files.dictionary_synced == files.dictionary_bytes => {
                self.commit.as_mut().expect("looked at above").step = Step::SyncSegment;
                return self.submit_commit(io, now);
            }
            // Never beside the trim's: the kernel tells a failure to one of them.
            Step::SyncDictionary if self.trim.as_ref().is_some_and(Trim::syncs_dictionary) => {
                return;
            }
            Step::SyncDictionary => (
                token::SYNC_DICTIONARY,
                DiskOp::Sync {
                    file: files.dictionary.clone(),
                },
            ),
            Step::SyncSegment => {
                let Some(segment) = self.segment(commit.key) else {
                    // Trimmed meanwhile: the rotation behind it had synced all of it.
                    assert!(self.stable >= commit.fsn, "trimmed before it was synced");
                    self.commit = None;
                    return;
                };
                let file = segment.file.clone().expect("commits need files");
                (token::SYNC_SEGMENT, DiskOp::Sync { file })
            }
        };
        if io.submit(token, op).is_ok() {
            self.commit.as_mut().expect("looked at above").submitted = true;
            if token == token::SYNC_SEGMENT {
                fault::pass(Place::Sync);
            }
        }
    }

    fn segment_write(&self, commit: &Commit) -> DiskOp {
        let segment = self
            .segment(commit.key)
            .expect("a commit's segment is kept");
        let region = segment
            .memory
            .as_ref()
            .expect("unwritten frames are in memory");
        let whole = commit.to - commit.to % BLOCK_BYTES;
        let tail = self.scratch.tail.pin(0..BLOCK);
        let file = segment.file.clone().expect("commits need files");
        if commit.from >= whole {
            return DiskOp::Write {
                file,
                offset: whole,
                bytes: tail,
                tail: None,
            };
        }
        let bytes = region.pin(offset(commit.from)..offset(whole));
        let tail = (whole < commit.to).then_some(tail);
        DiskOp::Write {
            file,
            offset: commit.from,
            bytes,
            tail,
        }
    }

    pub(super) fn commit_done(
        &mut self,
        token: Token,
        result: io::Result<u32>,
        now: u64,
    ) -> Result<(), String> {
        let mut commit = self.commit.take().expect("a completion has its commit");
        commit.submitted = false;
        if token == token::DICTIONARY && is_full(&result) {
            // No room is back-pressure: the frames wait, and so do the producers.
            self.gate.counters.disk_errors.add(1);
            self.gate
                .failed("writing .symbol-dict (tried again): no space left", false);
            commit.retry_at = now + FULL_PAUSE;
            self.commit = Some(commit);
            return Ok(());
        }
        let got = result.map_err(|error| format!("{}: {error}", name_of(token)))?;
        match token {
            token::DICTIONARY => {
                if got == 0 {
                    return Err("dictionary write: no byte was taken".to_owned());
                }
                let files = self.files.as_mut().expect("commits need files");
                files.dictionary_bytes += u64::from(got);
                commit.dictionary_done += got as usize;
                if commit.dictionary_done >= commit.dictionary_bytes {
                    commit.step = Step::Segment;
                }
            }
            token::SEGMENT => return self.segment_written(commit, got),
            token::SYNC_DICTIONARY => {
                let files = self.files.as_mut().expect("commits need files");
                files.dictionary_synced = files.dictionary_bytes;
                commit.step = Step::SyncSegment;
            }
            _ => {
                self.gate.counters.syncs.add(1);
                self.gate
                    .counters
                    .frames_stable
                    .add(commit.fsn.since(self.stable));
                self.stable = self.stable.max(commit.fsn);
                self.last_sync = now;
                return Ok(());
            }
        }
        self.commit = Some(commit);
        Ok(())
    }

    /// A short write starts again at the block that holds its end; nothing is reported until all
    /// of it is there.
    fn segment_written(&mut self, mut commit: Commit, got: u32) -> Result<(), String> {
        let reached = commit.from + u64::from(got);
        if reached < commit.to {
            let next = reached - reached % BLOCK_BYTES;
            commit.stuck = if next > commit.from {
                0
            } else {
                commit.stuck + 1
            };
            if got == 0 || commit.stuck > STUCK_MAX {
                return Err(format!(
                    "segment write at {}: only {got} bytes",
                    commit.from
                ));
            }
            commit.from = next;
            self.commit = Some(commit);
            return Ok(());
        }
        let counters = &self.gate.counters;
        counters.commits.add(1);
        counters.journal_bytes_written.add(u64::from(got));
        counters.frames_written.add(commit.fsn.since(self.written));
        self.written = commit.fsn;
        let segment = self
            .segment_mut(commit.key)
            .expect("a commit's segment is kept");
        segment.written = commit.to;
        if commit.sync {
            commit.step = Step::SyncDictionary;
            self.commit = Some(commit);
        }
        Ok(())
    }

    /// The rotation synced a whole segment: everything below `fsn` is stable.
    pub(super) fn synced_through(&mut self, fsn: Fsn) {
        self.gate.counters.syncs.add(1);
        self.gate.counters.frames_stable.add(fsn.since(self.stable));
        self.stable = self.stable.max(fsn);
    }
}

/// Whether an operation failed for want of space.
fn is_full(result: &io::Result<u32>) -> bool {
    let code = result.as_ref().err().and_then(io::Error::raw_os_error);
    matches!(code, Some(libc::ENOSPC | libc::EDQUOT))
}

fn name_of(token: Token) -> &'static str {
    match token {
        token::DICTIONARY => "dictionary write",
        token::SEGMENT => "segment write",
        token::SYNC_DICTIONARY => "fdatasync of the dictionary",
        _ => "fdatasync of the segment",
    }
}
