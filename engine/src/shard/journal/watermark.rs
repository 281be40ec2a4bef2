//! The acknowledgement watermark: a hint that spares the next start some replay.
//!
//! Written without a sync, at most every [`PAUSE`]: losing it costs re-sending, never data.

use std::io;

use super::record_write::RecordWrite;
use super::rotate::signed;
use super::{Journal, token};
use crate::fsn::Fsn;
use crate::io::Io;

/// Shortest time between two records, in nanoseconds.
const PAUSE: u64 = 5_000_000;

/// What is known about the record on disk.
#[derive(Debug, Default)]
pub(super) struct Watermark {
    /// Value of the last record written.
    pub(super) recorded: Fsn,
    pub(super) last_trim: u64,
    last_write: u64,
    writing: Option<(Fsn, RecordWrite)>,
}

impl Watermark {
    pub(super) fn is_busy(&self) -> bool {
        self.writing.is_some()
    }

    /// When the next record may be written.
    pub(super) fn due(&self) -> u64 {
        self.last_write + PAUSE
    }

    pub(super) fn in_flight(&self) -> bool {
        self.writing
            .as_ref()
            .is_some_and(|(_, write)| write.in_flight())
    }
}

impl Journal {
    pub(super) fn pump_watermark(&mut self, io: &mut impl Io, now: u64) {
        let mark = self.mark();
        let rested = self.closing || now >= self.watermark.due();
        let due = mark > self.watermark.recorded && rested && !self.epoch.settles();
        let file = &self
            .files
            .as_ref()
            .expect("watermarks need files")
            .watermark;
        let scratch = &mut self.scratch.watermark;
        if self.watermark.writing.is_none() && due && self.trim.is_none() {
            let mut write = RecordWrite::default();
            write.begin(file, scratch, (signed(mark) - 1, 0));
            self.watermark.writing = Some((mark, write));
            self.watermark.last_write = now;
        }
        if let Some((_, write)) = &mut self.watermark.writing {
            write.pump_write(io, file, scratch, token::WATERMARK);
        }
    }

    /// Whether acknowledgements wait to be recorded.
    pub(super) fn watermark_lags(&self) -> bool {
        self.files.is_some() && self.mark() > self.watermark.recorded
    }

    pub(super) fn watermark_done(&mut self, result: io::Result<u32>) -> Result<(), String> {
        let (mark, mut write) = self.watermark.writing.take().expect("was in flight");
        let file = &mut self.files.as_mut().expect("has files").watermark;
        write.written(result, file, "watermark write")?;
        self.watermark.recorded = mark;
        Ok(())
    }
}
