//! Spare segments: asked of the steward ahead of need, within the cap.

use super::Journal;
use crate::fsn::Generation;
use crate::io::{Io, Reply, Request};

/// Pause before a spare that could not be made is asked for again, in nanoseconds.
const RETRY_PAUSE: u64 = 200_000_000;

impl Journal {
    /// An answer of the steward.
    pub(crate) fn replied(&mut self, reply: Reply, now: u64) {
        match reply {
            Reply::Spare(Ok(spare)) => {
                self.spares_asked -= 1;
                self.spares.push_back(spare);
            }
            Reply::Spare(Err(error)) => {
                // No space is back-pressure, not damage: tried again, and seen in the counter.
                self.spares_asked -= 1;
                self.allocated -= self.options.segment_bytes;
                self.gate.counters.disk_errors.add(1);
                self.spare_retry_at = now + RETRY_PAUSE;
                let cause = format!("making a segment (tried again): {error}");
                self.gate.failed(&cause, false);
            }
            Reply::Removed(removal) => self.removed(removal, now),
            Reply::Opened { .. } | Reply::Closed | Reply::Kept(_) | Reply::Resolved(_) => {}
        }
    }

    /// Whether `bytes` more of segments fit the cap, which covers segments, spares and dictionary.
    /// Two segments always fit, or a slot at the smallest cap could never rotate; `close` goes
    /// beyond the cap for what was accepted.
    pub(super) fn has_room_for(&self, bytes: u64) -> bool {
        let spares = self.spares.len() + self.spares_asked;
        let single = self.chain.len() == 1 && spares == 0 && self.unreclaimed == 0;
        if self.closing || single {
            return true;
        }
        let dictionary = self
            .files
            .as_ref()
            .map_or(0, |files| files.dictionary_bytes);
        let least = 2 * self.options.segment_bytes + dictionary;
        self.allocated + dictionary + bytes <= self.options.total_bytes.max(least)
    }

    pub(super) fn pump_spares(&mut self, io: &mut impl Io, now: u64) {
        let Some(files) = &self.files else { return };
        let size = self.options.segment_bytes;
        while self.spares.len() + self.spares_asked < self.options.spares
            && self.has_room_for(size)
            && now >= self.spare_retry_at
        {
            let request = Request::MakeSpare {
                dir: files.dir.clone(),
                generation: self.next_generation,
                bytes: size,
                next: self.published,
                incarnation: files.incarnation.clone(),
            };
            if io.request(request).is_err() {
                return;
            }
            let next = self.next_generation.0.checked_add(1);
            self.next_generation = Generation(next.expect("2^64 segments are never made"));
            self.spares_asked += 1;
            self.allocated += size;
        }
    }
}
