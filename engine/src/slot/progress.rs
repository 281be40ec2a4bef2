//! How far a recovery is, readable by any thread while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far [`connect`](crate::EngineBuilder::connect) is with the slot that it opens; of several
/// shards' slots, one after the other, with the present one. Clones share the figures; reading them costs a load each and disturbs nobody.
///
/// The totals are known, and more than what was scanned, as soon as the slot's lock is held. All
/// are 0 before, and without `sf_dir`.
#[derive(Debug, Clone, Default)]
pub struct RecoveryProgress(Arc<Figures>);

#[derive(Debug, Default)]
struct Figures {
    bytes_total: AtomicU64,
    bytes_scanned: AtomicU64,
    segments_total: AtomicU64,
    segments_scanned: AtomicU64,
    scan_nanos: AtomicU64,
}

impl RecoveryProgress {
    /// Nothing scanned, nothing known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of all segment files of the slot, empty space in them included.
    pub fn bytes_total(&self) -> u64 {
        self.0.bytes_total.load(Ordering::Relaxed)
    }

    /// Bytes of them that were read; each piece is checked before the next one counts.
    pub fn bytes_scanned(&self) -> u64 {
        self.0.bytes_scanned.load(Ordering::Relaxed)
    }

    /// Segment files of the slot.
    pub fn segments_total(&self) -> u64 {
        self.0.segments_total.load(Ordering::Relaxed)
    }

    /// Segment files that were read and checked to their end.
    pub fn segments_scanned(&self) -> u64 {
        self.0.segments_scanned.load(Ordering::Relaxed)
    }

    /// How long reading and checking took, in nanoseconds; 0 until it is over.
    pub fn scan_nanos(&self) -> u64 {
        self.0.scan_nanos.load(Ordering::Relaxed)
    }

    /// A slot with so many files is opened.
    pub(crate) fn begin(&self, segments: u64, bytes: u64) {
        self.0.scan_nanos.store(0, Ordering::Relaxed);
        self.0.segments_scanned.store(0, Ordering::Relaxed);
        self.0.bytes_scanned.store(0, Ordering::Relaxed);
        self.0.segments_total.store(segments, Ordering::Relaxed);
        self.0.bytes_total.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn piece(&self, bytes: u64) {
        self.0.bytes_scanned.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn segment(&self) {
        self.0.segments_scanned.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn scanned(&self, nanos: u64) {
        self.0.scan_nanos.store(nanos, Ordering::Relaxed);
    }
}
