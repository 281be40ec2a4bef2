//! The shard's segment memory: a budget and a pool of regions that are used again.
//!
//! A region is faulted in once and reused for segment after segment: fresh pages would cost a
//! quarter of a microsecond for every 4 KiB written, and in a virtual machine whose hypervisor has
//! to find them milliseconds a MiB. So until the budget is in use the steward brings in the next
//! region while the active segment's is being filled.

use std::io;

use super::segment::offset;
use super::{Journal, Position};
use crate::io::{HUGE, Io, Region, Request};

/// Pool and budget.
#[derive(Debug)]
pub(super) struct Memory {
    budget: u64,
    pool: Vec<Region>,
    /// The steward was asked for a region and has not answered.
    asked: bool,
    /// Key of the segment for whose successor it was asked last.
    asked_for: Option<u64>,
}

impl Memory {
    pub(super) fn new(budget: u64) -> Self {
        Self {
            budget,
            pool: Vec::new(),
            asked: false,
            asked_for: None,
        }
    }

    /// Whether the segment behind that with `key` may need memory of `bytes` that nobody has
    /// brought in: only huge pages are slow to come, and once was decided for each segment.
    fn looks(&self, key: u64, bytes: u64) -> bool {
        let is_open = !self.asked && self.asked_for != Some(key);
        is_open && self.pool.is_empty() && bytes >= HUGE as u64
    }

    /// It was asked for, or it does not fit the budget, which then has a region to be used again.
    fn decided(&mut self, key: u64, asked: bool) {
        self.asked = asked;
        self.asked_for = Some(key);
    }

    /// The steward's answer. Without one, a rotation maps what it needs.
    pub(super) fn brought(&mut self, answer: io::Result<Region>) {
        self.asked = false;
        if let Ok(region) = answer {
            self.put(region);
        }
    }

    /// A region of at least `bytes`; its old contents do not matter, because only bytes that were
    /// appended, padded by the tail block's zeros, are ever written.
    pub(super) fn take(&mut self, bytes: u64) -> io::Result<Region> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let fits = self.pool.iter().position(|region| {
            region.bytes() >= bytes && region.bytes() < 2 * bytes && region.is_unpinned()
        });
        match fits {
            Some(index) => Ok(self.pool.swap_remove(index)),
            None => Region::new(bytes),
        }
    }

    /// Takes a region back: kept for reuse within an eighth of the budget (but at least one), else
    /// unmapped.
    pub(super) fn put(&mut self, region: Region) {
        let pooled: u64 = self.pool.iter().map(|region| region.bytes() as u64).sum();
        if self.pool.is_empty() || pooled + region.bytes() as u64 <= self.budget / 8 {
            self.pool.push(region);
        }
    }
}

impl Journal {
    /// Asks for the next segment's memory ahead of need.
    pub(super) fn pump_memory(&mut self, io: &mut impl Io) {
        let key = self.first_key + self.chain.len() as u64 - 1;
        let bytes = self.options.segment_bytes;
        let active = self.chain.back().expect("the chain is never empty");
        let is_half_full = 2 * active.end >= active.bytes;
        if self.options.spares == 0 || !is_half_full || !self.memory.looks(key, bytes) {
            return;
        }
        let held: u64 = self.chain.iter().map(super::Segment::memory_bytes).sum();
        let request = Request::Memory {
            bytes: offset(bytes),
        };
        let fits = held + bytes <= self.memory.budget;
        // With a full list: next turn.
        if !fits || io.request(request).is_ok() {
            self.memory.decided(key, fits);
        }
    }

    /// Frees segment memory above the budget, of sealed, stable segments only: a repair needs the
    /// others. Those that the sender has passed go first; then the newest, because the sender needs
    /// the oldest next.
    pub(super) fn evict(&mut self, sent: Position) {
        let mut held: u64 = self.chain.iter().map(super::Segment::memory_bytes).sum();
        let last = self.chain.len() - 1;
        let (first_key, stable) = (self.first_key, self.stable);
        let evictable =
            |segment: &super::Segment| segment.memory.is_some() && segment.next() <= stable;
        let passed = self.chain.iter_mut().take(last).enumerate();
        for (_, segment) in passed.filter(|(index, _)| first_key + (*index as u64) < sent.key) {
            if evictable(segment) {
                let region = segment.memory.take().expect("evictable has memory");
                held -= region.bytes() as u64;
                self.memory.put(region);
            }
        }
        for segment in self.chain.iter_mut().take(last).rev() {
            if held <= self.memory.budget {
                return;
            }
            if evictable(segment) {
                let region = segment.memory.take().expect("evictable has memory");
                held -= region.bytes() as u64;
                self.memory.put(region);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = HUGE as u64;

    #[test]
    fn memory_is_asked_for_once_a_segment_and_not_while_there_is_some() {
        let mut memory = Memory::new(8 * BYTES);
        assert!(memory.looks(7, BYTES));
        assert!(!memory.looks(7, BYTES - 1), "ordinary pages come quickly");
        memory.decided(7, true);
        assert!(!memory.looks(7, BYTES) && !memory.looks(8, BYTES), "asked");
        memory.brought(Err(io::ErrorKind::OutOfMemory.into()));
        assert!(!memory.looks(7, BYTES), "once is enough");
        assert!(memory.looks(8, BYTES));
        memory.decided(8, true);
        let region = Region::new(HUGE).expect("map");
        let address = region.pin(0..1).address();
        memory.brought(Ok(region));
        assert!(!memory.looks(9, BYTES), "one waits");
        let taken = memory.take(BYTES).expect("from the pool");
        assert_eq!(taken.pin(0..1).address(), address);
        assert!(memory.looks(9, BYTES));
        memory.decided(9, false);
        assert!(
            !memory.looks(9, BYTES) && memory.looks(10, BYTES),
            "over the budget"
        );
    }
}
