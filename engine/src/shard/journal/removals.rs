//! Removing what left the chain: asked of the steward, counted as used until it is done.
//!
//! The cap holds for what is on the disk, so a steward that is slow, dead or refused by the
//! filesystem means back-pressure and never a full disk.

use super::Journal;
use crate::io::{Io, Removal, Request};

/// Pause before files that could not be removed are asked for again, in nanoseconds.
const RETRY_PAUSE: u64 = 200_000_000;

impl Journal {
    /// Asks for all files that left the chain since the last time.
    pub(super) fn pump_removals(&mut self, io: &mut impl Io, now: u64) {
        if self.doomed.is_empty() || now < self.removal_retry_at {
            return;
        }
        let slot = self.files.as_ref().expect("removals need files");
        let request = Request::Remove {
            dir: slot.dir.clone(),
            files: std::mem::take(&mut self.doomed),
            incarnation: slot.incarnation.clone(),
        };
        // With a full list: next turn.
        if let Err(Request::Remove { files, .. }) = io.request(request) {
            self.doomed = files;
        }
    }

    /// The steward's answer.
    pub(super) fn removed(&mut self, removal: Removal, now: u64) {
        self.allocated -= removal.freed;
        self.unreclaimed -= removal.freed;
        if let Some(error) = removal.error {
            self.gate.counters.disk_errors.add(1);
            let cause = format!("removing segments (tried again): {error}");
            self.gate.failed(&cause, false);
        }
        if !removal.left.is_empty() {
            self.doomed.extend(removal.left);
            self.removal_retry_at = now + RETRY_PAUSE;
        }
        self.publish_gauges();
    }
}
