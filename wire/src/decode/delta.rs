//! The delta dictionary at the start of a payload (protocol.md section 9):
//! `start:varint count:varint count × { length:varint utf8 }`.

use super::{DecodeError, Reason};
use crate::dict::SYMBOLS_MAX;
use crate::reader::Reader;
use crate::varint;

/// New symbols of a connection, ids `start` to `start + count - 1`; every entry is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta<'a> {
    start: u32,
    count: u32,
    entries: &'a [u8],
}

impl<'a> Delta<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let short = Reason::DeltaTruncated;
        let start = read_int(reader, Reason::DeltaStartRange)?;
        let count_at = *reader;
        let count = read_int(reader, Reason::DeltaCountRange)?;
        if u64::from(start).saturating_add(u64::from(count)) > SYMBOLS_MAX {
            return count_at.fail(Reason::DeltaLimit);
        }
        if usize::try_from(count).unwrap_or(usize::MAX) > reader.left() {
            return count_at.fail(Reason::DeltaCountBeyondPayload { count });
        }
        let first = reader.at();
        for _ in 0..count {
            reader.text(short, Reason::SymbolNotUtf8)?;
        }
        Ok(Self {
            start,
            count,
            entries: reader.since(first),
        })
    }

    /// Id of the first entry.
    #[inline]
    pub fn start(&self) -> u64 {
        u64::from(self.start)
    }

    /// Number of entries.
    #[inline]
    pub fn count(&self) -> u64 {
        u64::from(self.count)
    }

    /// The entries as they stand on the wire (length and text each), for copying.
    #[inline]
    pub fn entry_bytes(&self) -> &'a [u8] {
        self.entries
    }

    /// The texts in order of their ids.
    #[inline]
    pub fn iter(&self) -> DeltaIter<'a> {
        DeltaIter { rest: self.entries }
    }
}

impl<'a> IntoIterator for Delta<'a> {
    type Item = &'a str;
    type IntoIter = DeltaIter<'a>;

    fn into_iter(self) -> DeltaIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Delta<'a> {
    type Item = &'a str;
    type IntoIter = DeltaIter<'a>;

    fn into_iter(self) -> DeltaIter<'a> {
        self.iter()
    }
}

fn read_int(reader: &mut Reader<'_>, range: Reason) -> Result<u32, DecodeError> {
    let at = *reader;
    let value = reader.varint(Reason::DeltaTruncated)?;
    match i32::try_from(value) {
        Ok(value) => Ok(value.unsigned_abs()),
        Err(_) => at.fail(range),
    }
}

/// Iterator over the texts of a [`Delta`].
#[derive(Clone, Debug)]
pub struct DeltaIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for DeltaIter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        // Checked when the section was read, so `None` here only ever means the end.
        let (text, rest) = split_entry(self.rest)?;
        self.rest = rest;
        Some(text)
    }
}

/// Splits one length-prefixed text off; `None` at the end or when it is malformed.
pub(crate) fn split_entry(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, used) = varint::decode(bytes).ok()?;
    let (text, rest) = bytes
        .get(used..)?
        .split_at_checked(usize::try_from(length).ok()?)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}
