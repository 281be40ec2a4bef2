//! The head of an entry in a ring.
//!
//! ```text
//! 0   bytes u32   of the payload behind the head
//! 4   kind u32    1 = data, 2 = pad
//! 8   crc u32     CRC-32C over the entry's position (u64), the eight bytes above and the payload;
//!                 a pad's covers no payload. 0 in private memory
//! 12  zero u32
//! 16  frame u64   CRC (low half) and payload length (high half) of the frame that it became
//! 24  fsn u64     FSN of that frame plus 1, stored last; 0 while the shard has not taken it
//! ```
//!
//! All little-endian. Entries begin at multiples of 32, so a head always fits before the end of the
//! buffer. The position counts all bytes that ever went through the ring: an entry of an earlier
//! lap at the same place has another CRC.

use super::super::crc::{crc32c, crc32c_append};

/// Bytes of a head, and the unit of positions.
pub(crate) const HEAD_BYTES: usize = 32;
pub(super) const KIND_DATA: u32 = 1;
pub(super) const KIND_PAD: u32 = 2;
/// Where the CRC, the frame and the FSN lie.
pub(super) const CRC_AT: u64 = 8;
pub(super) const FRAME_AT: u64 = 16;
pub(crate) const FSN_AT: u64 = 24;

/// Bytes that an entry with such a payload takes in the ring.
#[inline]
pub(crate) fn entry_bytes(payload_bytes: usize) -> u64 {
    (HEAD_BYTES + payload_bytes).next_multiple_of(HEAD_BYTES) as u64
}

/// The first word: payload bytes and kind.
#[inline]
pub(super) fn first_word(bytes: u64, kind: u32) -> u64 {
    let bytes = u32::try_from(bytes).expect("below the capacity");
    u64::from(bytes) | u64::from(kind) << 32
}

/// Splits the first word.
#[inline]
pub(super) fn split(word: u64) -> (usize, u32) {
    let bytes = usize::try_from(word & 0xFFFF_FFFF).expect("u32 fits usize");
    (bytes, u32::try_from(word >> 32).expect("upper half"))
}

/// The CRC of an entry at `position`; of a pad without a payload.
#[inline]
pub(super) fn crc(position: u64, first: u64, payload: &[u8]) -> u32 {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&position.to_le_bytes());
    head[8..].copy_from_slice(&first.to_le_bytes());
    crc32c_append(crc32c(&head), payload)
}

/// What a head is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A batch.
    Data,
    /// Nothing, up to the end of the buffer.
    Pad,
}

/// A head as it was found in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundHead {
    /// Bytes of the payload, as far as the head says.
    pub(crate) bytes: usize,
    /// What it is of.
    pub(crate) kind: Kind,
    words: [u64; 4],
}

impl FoundHead {
    /// Reads the head at the start of `bytes`; `None` if it is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = [0; 4];
        for (word, chunk) in words
            .iter_mut()
            .zip(bytes.get(..HEAD_BYTES)?.chunks_exact(8))
        {
            *word = u64::from_le_bytes(*chunk.first_chunk()?);
        }
        let (bytes, kind) = split(words[0]);
        let kind = match kind {
            KIND_DATA => Kind::Data,
            KIND_PAD => Kind::Pad,
            _ => return None,
        };
        Some(Self { bytes, kind, words })
    }

    /// Bytes of the whole entry.
    pub(crate) fn entry_bytes(&self) -> u64 {
        entry_bytes(self.bytes)
    }

    /// Whether the CRC says that this head and `payload` (empty for a pad) were put at `position`.
    pub(crate) fn is_sealed(&self, position: u64, payload: &[u8]) -> bool {
        self.words[1] == u64::from(crc(position, self.words[0], payload))
    }

    /// FSN, CRC and payload length of the frame that the entry became.
    pub(crate) fn stamp(&self) -> Option<(u64, u32, u32)> {
        let fsn = self.words[3].checked_sub(1)?;
        let crc = u32::try_from(self.words[2] & 0xFFFF_FFFF).ok()?;
        let payload_len = u32::try_from(self.words[2] >> 32).ok()?;
        Some((fsn, crc, payload_len))
    }
}
