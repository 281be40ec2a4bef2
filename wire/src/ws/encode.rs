//! Writing frame headers: always FIN, always the shortest length form.
//!
//! The sender writes a header into a [`HeaderBuf`] and hands header and payload to the socket as
//! two slices; the `append_*` functions serve the small frames (control frames, responses).

use super::{HEADER_BYTES_MAX, Opcode, mask};

/// An encoded frame header of 2 to 14 bytes, on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderBuf {
    bytes: [u8; HEADER_BYTES_MAX],
    used: usize,
}

impl HeaderBuf {
    /// The bytes to send before the payload.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Length of the header, bytes.
    pub const fn len(&self) -> usize {
        self.used
    }

    /// Never true: a header has at least two bytes.
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }
}

impl AsRef<[u8]> for HeaderBuf {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

/// Header of an unfragmented, masked frame from a client. `key` must be fresh for every frame
/// and the payload be passed through [`mask::copy`] with the same key.
pub fn encode_client_header(opcode: Opcode, payload_bytes: usize, key: [u8; 4]) -> HeaderBuf {
    let mut header = unmasked(opcode, payload_bytes);
    header.bytes[1] |= 0x80;
    header.bytes[header.used..header.used + 4].copy_from_slice(&key);
    header.used += 4;
    header
}

/// Bytes of a masked frame around so many bytes of payload.
#[inline]
pub const fn client_frame_len(payload_bytes: usize) -> usize {
    let length = match payload_bytes {
        0..=125 => 0,
        126..=0xFFFF => 2,
        _ => 8,
    };
    2 + length + 4 + payload_bytes
}

/// Writes a whole masked frame to the front of `out`: header and payload in one go.
///
/// # Panics
/// When `out` is not exactly [`client_frame_len`] of the payload long.
#[inline]
pub fn write_client_frame(out: &mut [u8], opcode: Opcode, payload: &[u8], key: [u8; 4]) {
    let first = 0x80 | opcode.bits();
    let (head, body) = out.split_at_mut(out.len() - payload.len());
    let [k0, k1, k2, k3] = key;
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short @ 0..=125), _) => {
            head.copy_from_slice(&[first, 0x80 | short, k0, k1, k2, k3]);
        }
        (_, Ok(medium)) => {
            let [b0, b1] = medium.to_be_bytes();
            head.copy_from_slice(&[first, 0xFE, b0, b1, k0, k1, k2, k3]);
        }
        _ => {
            let (lead, rest) = head.split_at_mut(2);
            lead.copy_from_slice(&[first, 0xFF]);
            let (length, key_field) = rest.split_at_mut(8);
            length.copy_from_slice(&(payload.len() as u64).to_be_bytes());
            key_field.copy_from_slice(&key);
        }
    }
    mask::copy(body, payload, key, 0);
}

/// Header of an unfragmented, unmasked frame from a server.
pub fn encode_server_header(opcode: Opcode, payload_bytes: usize) -> HeaderBuf {
    unmasked(opcode, payload_bytes)
}

/// Appends a whole masked frame to `out`.
pub fn append_client_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], key: [u8; 4]) {
    out.extend_from_slice(encode_client_header(opcode, payload.len(), key).as_slice());
    let start = out.len();
    out.extend_from_slice(payload);
    mask::apply(&mut out[start..], key, 0);
}

/// Appends a whole unmasked frame to `out`.
pub fn append_server_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    out.extend_from_slice(encode_server_header(opcode, payload.len()).as_slice());
    out.extend_from_slice(payload);
}

fn unmasked(opcode: Opcode, payload_bytes: usize) -> HeaderBuf {
    let mut bytes = [0; HEADER_BYTES_MAX];
    bytes[0] = 0x80 | opcode.bits();
    let used = match (u8::try_from(payload_bytes), u16::try_from(payload_bytes)) {
        (Ok(short @ 0..=125), _) => {
            bytes[1] = short;
            2
        }
        (_, Ok(medium)) => {
            bytes[1] = 126;
            bytes[2..4].copy_from_slice(&medium.to_be_bytes());
            4
        }
        _ => {
            bytes[1] = 127;
            bytes[2..10].copy_from_slice(&(payload_bytes as u64).to_be_bytes());
            10
        }
    };
    HeaderBuf { bytes, used }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_the_shortest_form() {
        let header = |n| encode_server_header(Opcode::Binary, n).as_slice().to_vec();
        assert_eq!(header(0), [0x82, 0]);
        assert_eq!(header(125), [0x82, 125]);
        assert_eq!(header(126), [0x82, 126, 0, 126]);
        assert_eq!(header(65_535), [0x82, 126, 0xFF, 0xFF]);
        assert_eq!(header(65_536), [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn client_frames_are_the_published_bytes() {
        let key = [0x11, 0x22, 0x33, 0x44];
        let mut out = Vec::new();
        append_client_frame(&mut out, Opcode::Close, &[0x03, 0xE8], key);
        assert_eq!(out, [0x88, 0x82, 0x11, 0x22, 0x33, 0x44, 0x12, 0xCA]);
        out.clear();
        append_client_frame(&mut out, Opcode::Ping, &[], key);
        assert_eq!(out, [0x89, 0x80, 0x11, 0x22, 0x33, 0x44]);
    }

    #[test]
    fn a_frame_written_in_place_is_the_appended_one() {
        for payload_bytes in [0, 1, 5, 125, 126, 127, 300, 65_535, 65_536, 70_001] {
            let payload: Vec<u8> = (0..=250).cycle().take(payload_bytes).collect();
            let key = [0x9A, 0, 0x33, 0xFF];
            let mut appended = Vec::new();
            append_client_frame(&mut appended, Opcode::Binary, &payload, key);
            let mut out = vec![0xEE; client_frame_len(payload.len())];
            write_client_frame(&mut out, Opcode::Binary, &payload, key);
            assert!(out == appended, "{payload_bytes} bytes");
        }
    }

    #[test]
    fn server_frames_are_the_published_bytes() {
        let mut out = Vec::new();
        append_server_frame(&mut out, Opcode::Close, &[0x03, 0xE8]);
        append_server_frame(&mut out, Opcode::Pong, &[]);
        assert_eq!(out, [0x88, 0x02, 0x03, 0xE8, 0x8A, 0x00]);
    }
}
