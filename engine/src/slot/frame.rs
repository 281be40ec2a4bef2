//! Frames: how one message lies in a segment (slot-format.md section 2.2).
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | CRC-32C over the length field and the payload |
//! | 4 | 4 | payload bytes, i32 >= 1 |
//! | 8 | n | payload: one whole QWP message |
//!
//! Frames are packed without alignment, the first at byte 24. Eight zero bytes can never start a
//! frame (the CRC of a zero length is not zero), so zeros mean "unwritten".

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

use crate::io::sys::crc32c;
#[cfg(any(test, feature = "internals"))]
use crate::io::sys::crc32c_append;

/// Bytes in front of the payload.
pub(crate) const FRAME_HEADER_BYTES: u64 = 8;
/// [`FRAME_HEADER_BYTES`] for slices.
pub(crate) const FRAME_HEADER_LEN: usize = 8;

/// The CRC of a frame over its length field alone: continue it over the payload with
/// `crc32c_append`, in as many pieces as suits the copy.
#[inline]
pub(crate) fn crc_of_length(payload_len: u32) -> u32 {
    crc32c(&payload_len.to_le_bytes())
}

/// The CRC of a whole frame whose payload lies elsewhere.
#[cfg(any(test, feature = "internals"))]
#[inline]
pub(crate) fn crc(payload_len: u32, payload: &[u8]) -> u32 {
    crc32c_append(crc_of_length(payload_len), payload)
}

/// Seals a frame that lies in memory as it will on disk, its payload behind [`FRAME_HEADER_LEN`]
/// bytes of room: writes the header. `None` for a payload that no frame has.
#[inline]
pub(crate) fn seal(frame: &mut [u8]) -> Option<FrameHeader> {
    let payload_len = u32::try_from(frame.len().checked_sub(FRAME_HEADER_LEN)?).ok()?;
    let (crc_field, covered) = frame.split_first_chunk_mut::<4>()?;
    *covered.first_chunk_mut()? = payload_len.to_le_bytes();
    // Length and payload lie side by side: one pass.
    let crc = crc32c(covered);
    *crc_field = crc.to_le_bytes();
    Some(FrameHeader { crc, payload_len })
}

/// The payload of a whole frame, if its length and its CRC hold.
#[inline]
pub(crate) fn checked(frame: &[u8]) -> Option<&[u8]> {
    let header = FrameHeader::parse(frame)?;
    let (_, covered) = frame.split_first_chunk::<4>()?;
    let (_, payload) = covered.split_first_chunk::<4>()?;
    let holds = header.payload_len as usize == payload.len() && crc32c(covered) == header.crc;
    holds.then_some(payload)
}

/// The two fields in front of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// CRC-32C over length and payload.
    pub crc: u32,
    /// Payload bytes; 1 to 2^31-1 in a frame that counts.
    pub payload_len: u32,
}

impl FrameHeader {
    /// The eight bytes.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; FRAME_HEADER_LEN] {
        let [c0, c1, c2, c3] = self.crc.to_le_bytes();
        let [l0, l1, l2, l3] = self.payload_len.to_le_bytes();
        [c0, c1, c2, c3, l0, l1, l2, l3]
    }

    /// Reads the eight bytes at the start of `bytes`; `None` when there are fewer or the length
    /// is one that no frame has (0, or a negative i32).
    #[inline]
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let ([c0, c1, c2, c3, l0, l1, l2, l3], _) = bytes.split_first_chunk()?;
        let payload_len = u32::from_le_bytes([*l0, *l1, *l2, *l3]);
        if payload_len == 0 || i32::try_from(payload_len).is_err() {
            return None;
        }
        Some(Self {
            crc: u32::from_le_bytes([*c0, *c1, *c2, *c3]),
            payload_len,
        })
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "positions of the test")]
mod tests {
    use super::*;

    #[test]
    fn the_official_frames_have_the_crc_that_the_specification_prints() {
        for (payload, stored) in [(&b"one"[..], 0x49CB_0EA6_u32), (b"two-two", 0x0700_F63A)] {
            let len = u32::try_from(payload.len()).unwrap();
            assert_eq!(crc(len, payload), stored);
            let header = FrameHeader {
                crc: stored,
                payload_len: len,
            };
            assert_eq!(FrameHeader::parse(&header.to_bytes()), Some(header));
        }
        assert_eq!(crc(7, b"tvo-two"), 0xE830_9D23);
        assert_eq!(crc_of_length(0), 0x4867_4BC7);
    }

    #[test]
    fn a_sealed_frame_is_as_specified_and_checks_until_a_bit_flips() {
        let mut frame = b"........two-two".to_vec();
        let header = seal(&mut frame).unwrap();
        assert_eq!(header.crc, crc(7, b"two-two"));
        assert_eq!(frame[..8], header.to_bytes());
        assert_eq!(checked(&frame), Some(&b"two-two"[..]));
        assert_eq!(checked(&frame[..14]), None);
        for at in 0..frame.len() {
            let mut flipped = frame.clone();
            flipped[at] ^= 4;
            assert_eq!(checked(&flipped), None, "byte {at}");
        }
        assert_eq!(seal(&mut [0; 7]), None);
    }

    #[test]
    fn lengths_that_no_frame_has_are_no_header() {
        for len in [0_u32, 0x8000_0000, 0xFFFF_FFFF] {
            let bytes = FrameHeader {
                crc: crc_of_length(len),
                payload_len: len,
            }
            .to_bytes();
            assert_eq!(FrameHeader::parse(&bytes), None, "{len:#x}");
        }
        assert_eq!(FrameHeader::parse(&[1; 7]), None);
        let most = FrameHeader {
            crc: 0,
            payload_len: 0x7FFF_FFFF,
        };
        assert_eq!(FrameHeader::parse(&most.to_bytes()), Some(most));
    }
}
