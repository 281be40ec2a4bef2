//! Symbol cells: varint ids, into the connection's dictionary or into one of the column's own.

use super::{DecodeError, Reason, split_entry};
use crate::dict::SYMBOLS_MAX;
use crate::reader::Reader;
use crate::types::ColumnType;
use crate::varint;

const SHORT: Reason = Reason::ValuesTruncated {
    ty: ColumnType::Symbol,
};
/// The top bit of every byte: set where a varint goes on.
const TOPS: u64 = 0x8080_8080_8080_8080;

/// The cells of a SYMBOL column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolIds<'a> {
    cells: &'a [u8],
    count: usize,
    local: Option<LocalDict<'a>>,
}

impl<'a> SymbolIds<'a> {
    /// Cells that are connection-wide ids; below `limit`, if that is given.
    pub(super) fn read_global(
        reader: &mut Reader<'a>,
        count: usize,
        limit: Option<u64>,
    ) -> Result<Self, DecodeError> {
        Self::read_cells(reader, count, limit, None)
    }

    /// A column with a dictionary of its own in front of the cells.
    pub(super) fn read_local(reader: &mut Reader<'a>, count: usize) -> Result<Self, DecodeError> {
        let local = LocalDict::read(reader)?;
        Self::read_cells(reader, count, Some(local.count), Some(local))
    }

    fn read_cells(
        reader: &mut Reader<'a>,
        count: usize,
        limit: Option<u64>,
        local: Option<LocalDict<'a>>,
    ) -> Result<Self, DecodeError> {
        let start = reader.at();
        let scan = scan_varints(reader.rest(), count);
        match (scan, limit) {
            // Well-formed, and nobody asked how large the ids are.
            (
                Some(Scan {
                    bytes,
                    long_runs: 0,
                    ..
                }),
                None,
            ) => reader.skip_seen(bytes),
            (None, _) => return reader.fail(SHORT),
            _ => read_each(reader, count, limit)?,
        }
        Ok(Self {
            cells: reader.since(start),
            count,
            local,
        })
    }

    /// Number of cells.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no cell.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The column's own dictionary, in messages without a delta dictionary.
    #[inline]
    pub fn local(&self) -> Option<LocalDict<'a>> {
        self.local
    }

    /// The ids in order.
    #[inline]
    pub fn iter(&self) -> SymbolIdsIter<'a> {
        SymbolIdsIter {
            rest: self.cells,
            left: self.count,
        }
    }

    /// The cells as they stand on the wire.
    #[inline]
    pub fn cell_bytes(&self) -> &'a [u8] {
        self.cells
    }
}

impl<'a> IntoIterator for &SymbolIds<'a> {
    type Item = u64;
    type IntoIter = SymbolIdsIter<'a>;

    fn into_iter(self) -> SymbolIdsIter<'a> {
        self.iter()
    }
}

fn read_each(reader: &mut Reader<'_>, count: usize, limit: Option<u64>) -> Result<(), DecodeError> {
    for _ in 0..count {
        let at = *reader;
        let id = reader.varint(SHORT)?;
        if limit.is_some_and(|limit| id >= limit) {
            return at.fail(Reason::SymbolIndexOutOfRange);
        }
    }
    Ok(())
}

/// Iterator over the ids of a column.
#[derive(Clone, Debug)]
pub struct SymbolIdsIter<'a> {
    rest: &'a [u8],
    left: usize,
}

impl Iterator for SymbolIdsIter<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        // The cells were checked when the column was read: an error only ever means the end.
        let (id, used) = varint::decode(self.rest).ok()?;
        self.left = self.left.saturating_sub(1);
        self.rest = self.rest.get(used..)?;
        Some(id)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for SymbolIdsIter<'_> {}

/// A dictionary that only one column of one message uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalDict<'a> {
    count: u64,
    entries: &'a [u8],
}

impl<'a> LocalDict<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = *reader;
        let count = reader.varint(SHORT)?;
        let left = u64::try_from(reader.left()).unwrap_or(u64::MAX);
        if count > SYMBOLS_MAX.min(left) {
            return start.fail(Reason::LocalDictSize { size: count });
        }
        let first = reader.at();
        for _ in 0..count {
            reader.text(SHORT, Reason::SymbolNotUtf8)?;
        }
        Ok(Self {
            count,
            entries: reader.since(first),
        })
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The texts in order of their ids, from 0.
    #[inline]
    pub fn iter(&self) -> LocalDictIter<'a> {
        LocalDictIter { rest: self.entries }
    }

    /// The text of one id. Walks the entries; collect [`LocalDict::iter`] to look up many.
    pub fn get(&self, id: u64) -> Option<&'a str> {
        self.iter().nth(usize::try_from(id).ok()?)
    }
}

impl<'a> IntoIterator for &LocalDict<'a> {
    type Item = &'a str;
    type IntoIter = LocalDictIter<'a>;

    fn into_iter(self) -> LocalDictIter<'a> {
        self.iter()
    }
}

/// Iterator over the texts of a [`LocalDict`].
#[derive(Clone, Debug)]
pub struct LocalDictIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for LocalDictIter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (text, rest) = split_entry(self.rest)?;
        self.rest = rest;
        Some(text)
    }
}

/// A fast look over varints: their end is found by counting the bytes that end one.
///
/// Only a varint of ten bytes or more can be too long: nine or more of its bytes go on. Wherever
/// such a run lies, at least five of its bytes share a word, which three conjunctions find.
struct Scan {
    /// Varints still to be found.
    left: usize,
    /// Bytes passed.
    bytes: usize,
    /// Not 0 when a varint may be overlong: look again, slowly.
    long_runs: u64,
}

/// Bytes that are looked at together while there are more varints left than that.
const BLOCK: usize = 32;

/// Finds the end of `count` varints; `None` when there are fewer.
fn scan_varints(bytes: &[u8], count: usize) -> Option<Scan> {
    let mut scan = Scan {
        left: count,
        bytes: 0,
        long_runs: 0,
    };
    for block in bytes.as_chunks::<BLOCK>().0 {
        if scan.left <= BLOCK {
            break;
        }
        scan.pass_block(block);
    }
    let (words, tail) = bytes.get(scan.bytes..)?.as_chunks::<8>();
    for word in words {
        if scan.left == 0 {
            break;
        }
        scan.pass_word(*word);
    }
    if scan.left > 0 {
        let mut last = [0xff; 8];
        for (to, from) in last.iter_mut().zip(tail) {
            *to = *from;
        }
        scan.pass_word(last);
    }
    (scan.left == 0).then_some(scan)
}

impl Scan {
    /// Passes bytes in which the last varint cannot end.
    #[inline]
    fn pass_block(&mut self, block: &[u8; BLOCK]) {
        let mut lanes = 0_u64;
        for word in block.as_chunks::<8>().0 {
            let word = u64::from_le_bytes(*word);
            // Each lane counts to 4 at most.
            lanes = lanes.wrapping_add((!word & TOPS) >> 7);
            self.long_runs |= long_runs(word & TOPS);
        }
        self.left = self.left.saturating_sub(sum_lanes(lanes));
        self.bytes = self.bytes.saturating_add(BLOCK);
    }

    /// Passes a word, or what of it is needed.
    fn pass_word(&mut self, word: [u8; 8]) {
        let word = u64::from_le_bytes(word);
        let ending = !word & TOPS;
        let ends = sum_lanes(ending >> 7);
        if ends < self.left {
            self.long_runs |= long_runs(word & TOPS);
            self.left = self.left.saturating_sub(ends);
            self.bytes = self.bytes.saturating_add(8);
            return;
        }
        let taken = nth_end(ending, self.left);
        // What follows the last varint is somebody else's.
        let needed = u64::MAX >> 64_usize.saturating_sub(taken.saturating_mul(8));
        self.long_runs |= long_runs(word & TOPS & needed);
        self.left = 0;
        self.bytes = self.bytes.saturating_add(taken);
    }
}

/// Not 0 when five neighbouring bytes of a word have their top bit set.
#[inline]
fn long_runs(tops: u64) -> u64 {
    let two = tops & (tops >> 8);
    two & (two >> 16) & (tops >> 32)
}

/// Sum of a word's bytes, which must be below 256. A multiplication adds them up into the top
/// byte; counting bits is slower on processors that are not known to have `popcnt`.
#[inline]
fn sum_lanes(lanes: u64) -> usize {
    usize::try_from(lanes.wrapping_mul(0x0101_0101_0101_0101) >> 56).unwrap_or(0)
}

/// Bytes of a word up to its `n`th (from 1) end of a varint.
fn nth_end(ends: u64, n: usize) -> usize {
    let mut ends = ends;
    for _ in 1..n {
        ends &= ends.wrapping_sub(1);
    }
    usize::try_from(ends.trailing_zeros() >> 3)
        .unwrap_or(0)
        .saturating_add(1)
}
