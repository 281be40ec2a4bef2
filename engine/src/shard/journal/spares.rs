//! Spare segments: asked of the steward ahead of need, within the cap.

use super::Journal;
use crate::fsn::{Fsn, Generation};
use crate::io::{Doomed, Io, Reply, Request};

/// Pause before a spare that could not be made is asked for again, in nanoseconds.
const RETRY_PAUSE: u64 = 200_000_000;
/// Time without an append after which one spare is enough, in nanoseconds.
const IDLE: u64 = 3_000_000_000;

/// Most bytes of spares that are made ahead beyond those that are configured.
const EXTRA_BYTES_MAX: u64 = 64 << 20;
/// The same as a share of the cap.
const EXTRA_SHARE: u64 = 8;
/// Most of them: each holds a descriptor, of which a slot has about 20.
const EXTRA_MAX: usize = 8;

/// How many spares are wanted: as configured, more after rotations that found none, but one for an
/// engine that was idle, until it rotates.
#[derive(Debug, Default)]
pub(super) struct Appetite {
    published: Fsn,
    busy_at: u64,
    is_small: bool,
    /// Beyond those configured.
    extra: usize,
}

impl Appetite {
    /// Spares wanted at `now`, of `most`.
    fn spares(&mut self, most: usize, published: Fsn, now: u64) -> usize {
        if self.busy_at == 0 || published != self.published {
            (self.published, self.busy_at) = (published, now.max(1));
        }
        if now >= self.busy_at + IDLE {
            self.is_small = true;
            self.extra = 0;
        }
        match most {
            0 => 0,
            _ if self.is_small => 1,
            _ => most + self.extra,
        }
    }

    /// A spare was used: more may be soon.
    pub(super) fn rotated(&mut self) {
        self.is_small = false;
    }

    /// No spare was there when one was needed: the steward is to be further ahead, by at most
    /// `most` more than configured.
    pub(super) fn missed(&mut self, most: usize) {
        self.extra = (2 * self.extra).max(2).min(most);
    }
}

/// How many spares of `segment_bytes` may be made ahead beyond those that are configured.
pub(super) fn extra_spares_max(segment_bytes: u64, total_bytes: u64) -> usize {
    let bytes = EXTRA_BYTES_MAX.min(total_bytes / EXTRA_SHARE);
    let count = bytes / segment_bytes;
    usize::try_from(count).map_or(EXTRA_MAX, |count| count.min(EXTRA_MAX))
}

impl Journal {
    /// An answer of the steward.
    pub(crate) fn replied(&mut self, io: &mut impl Io, reply: Reply, now: u64) {
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
            Reply::Memory(answer) => self.memory.brought(answer),
            Reply::Rebuilt(answer) => self.rebuilt(answer, now),
            Reply::Removed(removal) => self.removed(removal, now),
            Reply::Renewed(answer) => self.renewed(io, answer, now),
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
        let dictionary = self.dictionary_bytes();
        let least = 2 * self.options.segment_bytes + dictionary;
        self.allocated + dictionary + bytes <= self.options.total_bytes.max(least)
    }

    pub(super) fn pump_spares(&mut self, io: &mut impl Io, now: u64) {
        let wanted = self
            .appetite
            .spares(self.options.spares, self.published, now);
        while self.spares.len() > wanted {
            let spare = self.spares.pop_back().expect("more than wanted");
            self.unreclaimed += spare.bytes;
            self.doomed.push(Doomed {
                name: spare.name,
                bytes: spare.bytes,
            });
        }
        let Some(files) = &self.files else { return };
        let size = self.options.segment_bytes;
        if self.epoch.settles() {
            return; // it would be removed at once
        }
        while self.spares.len() + self.spares_asked < wanted
            && self.has_room_for(size)
            && now >= self.spare_retry_at
        {
            let request = Request::MakeSpare {
                dir: files.dir.clone(),
                generation: self.next_generation,
                bytes: size,
                next: self.published,
                fill: self.options.prefill,
                keep_free: self.options.min_free_bytes,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_engine_wants_one_spare_until_it_rotates() {
        let mut appetite = Appetite::default();
        let start = 5;
        assert_eq!(appetite.spares(3, Fsn(7), start), 3, "it has just started");
        assert_eq!(appetite.spares(3, Fsn(7), start + IDLE - 1), 3);
        assert_eq!(appetite.spares(3, Fsn(8), start + IDLE), 3, "an append");
        let idle = start + 2 * IDLE;
        assert_eq!(appetite.spares(3, Fsn(8), idle), 1);
        assert_eq!(
            appetite.spares(3, Fsn(9), idle + 1),
            1,
            "one row is no rush"
        );
        appetite.rotated();
        assert_eq!(appetite.spares(3, Fsn(10), idle + 2), 3);
        assert_eq!(appetite.spares(0, Fsn(10), idle + 2 * IDLE), 0);
    }

    #[test]
    fn rotations_that_find_no_spare_ask_for_more_until_the_engine_is_idle() {
        let mut appetite = Appetite::default();
        let most = extra_spares_max(4 << 20, 8 << 30);
        assert_eq!(most, 8);
        let mut wanted = Vec::new();
        for number in 1..6 {
            appetite.missed(most);
            wanted.push(appetite.spares(2, Fsn(number), number));
        }
        assert_eq!(wanted, [4, 6, 10, 10, 10]);
        assert_eq!(appetite.spares(2, Fsn(5), 5 + IDLE), 1);
        appetite.rotated();
        assert_eq!(
            appetite.spares(2, Fsn(6), 6 + IDLE),
            2,
            "as configured again"
        );
    }

    #[test]
    fn extra_spares_stay_within_64_mib_and_an_eighth_of_the_cap() {
        assert_eq!(extra_spares_max(64 << 20, 8 << 30), 1);
        assert_eq!(extra_spares_max(256 << 20, 8 << 30), 0);
        assert_eq!(extra_spares_max(4 << 20, 128 << 20), 4);
        assert_eq!(extra_spares_max(64 << 10, 8 << 30), 8);
    }
}
