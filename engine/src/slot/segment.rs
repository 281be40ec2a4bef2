//! The 24 bytes at the start of a segment file (slot-format.md section 2.1).
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `SF01` |
//! | 4 | 1 | version, 1 |
//! | 5 | 1 | flags: bit 0 = a manifest must exist |
//! | 6 | 2 | zero |
//! | 8 | 8 | FSN of the first frame, i64 >= 0 |
//! | 16 | 8 | creation, microseconds since the Unix epoch; informational |
//!
//! All integers little-endian. There is no checksum and no size: capacity is the file's length.
//! The base is provisional while the file is a spare and final from its promotion on.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

use crate::fsn::Fsn;

/// Bytes of the header; the first frame follows.
pub(crate) const HEADER_BYTES: u64 = 24;
/// Offset of the flag byte.
pub(crate) const FLAGS_OFFSET: u64 = 5;
/// The flag byte of a segment whose slot has a manifest.
pub(crate) const MANIFEST_REQUIRED: u8 = 1;
/// Smallest segment that this engine creates, in bytes.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 64 * 1024;

const HEADER_LEN: usize = 24;
const MAGIC: [u8; 4] = *b"SF01";
const VERSION: u8 = 1;

/// Contents of a segment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Whether the slot must have a manifest.
    pub manifest_required: bool,
    /// FSN of the first frame.
    pub base: Fsn,
    /// Creation time, microseconds since the Unix epoch.
    pub created_micros: u64,
}

/// Why bytes are not a segment header of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderError {
    /// The file ends inside the header.
    #[error("the file ends inside the 24-byte segment header")]
    Short,
    /// Another magic.
    #[error("segment magic {0:02x?}, expected \"SF01\"")]
    Magic([u8; 4]),
    /// A format that a newer writer may use: the file may be intact.
    #[error("segment format version {0}, this engine reads version 1")]
    Version(u8),
    /// Bits without a meaning are set.
    #[error("segment flags {0:#04x}, only bit 0 is defined")]
    Flags(u8),
    /// Reserved bytes are set.
    #[error("reserved segment header bytes {0:#06x}, expected 0")]
    Reserved(u16),
    /// The base is negative.
    #[error("segment base {0} is negative")]
    Base(i64),
}

impl HeaderError {
    /// Offset of the field at fault.
    pub(crate) fn offset(self) -> u64 {
        match self {
            Self::Short | Self::Magic(_) => 0,
            Self::Version(_) => 4,
            Self::Flags(_) => 5,
            Self::Reserved(_) => 6,
            Self::Base(_) => 8,
        }
    }
}

impl SegmentHeader {
    /// The 24 bytes.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [m0, m1, m2, m3] = MAGIC;
        let [b0, b1, b2, b3, b4, b5, b6, b7] = self.base.0.to_le_bytes();
        let [c0, c1, c2, c3, c4, c5, c6, c7] = self.created_micros.to_le_bytes();
        let flags = if self.manifest_required {
            MANIFEST_REQUIRED
        } else {
            0
        };
        [
            m0, m1, m2, m3, VERSION, flags, 0, 0, b0, b1, b2, b3, b4, b5, b6, b7, c0, c1, c2, c3,
            c4, c5, c6, c7,
        ]
    }

    /// Reads the header at the start of `bytes`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let Some((raw, _)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(HeaderError::Short);
        };
        let [
            m0,
            m1,
            m2,
            m3,
            version,
            flags,
            r0,
            r1,
            b0,
            b1,
            b2,
            b3,
            b4,
            b5,
            b6,
            b7,
            c0,
            c1,
            c2,
            c3,
            c4,
            c5,
            c6,
            c7,
        ] = *raw;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(HeaderError::Magic([m0, m1, m2, m3]));
        }
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        if flags & !MANIFEST_REQUIRED != 0 {
            return Err(HeaderError::Flags(flags));
        }
        if [r0, r1] != [0, 0] {
            return Err(HeaderError::Reserved(u16::from_le_bytes([r0, r1])));
        }
        let base = i64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
        let base = u64::try_from(base).map_err(|_| HeaderError::Base(base))?;
        Ok(Self {
            manifest_required: flags & MANIFEST_REQUIRED != 0,
            base: Fsn(base),
            created_micros: u64::from_le_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
        })
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "positions of the test")]
mod tests {
    use super::*;

    /// Header of the two-frame file that slot-format.md section 20 decodes.
    const JAVA: [u8; HEADER_LEN] = [
        0x53, 0x46, 0x30, 0x31, 1, 0, 0, 0, 0x2a, 0, 0, 0, 0, 0, 0, 0, 0xcb, 0x04, 0xfb, 0x71,
        0x1f, 0x01, 0, 0,
    ];

    #[test]
    fn the_official_header_decodes_and_encodes_byte_for_byte() {
        let header = SegmentHeader {
            manifest_required: false,
            base: Fsn(42),
            created_micros: 1_234_567_890_123,
        };
        assert_eq!(SegmentHeader::parse(&JAVA), Ok(header));
        assert_eq!(header.to_bytes(), JAVA);
        let flagged = SegmentHeader {
            manifest_required: true,
            ..header
        };
        assert_eq!(flagged.to_bytes()[5], 1);
        assert_eq!(SegmentHeader::parse(&flagged.to_bytes()), Ok(flagged));
    }

    #[test]
    fn each_damaged_field_is_named_with_its_offset() {
        let patched = |at: usize, byte: u8| {
            let mut bytes = JAVA;
            bytes[at] = byte;
            let error = SegmentHeader::parse(&bytes).expect_err("damaged");
            (error, error.offset())
        };
        assert_eq!(patched(0, 0), (HeaderError::Magic(*b"\0F01"), 0));
        assert_eq!(patched(4, 2), (HeaderError::Version(2), 4));
        assert_eq!(patched(5, 0x81), (HeaderError::Flags(0x81), 5));
        assert_eq!(patched(6, 1), (HeaderError::Reserved(1), 6));
        assert_eq!(patched(15, 0x80).1, 8);
        assert_eq!(SegmentHeader::parse(&JAVA[..23]), Err(HeaderError::Short));
    }
}
