//! Headers of frames from a server, judged strictly: a client must treat any breach as a
//! protocol violation (protocol.md 3.2).
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::Opcode;
use super::header::{Lead, Rest};

/// A breach of the WebSocket protocol by the server. The connection is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Servers never mask.
    #[error("the server sent a masked frame")]
    Masked,
    /// No extension was negotiated that would give the bits a meaning.
    #[error("the server set reserved bits in a frame header")]
    ReservedBits,
    /// One of the opcodes that RFC 6455 leaves open.
    #[error("the server sent a frame of unknown opcode {opcode:#x}")]
    UnknownOpcode {
        /// The four bits of the header.
        opcode: u8,
    },
    /// A length in a longer form than it needs.
    #[error("the server encoded a frame length of {payload_bytes} bytes in too long a form")]
    NonMinimalLength {
        /// The length that the header states.
        payload_bytes: u64,
    },
    /// Control frames cannot be split.
    #[error("the server fragmented a control frame")]
    FragmentedControl,
    /// Control frames carry at most 125 bytes.
    #[error("the server sent a control frame with more than 125 bytes of payload")]
    LongControl,
    /// Half a close code.
    #[error("the server sent a CLOSE frame with a payload of one byte")]
    ShortClose,
    /// A code that must not appear on the wire.
    #[error("the server sent close code {code}, which is not legal on the wire")]
    IllegalCloseCode {
        /// The code received.
        code: u16,
    },
    /// The reason of a CLOSE is text.
    #[error("the server sent a close reason that is not UTF-8")]
    CloseReasonNotUtf8,
    /// QWP answers are binary.
    #[error("the server sent a text frame")]
    Text,
    /// A continuation without a message that it goes on with.
    #[error("the server sent a continuation frame outside a fragmented message")]
    StrayContinuation,
    /// A new message before the fragmented one ended.
    #[error("the server started a message inside a fragmented one")]
    InterruptedMessage,
    /// More than the caller is ready to hold.
    #[error("the server sent a message of {message_bytes} bytes, the limit is {limit_bytes}")]
    MessageTooLarge {
        /// Size of the message as far as its headers tell.
        message_bytes: u64,
        /// The limit given to the reader.
        limit_bytes: u64,
    },
}

/// A legal frame header from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFrame {
    /// Whether the message ends with this frame.
    pub fin: bool,
    /// What the frame carries.
    pub opcode: Opcode,
    /// Length of the payload, bytes.
    pub payload_bytes: u64,
    /// Length of this header, bytes.
    pub header_bytes: usize,
}

impl ServerFrame {
    /// Reads a header from the front of `bytes`; `Ok(None)` while bytes are missing. What is wrong
    /// with the first two bytes is told without waiting for the others.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Violation> {
        let Some(lead) = Lead::read(bytes) else {
            return Ok(None);
        };
        if lead.reserved_bits {
            return Err(Violation::ReservedBits);
        }
        let opcode = Opcode::from_bits(lead.opcode_bits).ok_or(Violation::UnknownOpcode {
            opcode: lead.opcode_bits,
        })?;
        if lead.masked {
            return Err(Violation::Masked);
        }
        if opcode.is_control() {
            check_control(opcode, lead)?;
        }
        let Some(rest) = Rest::read(bytes, lead) else {
            return Ok(None);
        };
        if !rest.minimal {
            return Err(Violation::NonMinimalLength {
                payload_bytes: rest.payload_bytes,
            });
        }
        let (payload_bytes, header_bytes) = (rest.payload_bytes, rest.header_bytes);
        Ok(Some(Self {
            fin: lead.fin,
            opcode,
            payload_bytes,
            header_bytes,
        }))
    }
}

fn check_control(opcode: Opcode, lead: Lead) -> Result<(), Violation> {
    if !lead.fin {
        Err(Violation::FragmentedControl)
    } else if !lead.is_short() {
        Err(Violation::LongControl)
    } else if opcode == Opcode::Close && lead.length_code == 1 {
        Err(Violation::ShortClose)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(bytes: &[u8]) -> Violation {
        ServerFrame::parse(bytes).expect_err("must be refused")
    }

    #[test]
    fn each_breach_has_its_variant() {
        assert_eq!(refuse(&[0x82, 0x80]), Violation::Masked);
        assert_eq!(refuse(&[0xC2, 0x00]), Violation::ReservedBits);
        assert_eq!(
            refuse(&[0x83, 0x00]),
            Violation::UnknownOpcode { opcode: 3 }
        );
        assert_eq!(refuse(&[0x09, 0x00]), Violation::FragmentedControl);
        assert_eq!(refuse(&[0x89, 126]), Violation::LongControl);
        assert_eq!(refuse(&[0x88, 1]), Violation::ShortClose);
        let long = Violation::NonMinimalLength { payload_bytes: 125 };
        assert_eq!(refuse(&[0x82, 126, 0, 125]), long);
        let long = Violation::NonMinimalLength {
            payload_bytes: 65_535,
        };
        assert_eq!(refuse(&[0x82, 127, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]), long);
    }

    #[test]
    fn headers_may_arrive_byte_by_byte() {
        let whole = [0x02, 127, 0, 0, 0, 0, 0, 1, 0, 0];
        for cut in 0..whole.len() {
            let front = whole.get(..cut).unwrap_or_default();
            assert_eq!(ServerFrame::parse(front), Ok(None), "{cut}");
        }
        let want = ServerFrame {
            fin: false,
            opcode: Opcode::Binary,
            payload_bytes: 65_536,
            header_bytes: 10,
        };
        assert_eq!(ServerFrame::parse(&whole), Ok(Some(want)));
    }
}
