//! What opening a slot needs and what it hands over.

use std::path::PathBuf;
use std::time::Duration;

use super::dictionary::Dictionary;
use super::dual::DualFile;
use super::fresh::following;
use super::progress::RecoveryProgress;
use super::report::RecoveryReport;
use super::segment::HEADER_BYTES;
use super::spare::{make_spare, provisional_base};
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::io::{Between, File, Fs, SpareFile};

/// Which slot, and how large its files are.
#[derive(Debug, Clone)]
pub(crate) struct SlotOptions {
    /// Directory of all slots; its last component is created if absent.
    pub sf_dir: PathBuf,
    /// Name of the slot below it.
    pub sender_id: String,
    /// Size of new segments in bytes.
    pub segment_bytes: u64,
    /// Cap over all segments in bytes.
    pub total_bytes: u64,
    /// Whether segments are written over with zeros before they are used.
    pub prefill: bool,
    /// How long to wait for a lock that somebody holds.
    pub lock_retry: Duration,
    /// Told how far recovery is.
    pub progress: RecoveryProgress,
}

/// Larger segments are not filled while somebody waits for the opening.
const FILL_AT_ONCE_MAX: u64 = 64 << 20;

impl SlotOptions {
    /// Whether segments that opening makes are written over with zeros.
    pub(crate) fn fills_at_once(&self) -> bool {
        self.prefill && self.segment_bytes <= FILL_AT_ONCE_MAX
    }
}

/// A segment file of the chain, or a spare.
#[derive(Debug)]
pub(crate) struct OpenedSegment {
    /// File name.
    pub name: String,
    /// Generation in its name; 0 for a name without one.
    pub generation: Generation,
    /// Opened for direct I/O: the active segment's and spares'. Others are opened when they are
    /// read, so that a backlog of any number of files needs few descriptors.
    pub file: Option<File>,
    /// FSN of its first frame.
    pub base: Fsn,
    /// Valid frames.
    pub frames: u64,
    /// File size in bytes; in slots of other clients any number.
    pub bytes: u64,
    /// Offset of the next frame.
    pub end: u64,
    /// Creation time in its header, microseconds since the Unix epoch.
    pub created_micros: u64,
}

impl OpenedSegment {
    /// A segment without frames.
    pub(crate) fn empty(file: SpareFile, base: Fsn, end: u64) -> Self {
        Self {
            name: file.name,
            generation: file.generation,
            file: Some(file.file),
            base,
            frames: 0,
            bytes: file.bytes,
            end,
            created_micros: file.created_micros,
        }
    }
}

/// A slot ready for a shard. The lock is held until [`Fs::unlock`].
#[derive(Debug)]
pub(crate) struct OpenedSlot {
    /// Slot directory.
    pub dir: PathBuf,
    /// `.lock`, locked.
    pub lock: File,
    /// `sf-manifest.bin`.
    pub manifest: DualFile,
    /// `.ack-watermark`.
    pub watermark: DualFile,
    /// All symbols.
    pub dictionary: Dictionary,
    /// `.symbol-dict`, opened for buffered reading and writing.
    pub dictionary_file: File,
    /// Where its next chunk goes.
    pub dictionary_bytes: u64,
    /// The chain in FSN order; the last is the active segment. Never empty.
    pub segments: Vec<OpenedSegment>,
    /// Prepared empty segments.
    pub spares: Vec<OpenedSegment>,
    /// First generation that is free.
    pub next_generation: Generation,
    /// First FSN that is not acked.
    pub acked: Fsn,
    /// First FSN that is not used.
    pub next: Fsn,
    /// What happened.
    pub report: RecoveryReport,
}

impl OpenedSlot {
    /// Makes one spare if the cap allows it. A failure is reported, not returned: the active
    /// segment still takes frames, and the spare is asked for again before it is full.
    pub(crate) fn add_spare(&mut self, fs: &dyn Fs, options: &SlotOptions) -> Result<(), Error> {
        let used = self.segments.iter().map(|segment| segment.bytes);
        let wanted = used.fold(options.segment_bytes, u64::saturating_add);
        if wanted > options.total_bytes {
            return Ok(());
        }
        let generation = self.next_generation;
        self.next_generation = following(&self.dir, generation)?;
        let mut go_on = || Ok(());
        let zeros: Option<Between<'_>> = options.fills_at_once().then_some(&mut go_on);
        let bytes = options.segment_bytes;
        match make_spare(fs, &self.dir, generation, bytes, self.next, zeros) {
            Ok(file) => {
                let base = provisional_base(self.next);
                self.spares
                    .push(OpenedSegment::empty(file, base, HEADER_BYTES));
            }
            Err(error) => self.report.spare_error = Some(error.to_string()),
        }
        Ok(())
    }
}
