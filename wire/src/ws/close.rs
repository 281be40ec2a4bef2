//! Close codes: which are legal on the wire, which the server answers with, and the payload of a
//! CLOSE frame (RFC 6455, section 7.4; protocol.md 3.1 to 3.3).

/// Orderly end; the server's role change and the client's shutdown.
pub const NORMAL: u16 = 1000;
/// The endpoint goes away; treated like [`NORMAL`].
pub const GOING_AWAY: u16 = 1001;
/// A frame that breaks the protocol, also a fragmented message.
pub const PROTOCOL_ERROR: u16 = 1002;
/// A text frame.
pub const UNSUPPORTED_DATA: u16 = 1003;
/// A frame larger than the receive buffer.
pub const TOO_BIG: u16 = 1009;

/// Longest reason of a CLOSE frame, bytes: a control payload less the code.
pub const REASON_BYTES_MAX: usize = 123;

/// Whether a CLOSE ends the conversation in an orderly way: reconnect at once, no strike.
pub const fn is_orderly(code: u16) -> bool {
    matches!(code, NORMAL | GOING_AWAY)
}

/// Whether a server may send this code; any other is a protocol violation.
pub const fn is_legal_from_server(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// The code that the genuine server answers a client's CLOSE with.
///
/// Its own mistakes are given back to the client as 1002, unusable codes as 1000, all others
/// are repeated.
pub const fn reply_code(code: Option<u16>) -> u16 {
    match code {
        Some(1004 | 2000..=2999) => PROTOCOL_ERROR,
        None | Some(0..=999 | 1005 | 1006 | 1015 | 5000..) => NORMAL,
        Some(other) => other,
    }
}

/// Code and reason of a CLOSE payload as bytes; `None` as code when the payload is empty.
///
/// A payload of one byte is judged by the frame parse and yields no code here.
pub fn split_payload(payload: &[u8]) -> (Option<u16>, &[u8]) {
    match payload.split_first_chunk::<2>() {
        Some((code, reason)) => (Some(u16::from_be_bytes(*code)), reason),
        None => (None, &[]),
    }
}

/// Payload of a CLOSE frame. A reason over [`REASON_BYTES_MAX`] is cut at a character.
pub fn payload(code: u16, reason: &str) -> Vec<u8> {
    let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
    let mut bytes = Vec::with_capacity(2 + reason.len());
    bytes.extend_from_slice(&code.to_be_bytes());
    bytes.extend_from_slice(reason.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_normalised_as_the_genuine_server_does() {
        for bad in [1004, 2000, 2999] {
            assert_eq!(reply_code(Some(bad)), 1002, "{bad}");
        }
        for unusable in [0, 999, 1005, 1006, 1015, 5000, 65_535] {
            assert_eq!(reply_code(Some(unusable)), 1000, "{unusable}");
        }
        for same in [1000, 1001, 1002, 1003, 1007, 1014, 1016, 3000, 4999] {
            assert_eq!(reply_code(Some(same)), same);
        }
        assert_eq!(reply_code(None), 1000);
    }

    #[test]
    fn long_reasons_are_cut_at_a_character() {
        let text = "é".repeat(100);
        let bytes = payload(1002, &text);
        assert_eq!(bytes.len(), 2 + 122);
        assert_eq!(
            split_payload(&bytes),
            (Some(1002), "é".repeat(61).as_bytes())
        );
    }
}
