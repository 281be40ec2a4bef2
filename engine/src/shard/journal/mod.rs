//! The slot while a shard holds it: the chain of segments, appends, group commit, rotation, trim.
//!
//! One writer: from hand-over to hand-back the shard alone writes these files, on its own ring.
//! Everything here is driven by [`Journal::pump`] (start what can start) and
//! [`Journal::completed`] (an operation ended); nothing waits.
//!
//! Without `sf_dir` the chain is memory only: there are no files, no commits and no stages between
//! accepted and acked.

mod again;
mod append;
mod commit;
mod epoch;
mod memory;
mod phase;
mod record_write;
mod removals;
mod repair;
mod rotate;
mod segment;
mod spares;
mod takeover;
mod trim;
mod watermark;
mod window;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use append::Stall;
pub(crate) use segment::{Position, Segment, first_frame};

use self::again::is_passing;
use self::commit::Commit;
use self::epoch::Epoch;
use self::memory::Memory;
use self::repair::Repair;
use self::rotate::Rotation;
use self::spares::Appetite;
use self::trim::Trim;
use self::watermark::Watermark;
use self::window::Window;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::io::{BLOCK, Done, Doomed, Io, Region, SpareFile};
use crate::router::gate::Gate;
use crate::slot::{Dictionary, DualFile, OpenedSlot};
use crate::steward::Incarnation;

/// Operations of the journal; at most one of each kind is in flight.
pub(crate) mod token {
    use crate::io::Token;

    pub(crate) const DICTIONARY: Token = Token(1);
    pub(crate) const SEGMENT: Token = Token(2);
    pub(crate) const SYNC_DICTIONARY: Token = Token(3);
    pub(crate) const SYNC_SEGMENT: Token = Token(4);
    pub(crate) const HEADER: Token = Token(5);
    pub(crate) const SYNC_OLD: Token = Token(6);
    pub(crate) const SYNC_NEW: Token = Token(7);
    pub(crate) const MANIFEST: Token = Token(8);
    pub(crate) const SYNC_MANIFEST: Token = Token(9);
    pub(crate) const TRIM_DICTIONARY: Token = Token(10);
    pub(crate) const TRIM_WATERMARK: Token = Token(11);
    pub(crate) const TRIM_SYNC_WATERMARK: Token = Token(12);
    pub(crate) const TRIM_MANIFEST: Token = Token(13);
    pub(crate) const TRIM_SYNC_MANIFEST: Token = Token(14);
    pub(crate) const WATERMARK: Token = Token(15);
    /// First of the replay buffers' tokens.
    pub(crate) const REPLAY: u64 = 32;
}

/// Sizes and modes a journal works by.
#[derive(Debug, Clone)]
pub(crate) struct JournalOptions {
    /// Size of a new segment in bytes.
    pub(crate) segment_bytes: u64,
    /// Cap over segments, spares and dictionary in bytes.
    pub(crate) total_bytes: u64,
    /// Segment memory in bytes (with a directory).
    pub(crate) memory_budget_bytes: u64,
    /// Spares kept ready.
    pub(crate) spares: usize,
    /// They are written over with zeros ahead.
    pub(crate) prefill: bool,
    /// What must be left of the filesystem when a segment is made, in bytes.
    pub(crate) min_free_bytes: u64,
    /// Every commit ends with an fdatasync.
    pub(crate) sync_always: bool,
    /// An fdatasync at least this often (nanoseconds), 0 for never.
    pub(crate) sync_interval: u64,
    /// How long frames gather before a commit takes them (nanoseconds), 0 for not at all.
    pub(crate) commit_window: u64,
    /// Bytes that end the window.
    pub(crate) commit_window_bytes: u64,
    /// Most symbols of the dictionary.
    pub(crate) symbols_max: u32,
    /// With more symbols than this a new dictionary is begun when all is acked.
    pub(crate) symbols_reset: u32,
}

/// The files of a slot with a directory.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) dir: PathBuf,
    /// This life of the slot: requests to the steward carry it.
    pub(crate) incarnation: Incarnation,
    pub(crate) manifest: DualFile,
    pub(crate) watermark: DualFile,
    pub(crate) dictionary: crate::io::File,
    /// Logical end of the dictionary file.
    pub(crate) dictionary_bytes: u64,
    /// How much of it an fdatasync covers.
    pub(crate) dictionary_synced: u64,
    /// Where its end is once every chunk made so far is written, also those of a commit that
    /// failed.
    pub(crate) dictionary_due: u64,
}

/// A slot as a shard leaves it.
#[derive(Debug)]
pub(crate) struct SlotRemains {
    pub(crate) files: Files,
    /// Names of all segments and spares.
    pub(crate) segments: Vec<String>,
    /// Base of the active segment.
    pub(crate) active_base: Fsn,
    /// First FSN not acked.
    pub(crate) acked: Fsn,
}

/// Block-aligned memory for small writes, one per kind of operation.
#[derive(Debug)]
struct Scratch {
    tail: Region,
    header: Region,
    manifest: Region,
    watermark: Region,
    dictionary: Region,
}

/// The chain of segments and what is done with it.
#[derive(Debug)]
pub(crate) struct Journal {
    options: JournalOptions,
    gate: Arc<Gate>,
    pub(crate) files: Option<Files>,
    pub(crate) dictionary: Dictionary,
    chain: VecDeque<Segment>,
    /// Key of `chain[0]`; keys count up by one per segment and never change.
    first_key: u64,
    spares: VecDeque<SpareFile>,
    spares_asked: usize,
    spare_retry_at: u64,
    appetite: Appetite,
    /// A rotation waits for a spare that is not ready: counted once.
    spare_missed: bool,
    next_generation: Generation,
    /// Bytes of all segment files and spares: those asked for, and those not removed yet, too.
    allocated: u64,
    /// Segments that have left the chain and that the steward was not asked to remove yet.
    doomed: Vec<Doomed>,
    /// Bytes of those, and of what it was asked to remove and has not: a part of `allocated`.
    unreclaimed: u64,
    removal_retry_at: u64,
    memory: Memory,
    scratch: Scratch,
    commit: Option<Commit>,
    window: Window,
    rotation: Option<Rotation>,
    trim: Option<Trim>,
    watermark: Watermark,
    epoch: Epoch,
    /// Dictionary chunks of frames appended since the last dictionary write.
    dictionary_pending: Vec<u8>,
    published: Fsn,
    written: Fsn,
    stable: Fsn,
    acked: Fsn,
    sync_wanted: bool,
    closing: bool,
    last_sync: u64,
    poisoned: Option<String>,
    repair: Repair,
}

impl Journal {
    /// Takes over an opened slot (or starts in memory), with what the active segment's last
    /// partial block holds, read by the opener.
    pub(crate) fn new(
        options: JournalOptions,
        gate: Arc<Gate>,
        slot: Option<(OpenedSlot, Incarnation)>,
        active_tail: &[u8],
    ) -> Result<Self, Error> {
        let memory = Memory::new(options.memory_budget_bytes);
        let epoch = Epoch::new(options.symbols_reset, options.symbols_max);
        let scratch = Scratch {
            tail: map(BLOCK)?,
            header: map(BLOCK)?,
            manifest: map(BLOCK)?,
            watermark: map(BLOCK)?,
            dictionary: map(16 * BLOCK)?,
        };
        let window = Window::new(options.commit_window, options.commit_window_bytes);
        let mut journal = Self {
            options,
            gate,
            files: None,
            dictionary: Dictionary::new(),
            chain: VecDeque::new(),
            first_key: 0,
            spares: VecDeque::new(),
            spares_asked: 0,
            spare_retry_at: 0,
            appetite: Appetite::default(),
            spare_missed: false,
            next_generation: Generation(0),
            allocated: 0,
            doomed: Vec::new(),
            unreclaimed: 0,
            removal_retry_at: 0,
            memory,
            scratch,
            commit: None,
            window,
            rotation: None,
            trim: None,
            watermark: Watermark::default(),
            epoch,
            dictionary_pending: Vec::new(),
            published: Fsn(0),
            written: Fsn(0),
            stable: Fsn(0),
            acked: Fsn(0),
            sync_wanted: false,
            closing: false,
            last_sync: 0,
            poisoned: None,
            repair: Repair::default(),
        };
        match slot {
            Some((slot, incarnation)) => {
                journal.take_over(slot, incarnation, active_tail)?;
                let recovered = journal.published.since(journal.acked);
                journal.gate.counters.frames_recovered.set(recovered);
            }
            None => journal.start_in_memory()?,
        }
        journal.publish_gauges();
        Ok(journal)
    }

    /// First FSN not given out yet.
    pub(crate) fn published(&self) -> Fsn {
        self.published
    }

    /// First FSN whose write has not completed; in memory mode what is published.
    pub(crate) fn written(&self) -> Fsn {
        if self.files.is_some() {
            self.written
        } else {
            self.published
        }
    }

    /// First FSN not covered by an fdatasync.
    pub(crate) fn stable(&self) -> Fsn {
        self.stable
    }

    /// First FSN of the last segment that the manifest names: all before it are full.
    #[cfg(any(test, feature = "internals"))]
    pub(crate) fn sealed(&self) -> Fsn {
        self.last_committed().base
    }

    /// First generation that was not given to a file.
    pub(crate) fn next_generation(&self) -> Generation {
        self.next_generation
    }

    /// First FSN that the server has not confirmed.
    pub(crate) fn acked(&self) -> Fsn {
        self.acked
    }

    /// The failure of a disk operation that is not repaired yet: meanwhile no stage is reported.
    pub(crate) fn poisoned(&self) -> Option<&str> {
        self.poisoned.as_deref()
    }

    /// The server confirmed everything below `acked`.
    pub(crate) fn acknowledge(&mut self, acked: Fsn) {
        assert!(
            acked <= self.published,
            "an ack beyond {} is clamped before",
            self.published
        );
        if acked > self.acked {
            self.gate.counters.frames_acked.add(acked.since(self.acked));
            self.acked = acked;
            if self.files.is_none() {
                self.trim_memory();
            }
            self.publish_gauges();
        }
    }

    /// Whether commits end with an fdatasync because somebody waits for stable.
    pub(crate) fn want_sync(&mut self, wanted: bool) {
        self.sync_wanted = wanted && self.files.is_some();
    }

    /// The cap over segments, spares and dictionary is another one now.
    pub(crate) fn set_total_bytes(&mut self, bytes: u64) {
        self.options.total_bytes = bytes;
    }

    /// Whether the engine closes: the cap and the pause between watermark records are lifted.
    pub(crate) fn close(&mut self, closing: bool) {
        self.closing = closing;
    }

    /// Starts whatever can start now.
    pub(crate) fn pump(&mut self, io: &mut impl Io, now: u64) {
        if self.poisoned.is_some() {
            if self.files.is_some() && !self.epoch.has_files() {
                self.pump_removals(io, now);
                self.pump_repair(io, now);
            }
            return;
        }
        self.pump_epoch(io, now);
        if self.files.is_none() || self.epoch.has_files() {
            return;
        }
        // What was found at the start was synced by the opening.
        if self.last_sync == 0 {
            self.last_sync = now;
        }
        self.pump_commit(io, now);
        self.pump_rotation(io);
        self.pump_trim(io, now);
        self.pump_watermark(io, now);
        self.pump_removals(io, now);
        self.pump_spares(io, now);
        self.pump_memory(io);
    }

    /// An operation of the journal ended.
    pub(crate) fn completed(&mut self, done: Done, now: u64) {
        if is_passing(&done.result) {
            return self.again(done.token);
        }
        let outcome = match done.token {
            token::DICTIONARY | token::SEGMENT | token::SYNC_DICTIONARY | token::SYNC_SEGMENT => {
                self.commit_done(done.token, done.result, now)
            }
            token::HEADER
            | token::SYNC_OLD
            | token::SYNC_NEW
            | token::MANIFEST
            | token::SYNC_MANIFEST => self.rotation_done(done.token, done.result),
            token::WATERMARK => self.watermark_done(done.result),
            _ => self.trim_done(done.token, done.result),
        };
        if let Err(cause) = outcome {
            self.poison(&cause);
        }
    }

    /// Whether an operation is in flight or could start: the shard must not sleep long.
    pub(crate) fn is_busy(&self) -> bool {
        self.poisoned.is_none()
            && self.files.is_some()
            && (self.commit.is_some()
                || self.rotation.is_some()
                || self.trim.is_some()
                || self.watermark.is_busy()
                || self.written < self.published
                || self.sync_due())
    }

    /// When the commit window ends, if it is all that a commit waits for.
    pub(crate) fn window_end(&self, now: u64) -> Option<u64> {
        let waits = self.poisoned.is_none() && self.commit.is_none();
        self.window.deadline().filter(|end| waits && *end > now)
    }

    /// When something else is due that no completion announces: the next fdatasync of `periodic`, a
    /// record of the watermark. Nothing of it depends on the network.
    pub(crate) fn deadline(&self, now: u64) -> Option<u64> {
        if self.poisoned.is_some() || self.files.is_none() {
            return None;
        }
        let interval = self.options.sync_interval;
        let periodic = interval > 0 && self.stable < self.published;
        let sync = periodic.then(|| self.last_sync + interval);
        let record = self.watermark_lags().then(|| self.watermark.due());
        let all = [sync, record];
        all.into_iter().flatten().filter(|at| *at > now).min()
    }

    /// Whether operations are in flight: the memory they use must stay.
    pub(crate) fn in_flight(&self) -> bool {
        self.commit.as_ref().is_some_and(Commit::is_submitted)
            || self.rotation.as_ref().is_some_and(Rotation::in_flight)
            || self.trim.as_ref().is_some_and(Trim::in_flight)
            || self.watermark.in_flight()
            || self.epoch.in_flight()
    }

    /// Whether nothing is left to write, record or, where the mode asks for it, sync.
    pub(crate) fn is_settled(&self) -> bool {
        let asked = self.options.sync_always || self.options.sync_interval > 0;
        let steps = self.commit.is_some() || self.rotation.is_some() || self.trim.is_some();
        self.poisoned.is_none()
            && self.written() == self.published
            && !self.watermark_lags()
            && !steps
            && (!asked || self.stable == self.written)
    }

    fn sync_due(&self) -> bool {
        let closing = self.closing && self.options.sync_interval > 0;
        (self.is_sync_asked() || closing) && self.stable < self.written
    }

    /// Whether the next commit ends with an fdatasync, whatever the time.
    fn is_sync_asked(&self) -> bool {
        self.sync_wanted || self.options.sync_always || self.epoch.settles()
    }

    fn poison(&mut self, cause: &str) {
        self.gate.counters.disk_errors.add(1);
        if self.poisoned.is_none() {
            self.poisoned = Some(cause.to_owned());
        }
    }

    pub(crate) fn publish_gauges(&self) {
        let counters = &self.gate.counters;
        counters
            .unacked_frames
            .set(self.published.since(self.acked));
        counters
            .disk_bytes
            .set(self.allocated + self.dictionary_bytes());
        counters.unreclaimed_bytes.set(self.unreclaimed);
        counters.symbols.set(u64::from(self.dictionary.len()));
        counters.fsn_next.set(self.published.0);
        counters.fsn_acked.set(self.acked.0);
    }

    fn segment(&self, key: u64) -> Option<&Segment> {
        let index = usize::try_from(key.checked_sub(self.first_key)?).ok()?;
        self.chain.get(index)
    }

    fn segment_mut(&mut self, key: u64) -> Option<&mut Segment> {
        let index = usize::try_from(key.checked_sub(self.first_key)?).ok()?;
        self.chain.get_mut(index)
    }

    fn active(&mut self) -> &mut Segment {
        self.chain.back_mut().expect("the chain is never empty")
    }

    /// The last segment that the manifest names: all before it are full.
    fn last_committed(&self) -> &Segment {
        let named = self.chain.iter().rev().find(|segment| segment.committed);
        named.expect("some segment is always committed")
    }

    /// Bytes of the dictionary file, 0 without one.
    fn dictionary_bytes(&self) -> u64 {
        self.files
            .as_ref()
            .map_or(0, |files| files.dictionary_bytes)
    }

    /// Names of all segments and spares.
    fn file_names(&self) -> Vec<String> {
        let segments = self.chain.iter().map(|segment| &segment.name);
        let spares = self.spares.iter().map(|spare| &spare.name);
        segments.chain(spares).cloned().collect()
    }

    /// Gives the files back for the directory work of close.
    pub(crate) fn into_files(self) -> Option<SlotRemains> {
        let segments = self.file_names();
        let active_base = self.chain.back().expect("the chain is never empty").base;
        let acked = self.acked;
        self.files.map(|files| SlotRemains {
            files,
            segments,
            active_base,
            acked,
        })
    }
}

fn map(bytes: usize) -> Result<Region, Error> {
    Region::new(bytes).map_err(map_error)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn map_error(source: std::io::Error) -> Error {
    Error::Unsupported {
        what: "mapping segment memory".to_owned(),
        reason: source.to_string(),
        remedy: "Lower memory_budget_bytes or raise the process's address-space limit",
    }
}
