//! Opening a slot again under the lock that this process holds: its shard panicked.
//!
//! As any opening, but nothing is set aside: a slot that is damaged now is left as it is for the
//! next start. Generations go on above `first`, and a slot that holds nothing goes on at `next`:
//! this process gives no name and no number of a frame that was written to anything else.

use std::path::Path;

use super::fresh;
use super::gather::Inventory;
use super::open::{clear, list};
use super::opened::{OpenedSlot, SlotOptions};
use super::recover::Recovery;
use super::report::RecoveryReport;
use super::takeover::survey;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::io::{File, Fs};

/// Recovers what `dir` holds. Nothing on it is in flight, and nobody else touches it. Blocking.
pub(crate) fn reopen(
    fs: &dyn Fs,
    options: &SlotOptions,
    dir: &Path,
    lock: File,
    (first, next): (Generation, Fsn),
) -> Result<OpenedSlot, Error> {
    let mut report = RecoveryReport::default();
    let mut survey = survey(fs, dir, &list(fs, dir)?)?;
    survey.next_generation = survey.next_generation.max(first);
    let generation = survey.next_generation;
    let mut inventory = Inventory::default();
    match Recovery::read(fs, dir, survey, &options.progress, &mut inventory)? {
        Ok(recovery) => recovery.commit(fs, options, dir, lock, report),
        Err(leftovers) => {
            clear(fs, dir, leftovers, &mut report)?;
            let segment = (options.segment_bytes, options.fills_at_once());
            fresh::create_at(fs, dir, lock, segment, (generation, next))
        }
    }
}
