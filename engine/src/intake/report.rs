//! What taking over an intake found, and how operators are told.

use std::path::Path;

use super::record::RingPlace;

/// What was found. Losses are logged as they are found, before anything is renamed: rather twice
/// than never.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IntakeReport {
    /// Entries that are delivered by this start.
    pub(crate) recovered: u64,
    /// Entries whose frames are in the journal.
    pub(crate) skipped: u64,
    /// Rings of which something is not delivered.
    pub(crate) rings_lost: u64,
    /// Whole entries among what is not delivered, as far as they can be counted.
    pub(crate) entries_lost: u64,
    /// Bytes that are not delivered; of rings that are gone, what they could hold.
    pub(crate) bytes_lost: u64,
    /// For handlers: one text a loss.
    pub(crate) losses: Vec<String>,
}

impl IntakeReport {
    /// Rings are listed and their files are gone.
    pub(super) fn missing(&mut self, slot: &Path, rings: &[RingPlace]) {
        let Some(first) = rings.first() else { return };
        let place = first.dir.as_deref().unwrap_or(slot).display();
        let bytes: u64 = rings.iter().map(|ring| ring.capacity).sum();
        let count = rings.len();
        self.lose(
            0,
            bytes,
            format!(
                "{count} rings of the intake, up to {bytes} bytes of accepted batches, are gone \
                 from {place}"
            ),
        );
        self.rings_lost += count as u64 - 1;
    }

    /// A file that is no ring of this slot.
    pub(super) fn unusable(&mut self, path: &Path, bytes: u64, reason: &str) {
        self.lose(
            0,
            bytes,
            format!("{}: {reason}; kept beside it as .lost-*", path.display()),
        );
    }

    /// A ring that was filled before the machine was started again: accepted does not survive
    /// power loss, and what is left of it is not whole.
    pub(super) fn other_boot(&mut self, path: &Path, entries: u64, bytes: u64) {
        self.lose(
            entries,
            bytes,
            format!(
                "{}: accepted before the machine was started again ({entries} batches can be \
                 read, {bytes} bytes); kept beside it as .lost-*",
                path.display()
            ),
        );
    }

    /// The entries from `position` on are damaged.
    pub(super) fn damaged(&mut self, path: &Path, position: u64, bytes: u64) {
        self.lose(
            0,
            bytes,
            format!(
                "{}: the entry at position {position} is damaged, {bytes} bytes from there are \
                 not delivered; a copy is kept beside it as .lost-*",
                path.display()
            ),
        );
    }

    fn lose(&mut self, entries: u64, bytes: u64, what: String) {
        tracing::error!(
            what,
            "FB-R018 DATA_LOSS: accepted batches are not delivered"
        );
        self.rings_lost += 1;
        self.entries_lost += entries;
        self.bytes_lost = self.bytes_lost.saturating_add(bytes);
        self.losses.push(what);
    }

    /// Logs what is delivered again.
    pub(super) fn log(&self, slot: &Path) {
        let (recovered, skipped) = (self.recovered, self.skipped);
        if recovered > 0 || skipped > 0 {
            tracing::info!(
                slot = %slot.display(), recovered, skipped,
                "FB-R019 batches of an earlier process taken over from the intake"
            );
        }
    }
}
