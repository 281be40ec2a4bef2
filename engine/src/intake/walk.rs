//! The entries in a ring that a process left behind. Pure; nothing in the buffer is believed
//! before its CRC, which covers the place too, has held.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

use crate::router::entry::Entry;
use crate::router::ring::head::{FoundHead, HEAD_BYTES, Kind};

/// A frame as an entry's stamp names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    /// Its FSN.
    pub(crate) fsn: u64,
    /// CRC in its header.
    pub(crate) crc: u32,
    /// Bytes of its payload.
    pub(crate) payload_len: u32,
}

/// A whole entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundEntry<'a> {
    /// Position of its head.
    pub(crate) position: u64,
    /// Position behind it.
    pub(crate) end: u64,
    /// The frame that it became, if the shard had taken it.
    pub(crate) stamp: Option<Stamp>,
    /// The batch.
    pub(crate) entry: Entry<'a>,
}

/// Entries from one position on, as long as they are whole.
#[derive(Debug, Clone)]
pub(crate) struct Walk<'a> {
    buffer: &'a [u8],
    at: u64,
    tail: u64,
}

impl<'a> Walk<'a> {
    /// The entries of `head..tail` in a ring's buffer, whose length is a power of two.
    pub(crate) fn new(buffer: &'a [u8], head: u64, tail: u64) -> Self {
        Self {
            buffer,
            at: head,
            tail,
        }
    }

    /// Where the walk is: behind the last entry that was whole.
    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    /// Bytes of the buffer from `position` to its end.
    fn rest(&self, position: u64) -> Option<&'a [u8]> {
        let mask = (self.buffer.len() as u64).checked_sub(1)?;
        self.buffer.get(usize::try_from(position & mask).ok()?..)
    }

    /// The entry or pad at `position`, and where it ends.
    fn read(&self, position: u64) -> Option<(FoundHead, &'a [u8], u64)> {
        let rest = self.rest(position)?;
        let head = FoundHead::parse(rest)?;
        let payload = rest.get(HEAD_BYTES..HEAD_BYTES.checked_add(head.bytes)?)?;
        let covered = match head.kind {
            Kind::Data => payload,
            Kind::Pad => &[],
        };
        let end = position.checked_add(head.entry_bytes())?;
        (end <= self.tail && head.is_sealed(position, covered)).then_some((head, payload, end))
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = FoundEntry<'a>;

    fn next(&mut self) -> Option<FoundEntry<'a>> {
        let mut position = self.at;
        let (mut head, mut payload, mut end) = self.read(position)?;
        if head.kind == Kind::Pad {
            position = end;
            (head, payload, end) = self.read(position)?;
        }
        if head.kind == Kind::Pad {
            return None;
        }
        let entry = Entry::parse(payload).filter(Entry::is_sound)?;
        self.at = end;
        Some(FoundEntry {
            position,
            end,
            stamp: head.stamp().map(|(fsn, crc, payload_len)| Stamp {
                fsn,
                crc,
                payload_len,
            }),
            entry,
        })
    }
}
