//! Unsigned LEB128 integers, the length and id format of QWP (protocol.md section 5).
//!
//! At most [`LEN_MAX`] bytes; the tenth byte may only contribute bit 63. Padded (non-minimal)
//! encodings are legal on the wire and decode to the same value.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

/// Most bytes that one varint may take.
pub const LEN_MAX: usize = 10;

/// Why bytes are not a varint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarintError {
    /// The input ends inside the varint.
    #[error("varint is cut off")]
    Truncated,
    /// More than 64 bits, or more than ten bytes.
    #[error("varint overflows 64 bits")]
    Overflow,
}

/// Number of bytes that [`encode`] writes for `value`, 1 to [`LEN_MAX`].
///
/// ```
/// assert_eq!(forebay_wire::varint::len(127), 1);
/// assert_eq!(forebay_wire::varint::len(128), 2);
/// ```
#[inline]
pub const fn len(value: u64) -> usize {
    // 64 significant bits need 10 bytes, 7 need 1: (bits + 6) / 7, with zero taking one byte.
    let bits = u64::BITS.saturating_sub((value | 1).leading_zeros());
    bits.div_ceil(7) as usize
}

/// Writes `value` at the start of `out` and returns the number of bytes written.
///
/// # Panics
/// When `out` holds fewer than [`len`]`(value)` bytes.
#[inline]
pub fn encode(value: u64, out: &mut [u8]) -> usize {
    let [low, next, ..] = value.to_le_bytes();
    match out {
        [first, ..] if value < 0x80 => {
            *first = low;
            1
        }
        [first, second, ..] if value < 0x4000 => {
            *first = low | 0x80;
            *second = (next << 1) | (low >> 7);
            2
        }
        _ => encode_long(value, out),
    }
}

fn encode_long(value: u64, out: &mut [u8]) -> usize {
    let mut rest = value;
    let used = len(value);
    let (head, _) = out.split_at_mut(used);
    for byte in head.iter_mut() {
        *byte = rest.to_le_bytes()[0] | 0x80;
        rest >>= 7;
    }
    if let Some(last) = head.last_mut() {
        *last &= 0x7f;
    }
    used
}

/// Appends `value` to `out`.
#[inline]
pub fn push(value: u64, out: &mut Vec<u8>) {
    let mut bytes = [0; LEN_MAX];
    match encode(value, &mut bytes) {
        1 => out.push(bytes[0]),
        2 => out.extend_from_slice(&[bytes[0], bytes[1]]),
        used => out.extend_from_slice(bytes.split_at(used).0),
    }
}

/// Reads the varint at the start of `bytes`: its value and the number of bytes it took.
#[inline]
pub fn decode(bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    match bytes {
        [a, ..] if *a < 0x80 => Ok((u64::from(*a), 1)),
        [a, b, ..] if *b < 0x80 => Ok((u64::from(a & 0x7f) | (u64::from(*b) << 7), 2)),
        [a, b, c, ..] if *c < 0x80 => {
            let low = u64::from(a & 0x7f) | (u64::from(b & 0x7f) << 7);
            Ok((low | (u64::from(*c) << 14), 3))
        }
        _ => decode_long(bytes),
    }
}

fn decode_long(bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    let mut value = 0_u64;
    let mut shift = 0_u32;
    for (at, &byte) in bytes.iter().take(LEN_MAX).enumerate() {
        let low = u64::from(byte & 0x7f);
        if shift == 63 && low > 1 {
            return Err(VarintError::Overflow);
        }
        value |= low << shift;
        if byte < 0x80 {
            return Ok((value, at.saturating_add(1)));
        }
        shift = shift.saturating_add(7);
    }
    if bytes.len() < LEN_MAX {
        return Err(VarintError::Truncated);
    }
    Err(VarintError::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_examples_encode_and_decode() {
        let cases: [(u64, &[u8]); 5] = [
            (0, &[0]),
            (127, &[0x7f]),
            (128, &[0x80, 0x01]),
            (300, &[0xac, 0x02]),
            (16384, &[0x80, 0x80, 0x01]),
        ];
        for (value, bytes) in cases {
            let mut out = Vec::new();
            push(value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(decode(bytes), Ok((value, bytes.len())));
        }
        let mut most = [0xff; LEN_MAX];
        most[9] = 1;
        assert_eq!(decode(&most), Ok((u64::MAX, 10)));
        assert_eq!(len(u64::MAX), 10);
    }

    #[test]
    fn cut_off_and_overlong_are_told_apart() {
        assert_eq!(decode(&[]), Err(VarintError::Truncated));
        assert_eq!(decode(&[0x80, 0x80]), Err(VarintError::Truncated));
        assert_eq!(decode(&[0x80; 11]), Err(VarintError::Overflow));
        assert_eq!(
            decode(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]),
            Err(VarintError::Overflow)
        );
        assert_eq!(decode(&[0x81, 0x00]), Ok((1, 2)));
    }
}
