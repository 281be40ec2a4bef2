//! The 12 bytes at the start of every QWP message (protocol.md section 4.1).
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `QWP1` |
//! | 4 | 1 | version |
//! | 5 | 1 | flags |
//! | 6 | 2 | table blocks, little-endian |
//! | 8 | 4 | bytes after the header, little-endian |

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

use crate::decode::{DecodeError, Reason};

/// Bytes of the header.
pub const HEADER_LEN: usize = 12;
/// The first four bytes.
pub const MAGIC: [u8; 4] = *b"QWP1";
/// The only protocol version there is.
pub const VERSION: u8 = 1;
/// Largest payload that the protocol allows, in bytes.
pub const PAYLOAD_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// The flag byte. Unknown bits are kept: the genuine server does not reject them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// No bit set.
    pub const NONE: Self = Self(0);
    /// Append the rows, commit later.
    pub const DEFER_COMMIT: Self = Self(0x01);
    /// Control frame that asks for acknowledgements.
    pub const DURABLE_ACK_POLL: Self = Self(0x02);
    /// Timestamp columns carry an encoding byte.
    pub const GORILLA: Self = Self(0x04);
    /// The payload starts with a delta dictionary; symbol cells are connection-wide ids.
    pub const DELTA_SYMBOL_DICT: Self = Self(0x08);

    /// Flags from the byte on the wire.
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The byte on the wire.
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all bits of `other` are set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The bits that have no meaning in an ingest message (0x10 belongs to query results).
    #[inline]
    pub const fn reserved(self) -> u8 {
        self.0 & 0xf0
    }
}

/// A message header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Protocol version, [`VERSION`] today.
    pub version: u8,
    /// Flag bits.
    pub flags: Flags,
    /// Number of table blocks.
    pub table_count: u16,
    /// Bytes after the header.
    pub payload_len: u32,
}

impl Header {
    /// A version 1 header.
    #[inline]
    pub const fn new(flags: Flags, table_count: u16, payload_len: u32) -> Self {
        Self {
            version: VERSION,
            flags,
            table_count,
            payload_len,
        }
    }

    /// Reads the header at the start of `message` and checks size, magic and version.
    ///
    /// Whether the payload is really there is checked by [`crate::decode::Message::parse`].
    pub fn parse(message: &[u8]) -> Result<Self, DecodeError> {
        let Some((raw, _)) = message.split_first_chunk::<HEADER_LEN>() else {
            return Err(DecodeError::new(message.len(), Reason::HeaderTruncated));
        };
        let [m0, m1, m2, m3, version, flags, t0, t1, p0, p1, p2, p3] = *raw;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(DecodeError::new(0, Reason::BadMagic));
        }
        if version != VERSION {
            return Err(DecodeError::new(4, Reason::VersionMismatch { version }));
        }
        Ok(Self {
            version,
            flags: Flags(flags),
            table_count: u16::from_le_bytes([t0, t1]),
            payload_len: u32::from_le_bytes([p0, p1, p2, p3]),
        })
    }

    /// The 12 bytes.
    #[inline]
    pub const fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [m0, m1, m2, m3] = MAGIC;
        let [t0, t1] = self.table_count.to_le_bytes();
        let [p0, p1, p2, p3] = self.payload_len.to_le_bytes();
        [
            m0,
            m1,
            m2,
            m3,
            self.version,
            self.flags.0,
            t0,
            t1,
            p0,
            p1,
            p2,
            p3,
        ]
    }

    /// Writes the header at the start of `out`.
    ///
    /// # Panics
    /// When `out` is shorter than [`HEADER_LEN`].
    #[inline]
    pub fn write(self, out: &mut [u8]) {
        out.split_at_mut(HEADER_LEN)
            .0
            .copy_from_slice(&self.to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_a_round_trip() {
        let header = Header::new(Flags::DELTA_SYMBOL_DICT.with(Flags::GORILLA), 7, 78);
        let mut bytes = [0; 13];
        header.write(&mut bytes);
        assert_eq!(bytes, *b"QWP1\x01\x0c\x07\x00\x4e\x00\x00\x00\x00");
        assert_eq!(Header::parse(&bytes), Ok(header));
    }

    #[test]
    fn short_foreign_and_newer_headers_are_refused() {
        let good = Header::new(Flags::NONE, 0, 0).to_bytes();
        let reason = |bytes: &[u8]| Header::parse(bytes).map_err(|e| (e.offset, e.reason));
        assert_eq!(reason(&good[..11]), Err((11, Reason::HeaderTruncated)));
        let mut other = good;
        other[3] = b'2';
        assert_eq!(reason(&other), Err((0, Reason::BadMagic)));
        let mut newer = good;
        newer[4] = 2;
        assert_eq!(
            reason(&newer),
            Err((4, Reason::VersionMismatch { version: 2 }))
        );
    }
}
