//! The bits of a frame header that both directions share. Read by `client_frame` and
//! `server_frame`, which add the rules of their direction.
//!
//! ```text
//! byte 0   FIN RSV1 RSV2 RSV3 | opcode:4
//! byte 1   MASK               | length:7      126: u16 follows, 127: u64 follows (big-endian)
//! then     mask key:4         when MASK is set
//! ```
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

/// Longest frame header, bytes: two, an eight-byte length and a mask key.
pub const HEADER_BYTES_MAX: usize = 14;
/// Longest payload of a control frame, bytes (RFC 6455, section 5.5).
pub const CONTROL_PAYLOAD_BYTES_MAX: usize = 125;

/// What a frame carries (RFC 6455, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// Goes on with a fragmented message.
    Continuation,
    /// UTF-8 text; never legal in QWP.
    Text,
    /// One QWP message or server response.
    Binary,
    /// The end of the conversation, with an optional code and reason.
    Close,
    /// Asks for a pong that repeats the payload.
    Ping,
    /// The answer to a ping.
    Pong,
}

impl Opcode {
    /// The opcode of the low four bits of byte 0; `None` for the reserved values.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0x0 => Some(Self::Continuation),
            0x1 => Some(Self::Text),
            0x2 => Some(Self::Binary),
            0x8 => Some(Self::Close),
            0x9 => Some(Self::Ping),
            0xA => Some(Self::Pong),
            _ => None,
        }
    }

    /// The four bits on the wire.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xA,
        }
    }

    /// Whether frames of this kind may stand between the fragments of a message.
    pub const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The first two bytes of a frame, taken apart and not judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lead {
    pub(super) fin: bool,
    pub(super) reserved_bits: bool,
    pub(super) opcode_bits: u8,
    pub(super) masked: bool,
    pub(super) length_code: u8,
}

impl Lead {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let &[first, second, ..] = bytes else {
            return None;
        };
        Some(Self {
            fin: first & 0x80 != 0,
            reserved_bits: first & 0x70 != 0,
            opcode_bits: first & 0x0F,
            masked: second & 0x80 != 0,
            length_code: second & 0x7F,
        })
    }

    /// Whether the length is a control frame's: in the second byte itself.
    pub(super) const fn is_short(self) -> bool {
        self.length_code < 126
    }
}

/// Everything after the two leading bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) payload_bytes: u64,
    /// Whether no shorter form could have carried the length.
    pub(super) minimal: bool,
    pub(super) mask_key: Option<[u8; 4]>,
    pub(super) header_bytes: usize,
}

impl Rest {
    /// Reads length and key; `None` while bytes are missing.
    pub(super) fn read(bytes: &[u8], lead: Lead) -> Option<Self> {
        let after_lead = bytes.get(2..)?;
        let (payload_bytes, minimal, after_length, length_bytes) = match lead.length_code {
            126 => {
                let (field, after) = after_lead.split_first_chunk::<2>()?;
                let length = u64::from(u16::from_be_bytes(*field));
                (length, length > 125, after, 2_usize)
            }
            127 => {
                let (field, after) = after_lead.split_first_chunk::<8>()?;
                let length = u64::from_be_bytes(*field);
                (length, length > 0xFFFF, after, 8)
            }
            short => (u64::from(short), true, after_lead, 0),
        };
        let (mask_key, mask_bytes) = if lead.masked {
            (Some(*after_length.first_chunk::<4>()?), 4)
        } else {
            (None, 0)
        };
        let header_bytes = 2_usize
            .saturating_add(length_bytes)
            .saturating_add(mask_bytes);
        Some(Self {
            payload_bytes,
            minimal,
            mask_key,
            header_bytes,
        })
    }
}
