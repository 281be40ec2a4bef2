//! Headers of frames from a client, judged as the genuine server does (protocol.md 3.1): it
//! accepts lengths in too long a form, and drops the TCP connection without a CLOSE for the
//! rest of what RFC 6455 forbids.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::Opcode;
use super::header::{Lead, Rest};

/// Why a client's frame header is illegal. The server drops the connection without a CLOSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientFault {
    /// Clients always mask.
    #[error("the client sent an unmasked frame")]
    Unmasked,
    /// No extension was negotiated that would give the bits a meaning.
    #[error("the client set reserved bits in a frame header")]
    ReservedBits,
    /// One of the opcodes that RFC 6455 leaves open.
    #[error("the client sent a frame of unknown opcode {opcode:#x}")]
    UnknownOpcode {
        /// The four bits of the header.
        opcode: u8,
    },
    /// Control frames cannot be split.
    #[error("the client fragmented a control frame")]
    FragmentedControl,
    /// Control frames carry at most 125 bytes.
    #[error("the client sent a control frame with more than 125 bytes of payload")]
    LongControl,
    /// Half a close code.
    #[error("the client sent a CLOSE frame with a payload of one byte")]
    ShortClose,
    /// The top bit of an eight-byte length.
    #[error("the client sent a negative frame length")]
    NegativeLength,
}

/// A legal frame header from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFrame {
    /// Whether the message ends with this frame.
    pub fin: bool,
    /// What the frame carries.
    pub opcode: Opcode,
    /// Key that the payload was masked with; all zeros is accepted.
    pub mask_key: [u8; 4],
    /// Length of the payload, bytes.
    pub payload_bytes: u64,
    /// Whether the length was given in its shortest form; a strict server may insist.
    pub minimal_length: bool,
    /// Length of this header, bytes.
    pub header_bytes: usize,
}

impl ClientFrame {
    /// Reads a header from the front of `bytes`; `Ok(None)` while bytes are missing.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, ClientFault> {
        let Some(lead) = Lead::read(bytes) else {
            return Ok(None);
        };
        if lead.reserved_bits {
            return Err(ClientFault::ReservedBits);
        }
        let opcode = Opcode::from_bits(lead.opcode_bits).ok_or(ClientFault::UnknownOpcode {
            opcode: lead.opcode_bits,
        })?;
        if !lead.masked {
            return Err(ClientFault::Unmasked);
        }
        if opcode.is_control() && !lead.fin {
            return Err(ClientFault::FragmentedControl);
        }
        let Some(rest) = Rest::read(bytes, lead) else {
            return Ok(None);
        };
        if rest.payload_bytes > i64::MAX.unsigned_abs() {
            return Err(ClientFault::NegativeLength);
        }
        if opcode.is_control() && rest.payload_bytes > 125 {
            return Err(ClientFault::LongControl);
        }
        if opcode == Opcode::Close && rest.payload_bytes == 1 {
            return Err(ClientFault::ShortClose);
        }
        let Some(mask_key) = rest.mask_key else {
            return Err(ClientFault::Unmasked);
        };
        Ok(Some(Self {
            fin: lead.fin,
            opcode,
            mask_key,
            payload_bytes: rest.payload_bytes,
            minimal_length: rest.minimal,
            header_bytes: rest.header_bytes,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(bytes: &[u8]) -> ClientFault {
        ClientFrame::parse(bytes).expect_err("must be refused")
    }

    #[test]
    fn each_fault_has_its_variant() {
        assert_eq!(refuse(&[0x82, 0x00]), ClientFault::Unmasked);
        assert_eq!(refuse(&[0xA2, 0x80]), ClientFault::ReservedBits);
        assert_eq!(
            refuse(&[0x8B, 0x80]),
            ClientFault::UnknownOpcode { opcode: 0xB }
        );
        assert_eq!(refuse(&[0x08, 0x80]), ClientFault::FragmentedControl);
        assert_eq!(
            refuse(&[0x89, 0xFE, 0, 126, 1, 2, 3, 4]),
            ClientFault::LongControl
        );
        assert_eq!(refuse(&[0x88, 0x81, 1, 2, 3, 4]), ClientFault::ShortClose);
        let negative = [0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(refuse(&negative), ClientFault::NegativeLength);
    }

    #[test]
    fn too_long_a_length_form_is_accepted_and_told() {
        let frame = ClientFrame::parse(&[0x82, 0xFE, 0, 5, 1, 2, 3, 4]).expect("legal");
        let frame = frame.expect("complete");
        assert_eq!((frame.payload_bytes, frame.minimal_length), (5, false));
        assert_eq!((frame.mask_key, frame.header_bytes), ([1, 2, 3, 4], 8));
    }
}
