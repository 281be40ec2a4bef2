//! Opening a slot again for the successor of a shard that panicked (decision 0013).

use super::open::{hand_over, slot_options};
use crate::config::Config;
use crate::error::Error;
use crate::io::Fs;
use crate::shard::{Handover, Salvage};
use crate::slot::{self, RecoveryProgress};
use crate::steward::Incarnation;

/// Opens the slot of `config` from the disk, under the lock that was never given back. `life` of
/// the slot is over then, also if opening fails, and the next one in its place. Nothing of the shard
/// that left `salvage` may be in flight. Blocking.
///
/// # Errors
/// A call of the old life that does not return, and whatever opening a slot can meet.
pub(crate) fn reopen_slot(
    fs: &dyn Fs,
    config: &Config,
    life: &mut Incarnation,
    salvage: &Salvage,
) -> Result<Handover, Error> {
    let progress = RecoveryProgress::new();
    let options = slot_options(config, &progress).expect("it has a slot, so a directory");
    let dir = options.sf_dir.join(&options.sender_id);
    let over = |source| Error::disk("end the use of", &dir, 0, source);
    let next = life.succeed().map_err(over)?;
    *life = next.clone();
    let lock = next.lock_file().clone();
    let floor = (salvage.next_generation, salvage.written);
    let slot = slot::reopen(fs, &options, &dir, lock, floor)?;
    let mut handover = hand_over(fs, slot, false)?;
    handover.incarnation = next;
    Ok(handover)
}
