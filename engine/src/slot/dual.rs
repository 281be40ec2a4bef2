//! An open dual-record file: reading at open, and the next record for whoever writes it.
//!
//! While a shard holds the slot it writes the records itself on its ring; the blocking writes here
//! serve open, recovery and close.

use std::io;
use std::path::Path;

use super::record::{DUAL_BYTES, HALF_LEN, Kind, Record, current, older};
use super::whole;
use crate::io::{File, Fs, OpenMode};

/// What a dual-record file was found to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A valid record.
    Current,
    /// A valid record in a file of an older form.
    Older,
    /// The present size and nothing but zeros: no record was written yet.
    Blank,
    /// Anything else.
    Unusable,
}

impl Content {
    /// Whether there is a record.
    pub(crate) fn is_valid(self) -> bool {
        matches!(self, Self::Current | Self::Older)
    }
}

/// `sf-manifest.bin` or `.ack-watermark`, opened for buffered reading and writing.
#[derive(Debug, Clone)]
pub(crate) struct DualFile {
    /// The open file.
    pub file: File,
    /// Generation of the current record; 0 before the first.
    pub generation: i64,
    /// Manifest: base of the first segment. Watermark: acked FSN, -1 for none.
    pub first: i64,
    /// Manifest: base of the active segment. Watermark: 0.
    pub second: i64,
    kind: Kind,
}

impl DualFile {
    /// A file without a record yet.
    fn blank(file: File, kind: Kind) -> Self {
        let first = if kind == Kind::Watermark { -1 } else { 0 };
        Self {
            file,
            generation: 0,
            first,
            second: 0,
            kind,
        }
    }

    /// Creates the file, 8,192 zero bytes, not synced.
    pub(crate) fn create(fs: &dyn Fs, path: &Path, kind: Kind) -> io::Result<Self> {
        let file = fs.open(path, OpenMode::CreateNew)?;
        fs.write_at(&file, &[0; 2 * HALF_LEN], 0)?;
        Ok(Self::blank(file, kind))
    }

    /// Opens an existing file and says what it holds.
    pub(crate) fn open(fs: &dyn Fs, path: &Path, kind: Kind) -> io::Result<(Self, Content)> {
        let file = fs.open(path, OpenMode::ReadWrite)?;
        let mut bytes = [0; 2 * HALF_LEN];
        let mut dual = Self::blank(file, kind);
        let size = fs.bytes(&dual.file)?;
        let len = fs.read_at(&dual.file, &mut bytes, 0)?;
        let bytes = bytes.get(..len).unwrap_or_default();
        let (record, valid) = if size == DUAL_BYTES {
            (current(bytes, kind), Content::Current)
        } else if size == len as u64 {
            (older(bytes, kind), Content::Older)
        } else {
            (None, Content::Unusable)
        };
        if let Some(record) = record {
            dual.set_current(record);
            return Ok((dual, valid));
        }
        let blank = size == DUAL_BYTES && bytes.iter().all(|byte| *byte == 0);
        let content = if blank {
            Content::Blank
        } else {
            Content::Unusable
        };
        Ok((dual, content))
    }

    /// A new file of the present form with this record, whole and durable, in place of whatever
    /// had the name.
    pub(crate) fn place(
        fs: &dyn Fs,
        dir: &Path,
        name: &str,
        kind: Kind,
        record: Record,
    ) -> io::Result<Self> {
        let half = record.to_half(kind);
        let blank = [0; HALF_LEN];
        let halves = if record.offset() == 0 {
            [half, blank]
        } else {
            [blank, half]
        };
        let mut new = Self::blank(whole::write(fs, dir, name, halves.as_flattened())?, kind);
        new.set_current(record);
        Ok(new)
    }

    /// Empties a file of another size or content: 8,192 zero bytes, synced.
    pub(crate) fn reset(&mut self, fs: &dyn Fs) -> io::Result<()> {
        fs.set_bytes(&self.file, 0)?;
        fs.write_at(&self.file, &[0; 2 * HALF_LEN], 0)?;
        fs.sync(&self.file)?;
        *self = Self::blank(self.file.clone(), self.kind);
        Ok(())
    }

    /// The record that follows the current one; it counts only once [`set_current`] is told.
    ///
    /// [`set_current`]: Self::set_current
    pub(crate) fn next(&self, first: i64, second: i64) -> Record {
        // Generations read from disk are at most i64::MAX / 2 and grow by one per write.
        Record {
            generation: self.generation + 1,
            first,
            second,
        }
    }

    /// The 4,096 bytes of `record` and the offset at which they go into the file.
    pub(crate) fn half(&self, record: Record) -> (u64, [u8; HALF_LEN]) {
        (record.offset(), record.to_half(self.kind))
    }

    /// Takes note that `record` is written.
    pub(crate) fn set_current(&mut self, record: Record) {
        self.generation = record.generation;
        self.first = record.first;
        self.second = record.second;
    }

    /// Writes the next record and syncs the file. On an error the current record stays.
    pub(crate) fn write(&mut self, fs: &dyn Fs, first: i64, second: i64) -> io::Result<()> {
        let record = self.next(first, second);
        let (offset, bytes) = self.half(record);
        fs.write_at(&self.file, &bytes, offset)?;
        fs.sync(&self.file)?;
        self.set_current(record);
        Ok(())
    }
}
