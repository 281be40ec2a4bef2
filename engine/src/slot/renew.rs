//! A new dictionary epoch: the slot of a running process is emptied as a drained close does it, and
//! begun again as a fresh open does it, under the same lock.
//!
//! The two halves are the sequences of [`close_drained`] and of [`fresh`](super::fresh), each of
//! which may die anywhere: what it leaves opens as a drained slot, as an empty one, or as one in
//! which everything is acked. A sync of the directory lies between them, so names of both never
//! mix. Only the FSNs go on: the new files begin at the next one, because a process gives out no
//! number twice.

use std::path::PathBuf;

use super::close::{Drained, close_drained};
use super::dual::DualFile;
use super::fresh;
use super::names::DICTIONARY;
use super::opened::OpenedSlot;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::io::{File, Fs};

/// A slot whose frames are all acked and stable, and on which no I/O is in flight.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    /// Slot directory.
    pub dir: PathBuf,
    /// `.lock`, locked.
    pub lock: File,
    /// `sf-manifest.bin`.
    pub manifest: DualFile,
    /// `.ack-watermark`.
    pub watermark: DualFile,
    /// `.symbol-dict`.
    pub dictionary: File,
    /// Names of all segments and spares.
    pub segments: Vec<String>,
    /// Their last handles: closing a removed file is slow, so it is done here.
    pub handles: Vec<File>,
    /// Base of the active segment.
    pub active_base: Fsn,
    /// First FSN not used; all below are acked.
    pub next: Fsn,
    /// Names the first new segment.
    pub generation: Generation,
    /// Its size in bytes.
    pub segment_bytes: u64,
    /// Whether it is written over with zeros.
    pub fill: bool,
}

/// Empties the slot and begins it again. Blocking: for the steward. After an error the slot is
/// somewhere on the way; calling again starts over and is safe.
pub(crate) fn renew(fs: &dyn Fs, renewal: Renewal) -> Result<OpenedSlot, Error> {
    let Renewal {
        dir,
        lock,
        mut manifest,
        mut watermark,
        dictionary,
        segments,
        handles,
        active_base,
        next,
        generation,
        segment_bytes,
        fill,
    } = renewal;
    // Soon the only copy of the symbols, as in every drained close.
    fs.sync(&dictionary)
        .map_err(|source| Error::disk("sync", &dir.join(DICTIONARY), 0, source))?;
    let drained = Drained {
        dir: &dir,
        manifest: &mut manifest,
        watermark: &mut watermark,
        segments: &segments,
        active_base,
        acked: next,
    };
    close_drained(fs, drained)?;
    drop((handles, dictionary));
    fresh::create_at(fs, &dir, lock, (segment_bytes, fill), (generation, next))
}
