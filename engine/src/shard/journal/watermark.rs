//! The acknowledgement watermark: a hint that spares the next start some replay.
//!
//! Written without a sync, at most every [`PAUSE`]: losing it costs re-sending, never data.

use std::io;

use super::phase::Phase;
use super::rotate::signed;
use super::{Journal, token};
use crate::fsn::Fsn;
use crate::io::{BLOCK, DiskOp, Io};
use crate::slot::record::Record;

/// Shortest time between two records, in nanoseconds.
const PAUSE: u64 = 5_000_000;

/// What is known about the record on disk.
#[derive(Debug, Default)]
pub(super) struct Watermark {
    /// Value of the last record written.
    pub(super) recorded: Fsn,
    pub(super) last_trim: u64,
    last_write: u64,
    writing: Option<(Fsn, Record, Phase)>,
}

impl Watermark {
    pub(super) fn is_busy(&self) -> bool {
        self.writing.is_some()
    }

    pub(super) fn in_flight(&self) -> bool {
        self.writing
            .is_some_and(|(_, _, phase)| phase.is_in_flight())
    }
}

impl Journal {
    pub(super) fn pump_watermark(&mut self, io: &mut impl Io, now: u64) {
        let mark = self.mark();
        let rested = self.closing || now >= self.watermark.last_write + PAUSE;
        let due = mark > self.watermark.recorded && rested;
        let files = self.files.as_ref().expect("watermarks need files");
        if self.watermark.writing.is_none() && due && self.trim.is_none() {
            let record = files.watermark.next(signed(mark) - 1, 0);
            let (_, half) = files.watermark.half(record);
            self.scratch
                .watermark
                .slice_mut(0..BLOCK)
                .copy_from_slice(&half);
            self.watermark.writing = Some((mark, record, Phase::Waiting));
            self.watermark.last_write = now;
        }
        if let Some((_, record, phase)) = &mut self.watermark.writing {
            let offset = record.offset();
            phase.start(true, io, token::WATERMARK, || DiskOp::Write {
                file: files.watermark.file.clone(),
                offset,
                bytes: self.scratch.watermark.pin(0..BLOCK),
                tail: None,
            });
        }
    }

    /// Whether acknowledgements wait to be recorded: the shard looks again within [`PAUSE`].
    pub(crate) fn watermark_lags(&self) -> bool {
        self.files.is_some() && self.mark() > self.watermark.recorded
    }

    pub(super) fn watermark_done(&mut self, result: io::Result<u32>) -> Result<(), String> {
        let (mark, record, mut phase) = self.watermark.writing.take().expect("was in flight");
        phase.finish(result, BLOCK, "watermark write")?;
        self.files
            .as_mut()
            .expect("watermarks need files")
            .watermark
            .set_current(record);
        self.watermark.recorded = mark;
        Ok(())
    }
}
