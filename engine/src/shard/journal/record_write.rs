//! One record of a dual file (manifest or watermark) on its way: written, then synced.

use std::io;

use super::phase::Phase;
use crate::io::{BLOCK, DiskOp, Region, Storage, Token};
use crate::slot::DualFile;
use crate::slot::record::Record;

/// A record from [`begin`](Self::begin) to its fdatasync. The block that is written lies in
/// `scratch`, which belongs to one record at a time.
#[derive(Debug, Default)]
pub(super) struct RecordWrite {
    record: Option<Record>,
    write: Phase,
    sync: Phase,
}

impl RecordWrite {
    /// Makes the record that follows the file's current one.
    pub(super) fn begin(&mut self, file: &DualFile, scratch: &mut Region, values: (i64, i64)) {
        let record = file.next(values.0, values.1);
        let (_, half) = file.half(record);
        scratch.slice_mut(0..BLOCK).copy_from_slice(&half);
        self.record = Some(record);
    }

    /// Whether the record was made: the scratch block is taken.
    pub(super) fn is_begun(&self) -> bool {
        self.record.is_some()
    }

    /// Submits what is due: the write, and behind it the fdatasync.
    pub(super) fn pump(
        &mut self,
        io: &mut impl Storage,
        file: &DualFile,
        scratch: &Region,
        (write, sync): (Token, Token),
    ) {
        self.pump_write(io, file, scratch, write);
        let written = self.write.is_done();
        self.sync.start(written, io, sync, || DiskOp::Sync {
            file: file.file.clone(),
        });
    }

    /// Submits the write alone, for a record that is only a hint.
    pub(super) fn pump_write(
        &mut self,
        io: &mut impl Storage,
        file: &DualFile,
        scratch: &Region,
        token: Token,
    ) {
        let Some(record) = self.record else { return };
        self.write.start(true, io, token, || DiskOp::Write {
            file: file.file.clone(),
            offset: record.offset(),
            bytes: scratch.pin(0..BLOCK),
            tail: None,
        });
    }

    /// The write ended: the file's current record is this one.
    pub(super) fn written(
        &mut self,
        result: io::Result<u32>,
        file: &mut DualFile,
        what: &str,
    ) -> Result<(), String> {
        self.write.finish(result, BLOCK, what)?;
        file.set_current(self.record.expect("made before it is written"));
        Ok(())
    }

    /// The fdatasync ended.
    pub(super) fn synced(&mut self, result: io::Result<u32>, what: &str) -> Result<(), String> {
        self.sync.finish(result, 0, what)
    }

    /// Its write, or its fdatasync, is submitted again.
    pub(super) fn again(&mut self) {
        if self.write.is_in_flight() {
            self.write.again();
        } else {
            self.sync.again();
        }
    }

    /// Whether the record is durable.
    pub(super) fn is_done(&self) -> bool {
        self.sync.is_done()
    }

    /// Whether an operation of it is with the kernel.
    pub(super) fn in_flight(&self) -> bool {
        self.write.is_in_flight() || self.sync.is_in_flight()
    }
}
