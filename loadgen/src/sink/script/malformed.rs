//! Answers that no server should give.

use forebay_wire::response::{self, Status};
use forebay_wire::ws::{self, Opcode};

/// A kind of wrong answer, as raw bytes in place of the OK for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// An OK with a byte behind its end.
    Trailing,
    /// An OK that ends early.
    Short,
    /// A frame without payload.
    Empty,
    /// An OK that claims more tables than it has.
    TableCount,
    /// An OK with a table whose name has no bytes.
    TableName,
    /// An error whose text is longer than the frame.
    TextLength,
    /// An error with a text of more than 1,024 bytes.
    LongText,
    /// The OK as a text frame.
    Text,
    /// The OK in a masked frame.
    Masked,
    /// A frame of unknown opcode.
    Opcode,
    /// A frame with a reserved bit.
    ReservedBits,
    /// The OK in two fragments. It is legal, only the genuine server never does it.
    Fragmented,
    /// A continuation of nothing.
    StrayContinuation,
    /// A frame that claims 2^40 bytes.
    Oversize,
    /// The OK with its length in too long a form.
    LongLength,
    /// A PING of 126 bytes.
    LongControl,
    /// A CLOSE with half a code.
    ShortClose,
    /// A CLOSE with a code that is not for the wire (1005).
    CloseCode,
}

impl Malformed {
    /// Every kind with its name in scripts.
    pub const ALL: [(&'static str, Self); 18] = [
        ("trailing", Self::Trailing),
        ("short", Self::Short),
        ("empty", Self::Empty),
        ("table-count", Self::TableCount),
        ("table-name", Self::TableName),
        ("text-length", Self::TextLength),
        ("long-text", Self::LongText),
        ("text", Self::Text),
        ("masked", Self::Masked),
        ("opcode", Self::Opcode),
        ("reserved-bits", Self::ReservedBits),
        ("fragmented", Self::Fragmented),
        ("stray-continuation", Self::StrayContinuation),
        ("oversize", Self::Oversize),
        ("long-length", Self::LongLength),
        ("long-control", Self::LongControl),
        ("short-close", Self::ShortClose),
        ("close-code", Self::CloseCode),
    ];

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, kind)| *kind)
    }

    /// The bytes for message `seq`.
    pub fn bytes(self, seq: u64) -> Vec<u8> {
        let ok = ok(seq);
        let mut out = Vec::new();
        match self {
            Self::Trailing => frame(&mut out, &[&ok[..], &[0]].concat()),
            Self::Short => frame(&mut out, &ok[..ok.len() - 1]),
            Self::Empty => frame(&mut out, &[]),
            Self::TableCount => frame(&mut out, &[&ok[..9], &[1, 0]].concat()),
            Self::TableName => {
                let table_without_name = [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
                frame(&mut out, &[&ok[..9], &table_without_name].concat());
            }
            Self::TextLength => frame(&mut out, &[&error(seq)[..9], &[200, 0, b'x']].concat()),
            Self::LongText => {
                let text = [b'x'; 1025];
                frame(&mut out, &[&error(seq)[..9], &[1, 4], &text].concat());
            }
            Self::Text => ws::append_server_frame(&mut out, Opcode::Text, &ok),
            Self::Masked => ws::append_client_frame(&mut out, Opcode::Binary, &ok, [1, 2, 3, 4]),
            Self::Opcode => out.extend_from_slice(&[0x83, 0]),
            Self::ReservedBits => {
                frame(&mut out, &ok);
                out[0] |= 0x40;
            }
            Self::Fragmented => {
                frame(&mut out, &ok[..4]);
                out[0] &= 0x7F;
                ws::append_server_frame(&mut out, Opcode::Continuation, &ok[4..]);
            }
            Self::StrayContinuation => {
                ws::append_server_frame(&mut out, Opcode::Continuation, &ok);
            }
            Self::Oversize => out.extend_from_slice(&[0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0]),
            Self::LongLength => {
                out.extend_from_slice(&[0x82, 126, 0, 11]);
                out.extend_from_slice(&ok);
            }
            Self::LongControl => ws::append_server_frame(&mut out, Opcode::Ping, &[0; 126]),
            Self::ShortClose => ws::append_server_frame(&mut out, Opcode::Close, &[3]),
            Self::CloseCode => {
                ws::append_server_frame(&mut out, Opcode::Close, &1005_u16.to_be_bytes());
            }
        }
        out
    }
}

/// An OK without tables, 11 bytes.
pub(in crate::sink) fn ok(seq: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    response::write_ok(&mut payload, seq.cast_signed(), []);
    payload
}

fn error(seq: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    response::write_error(&mut payload, Status::WriteError, seq.cast_signed(), "");
    payload
}

fn frame(out: &mut Vec<u8>, payload: &[u8]) {
    ws::append_server_frame(out, Opcode::Binary, payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_wire::ws::{Event, Reader};

    #[test]
    fn every_kind_but_the_fragmented_one_is_refused_by_the_client_side() {
        for (name, kind) in Malformed::ALL {
            let bytes = kind.bytes(7);
            let mut reader = Reader::new(1 << 20);
            let refused = match reader.next(&bytes) {
                Ok(step) => match step.event {
                    Some(Event::Binary(payload)) => response::parse(payload).is_err(),
                    other => panic!("{name}: {other:?}"),
                },
                Err(_) => true,
            };
            assert_eq!(refused, kind != Malformed::Fragmented, "{name}");
        }
    }
}
