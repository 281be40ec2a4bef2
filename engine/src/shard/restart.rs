//! A shard panicked: what it had is taken out of it, its successor goes on from the disk.
//!
//! Two things survive it in memory. The rings: an entry stays in its ring until its frame was seen
//! written, so what the disk does not have can be taken again. And the books of which entry each
//! frame was ([`Progress`]): frames that are on disk need no second taking, and their receipts are
//! completed by the successor. The journal's own memory, the link, and whatever else the panic may
//! have left half-done are dropped; all of it is read from the disk again.
//!
//! Frames above what the disk holds lose their FSN: their entries get new ones. If the server had
//! them already they arrive twice, as after a kill.

use std::sync::Arc;

use super::intake::{Intake, Leavings};
use super::progress::Progress;
use super::{Handover, Shard};
use crate::config::Config;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::router::gate::Gate;

/// What a shard that panicked leaves to its successor.
#[derive(Debug)]
pub(crate) struct Salvage {
    leavings: Leavings,
    progress: Progress,
    /// First FSN not acked.
    pub(crate) acked: Fsn,
    /// First FSN not seen written: where a slot that holds nothing goes on.
    pub(crate) written: Fsn,
    /// First generation that was not given to any file.
    pub(crate) next_generation: Generation,
    /// The disk operation that failed and is not repaired: only the memory that is gone now had
    /// what it was to write.
    pub(crate) poisoned: Option<String>,
}

impl Shard {
    /// Takes a shard that panicked apart. Nothing of it may be in flight any more.
    pub(crate) fn salvage(self) -> Salvage {
        Salvage {
            acked: self.journal.acked(),
            written: self.journal.written(),
            next_generation: self.journal.next_generation(),
            poisoned: self.journal.poisoned().map(str::to_owned),
            leavings: self.intake.into_leavings(),
            progress: self.progress,
        }
    }

    /// A shard that goes on where another one panicked, over the slot as it was opened again.
    ///
    /// # Errors
    /// Want of memory, or [`Error::Internal`]: the books do not fit the disk, and nobody can say
    /// which entries are to be taken again.
    pub(crate) fn resume(
        config: &Config,
        gate: Arc<Gate>,
        mut handover: Handover,
        salvage: Salvage,
    ) -> Result<Self, Error> {
        let next = handover.slot.next;
        let slot = &mut handover.slot;
        // The record on disk lags behind what the server has confirmed.
        slot.acked = slot.acked.max(salvage.acked.min(next));
        let recovered = gate.counters.frames_recovered.get();
        let mut shard = Self::new(config, Arc::clone(&gate), Some(handover))?;
        gate.counters.frames_recovered.set(recovered);
        let mut progress = salvage.progress;
        progress.rewind(next).map_err(Error::Internal)?;
        shard.intake =
            Intake::resume(gate, salvage.leavings, &progress).map_err(Error::Internal)?;
        shard.progress = progress;
        Ok(shard)
    }
}
