//! What an open found and did, and how operators are told.

use std::path::Path;

/// What an open found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RecoveryReport {
    /// The slot held nothing.
    pub fresh: bool,
    /// Valid frames on disk, acked ones of kept segments included.
    pub frames: u64,
    /// Their bytes, frame headers included.
    pub bytes: u64,
    /// Bytes behind the last frame of the active segment, if any of them was not zero; zeroed.
    pub torn_tail_bytes: u64,
    /// A watermark at or above the next FSN, which was corrected on disk.
    pub watermark_refused: Option<i64>,
    /// The watermark file had another size and was emptied.
    pub watermark_reset: bool,
    /// Bytes cut off the end of the dictionary.
    pub dictionary_cut_bytes: u64,
    /// Symbols that only the frames knew.
    pub dictionary_rebuilt: u32,
    /// Files outside the chain that were removed.
    pub removed: Vec<String>,
    /// Unusable files outside the chain that were renamed to `*.corrupt`.
    pub set_aside: Vec<String>,
    /// Files outside the chain that could be neither removed nor renamed.
    pub left: Vec<String>,
    /// Why no spare could be made; the slot works without one until it must rotate.
    pub spare_error: Option<String>,
    /// How long opening took, in nanoseconds, waiting for the lock included.
    pub elapsed_nanos: u64,
}

impl RecoveryReport {
    /// Logs what was found, one line a finding. `unacked` frames are to be delivered again.
    pub(crate) fn log(&self, dir: &Path, unacked: u64) {
        let slot = dir.display();
        if !self.fresh {
            let (frames, bytes, millis) = (self.frames, self.bytes, self.elapsed_nanos / 1_000_000);
            tracing::info!(%slot, frames, bytes, unacked, millis, "FB-R001 slot recovered");
        }
        if self.torn_tail_bytes > 0 {
            let bytes = self.torn_tail_bytes;
            tracing::warn!(%slot, bytes, "FB-R002 bytes behind the last whole frame discarded");
        }
        if let Some(acked) = self.watermark_refused {
            tracing::warn!(
                %slot, acked,
                "FB-R003 the watermark names frames that are not on disk: ignored and corrected, \
                 all frames on disk are delivered again"
            );
        }
        if self.watermark_reset {
            tracing::warn!(
                %slot,
                "FB-R004 .ack-watermark had another size: emptied, all frames on disk are \
                 delivered again"
            );
        }
        if self.dictionary_cut_bytes > 0 || self.dictionary_rebuilt > 0 {
            let (cut_bytes, rebuilt) = (self.dictionary_cut_bytes, self.dictionary_rebuilt);
            tracing::warn!(%slot, cut_bytes, rebuilt, "FB-R005 .symbol-dict repaired");
        }
        for name in &self.set_aside {
            tracing::warn!(%slot, name, "FB-R006 no usable segment: renamed to *.corrupt");
        }
        for name in &self.left {
            tracing::warn!(%slot, name, "FB-R007 could not be removed, the next start tries again");
        }
        if let Some(error) = &self.spare_error {
            tracing::warn!(%slot, error, "FB-R008 no spare segment could be made");
        }
    }
}
