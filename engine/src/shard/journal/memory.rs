//! The shard's segment memory: a budget and a pool of regions that are used again.
//!
//! A region is faulted in once and reused for segment after segment: fresh pages would cost a
//! quarter of a microsecond for every 4 KiB written.

use std::io;

use super::{Journal, Position};
use crate::io::Region;

/// Pool and budget.
#[derive(Debug)]
pub(super) struct Memory {
    budget: u64,
    pool: Vec<Region>,
}

impl Memory {
    pub(super) fn new(budget: u64) -> Self {
        Self {
            budget,
            pool: Vec::new(),
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
