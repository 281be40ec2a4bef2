//! What an open found and did, and how operators are told.

use std::path::Path;

use super::identity::Moved;
use super::set_aside::SetAside;

/// What an open found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RecoveryReport {
    /// The slot held nothing.
    pub fresh: bool,
    /// A damaged slot of this name was put aside first.
    pub set_aside: Option<SetAside>,
    /// Valid frames on disk, acked ones of kept segments included.
    pub frames: u64,
    /// Their bytes, frame headers included.
    pub bytes: u64,
    /// Bytes behind the last frame of the active segment, if any of them was not zero; zeroed.
    pub torn_tail_bytes: u64,
    /// What was found behind the last frames of segments, copied and zeroed.
    pub torn: Vec<Torn>,
    /// Frames of an unfinished group at the end, taken out of the chain.
    pub deferred_frames: u64,
    /// Where they are kept.
    pub deferred_copies: Vec<String>,
    /// What was brought from an older form to the present one.
    pub migrated: Vec<&'static str>,
    /// Another machine, or another boot of it, had the slot before.
    pub moved: Moved,
    /// A watermark at or above the next FSN, which was corrected on disk.
    pub watermark_refused: Option<i64>,
    /// The watermark file held nothing usable and was emptied.
    pub watermark_reset: bool,
    /// Bytes cut off the end of the dictionary.
    pub dictionary_cut_bytes: u64,
    /// Symbols that only the frames knew.
    pub dictionary_rebuilt: u32,
    /// Files outside the chain that were removed.
    pub removed: Vec<String>,
    /// Unusable files outside the chain that were renamed to `*.corrupt`.
    pub quarantined: Vec<String>,
    /// Files outside the chain that could be neither removed nor renamed.
    pub left: Vec<String>,
    /// Why no spare could be made; the slot works without one until it must rotate.
    pub spare_error: Option<String>,
    /// How long opening took, in nanoseconds, waiting for the lock included.
    pub elapsed_nanos: u64,
}

/// Bytes behind the last frame of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Torn {
    /// Name of their copy.
    pub copy: String,
    /// From the last frame to the end of the file.
    pub bytes: u64,
    /// Whole frames among them, behind a damaged one.
    pub frames: u64,
    /// The segment was followed by another: nothing of the chain is missing.
    pub sealed: bool,
}

impl RecoveryReport {
    /// Whole frames that could not be kept because a damaged one lies before them.
    pub(crate) fn torn_tail_frames(&self) -> u64 {
        let active = self.torn.iter().filter(|torn| !torn.sealed);
        active.map(|torn| torn.frames).sum()
    }

    /// Sealed segments with bytes behind their last frame.
    pub(crate) fn sealed_residues(&self) -> u64 {
        self.torn.iter().filter(|torn| torn.sealed).count() as u64
    }

    /// Logs what was found, one line a finding. `unacked` frames are to be delivered again.
    pub(crate) fn log(&self, dir: &Path, unacked: u64) {
        let slot = dir.display();
        if !self.fresh {
            let (frames, bytes, millis) = (self.frames, self.bytes, self.elapsed_nanos / 1_000_000);
            tracing::info!(%slot, frames, bytes, unacked, millis, "FB-R001 slot recovered");
        }
        self.log_frames(dir);
        self.log_identity(dir);
        self.log_side_files(dir);
        for name in &self.quarantined {
            tracing::warn!(%slot, name, "FB-R006 no usable segment: renamed to *.corrupt");
        }
        for name in &self.left {
            tracing::warn!(%slot, name, "FB-R007 could not be removed, the next start tries again");
        }
        if let Some(error) = &self.spare_error {
            tracing::warn!(%slot, error, "FB-R008 no spare segment could be made");
        }
        if !self.migrated.is_empty() {
            let what = self.migrated.join(", ");
            tracing::info!(%slot, what, "FB-R015 brought from an older form to the present one");
        }
    }

    fn log_frames(&self, dir: &Path) {
        let slot = dir.display();
        for torn in &self.torn {
            let (copy, bytes, frames) = (&torn.copy, torn.bytes, torn.frames);
            if torn.sealed {
                tracing::warn!(
                    %slot, copy, bytes, frames,
                    "FB-R012 bytes behind the last frame of a sealed segment: copied and zeroed, \
                     no frame is missing"
                );
            } else if frames > 0 && self.moved.same_boot {
                tracing::error!(
                    %slot, copy, bytes, frames,
                    "FB-R013 DATA_LOSS: a damaged frame with whole frames behind it, and no power \
                     cut that explains it: copied and zeroed, not delivered"
                );
            } else {
                tracing::warn!(
                    %slot, copy, bytes, frames,
                    "FB-R002 bytes behind the last whole frame: copied and zeroed"
                );
            }
        }
        if self.deferred_frames > 0 {
            let (frames, copies) = (self.deferred_frames, self.deferred_copies.join(", "));
            tracing::warn!(
                %slot, frames, copies,
                "FB-R014 frames of a transaction that was never committed: copied, not delivered"
            );
        }
    }

    fn log_identity(&self, dir: &Path) {
        let slot = dir.display();
        if let Some((before, now)) = &self.moved.hosts {
            tracing::warn!(
                %slot, before, now,
                "FB-R016 the slot was last open on another host: if that one still has its copy, \
                 its frames are delivered twice"
            );
        }
        if self.moved.rebooted {
            tracing::warn!(%slot, "FB-R017 the machine was started again since the slot was open");
        }
    }

    fn log_side_files(&self, dir: &Path) {
        let slot = dir.display();
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
                "FB-R004 .ack-watermark held no usable record: emptied, all frames on disk are \
                 delivered again"
            );
        }
        if self.dictionary_cut_bytes > 0 || self.dictionary_rebuilt > 0 {
            let (cut_bytes, rebuilt) = (self.dictionary_cut_bytes, self.dictionary_rebuilt);
            tracing::warn!(%slot, cut_bytes, rebuilt, "FB-R005 .symbol-dict repaired");
        }
    }
}
