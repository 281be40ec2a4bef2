//! The reading half.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

use super::BUCKET_BITS;

/// The stream ends before its last value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("delta-of-delta stream is cut off")]
pub struct GorillaError;

/// Iterator over the values of a stream. Arithmetic wraps at 64 bits.
///
/// The stream's length is not known beforehand: [`Decoder::bytes_used`] tells it at the end.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    /// Next bit of `bytes`.
    bit: usize,
    left: usize,
    /// Values that stand plain and are still to come, at most 2.
    plain: u8,
    previous: i64,
    delta: i64,
}

impl<'a> Decoder<'a> {
    /// Reads `count` values from the start of `bytes`, which may go on behind the stream.
    #[inline]
    pub fn new(bytes: &'a [u8], count: usize) -> Self {
        Self {
            bytes,
            bit: 0,
            left: count,
            plain: 2,
            previous: 0,
            delta: 0,
        }
    }

    /// Whole bytes read so far; after the last value, the length of the stream.
    #[inline]
    pub fn bytes_used(&self) -> usize {
        self.bit.div_ceil(8)
    }

    /// Values still to come.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.left
    }

    fn next_plain(&mut self) -> Option<i64> {
        let rest = self.bytes.get(self.bit >> 3..)?;
        let value = i64::from_le_bytes(*rest.first_chunk()?);
        self.bit = self.bit.saturating_add(64);
        self.plain = self.plain.saturating_sub(1);
        self.delta = value.wrapping_sub(self.previous);
        self.previous = value;
        Some(value)
    }

    #[inline]
    fn next_change(&mut self) -> Option<i64> {
        let window = self.window();
        // The window has 57 bits or more (fewer only at the end of the bytes); 36 are needed.
        let ones = window.trailing_ones().min(4);
        let (bits, change) = if ones == 0 {
            (1, 0)
        } else {
            let prefix = ones.saturating_add(1).min(4);
            let index = usize::try_from(ones).ok()?.saturating_sub(1);
            let width = *BUCKET_BITS.get(index)?;
            let unused = 64_u32.saturating_sub(width);
            let number = window.wrapping_shr(prefix).wrapping_shl(unused);
            let change = number.cast_signed().wrapping_shr(unused);
            (prefix.saturating_add(width), change)
        };
        let end = self.bit.checked_add(usize::try_from(bits).ok()?)?;
        if end > self.bytes.len().saturating_mul(8) {
            return None;
        }
        self.bit = end;
        self.delta = self.delta.wrapping_add(change);
        self.previous = self.previous.wrapping_add(self.delta);
        Some(self.previous)
    }

    /// The bits from the current one on, zeros behind the end.
    #[inline]
    fn window(&self) -> u64 {
        let rest = self.bytes.get(self.bit >> 3..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => rest
                .iter()
                .rev()
                .fold(0, |word, byte| (word << 8) | u64::from(*byte)),
        };
        word >> (self.bit & 7)
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<i64, GorillaError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let value = if self.plain > 0 {
            self.next_plain()
        } else {
            self.next_change()
        };
        if value.is_none() {
            self.left = 0;
        }
        Some(value.ok_or(GorillaError))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gorilla::encode;

    fn round_trip(values: &[i64], bytes: &[u8]) {
        let mut out = Vec::new();
        assert!(encode(values, &mut out));
        assert_eq!(out, bytes);
        out.extend_from_slice(&[0xff; 9]);
        let mut decoder = Decoder::new(&out, values.len());
        let back: Result<Vec<i64>, _> = decoder.by_ref().collect();
        assert_eq!(back.as_deref(), Ok(values));
        assert_eq!(decoder.bytes_used(), bytes.len());
    }

    #[test]
    fn worked_examples_byte_for_byte() {
        let t = 1_700_000_000_000_000;
        let six = [t, t + 1000, t + 2000, t + 3001, t + 3900, t + 10000];
        let bytes = [
            0x00, 0x40, 0x1e, 0x18, 0x24, 0x0a, 0x06, 0x00, 0xe8, 0x43, 0x1e, 0x18, 0x24, 0x0a,
            0x06, 0x00, 0x0a, 0x4c, 0xf3, 0x47, 0x51, 0x00, 0x00, 0x00,
        ];
        round_trip(&six, &bytes);
        let mut most = [0; 21];
        most[16..].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x07]);
        round_trip(&[0, 0, 2_147_483_647], &most);
        most[16..].copy_from_slice(&[0x0f, 0x00, 0x00, 0x00, 0x08]);
        round_trip(&[0, 0, -2_147_483_648], &most);
        round_trip(&[], &[]);
        round_trip(&[-1], &[0xff; 8]);
    }

    #[test]
    fn changes_beyond_32_bits_leave_the_output_alone() {
        let mut out = vec![7];
        for third in [2_147_483_648, -2_147_483_649, i64::MIN] {
            assert!(!encode(&[0, 0, third], &mut out));
        }
        assert!(!encode(&[i64::MIN, i64::MAX, 0], &mut out));
        assert_eq!(out, [7]);
    }

    #[test]
    fn a_cut_stream_ends_with_one_error() {
        let mut out = Vec::new();
        assert!(encode(&[0, 0, 5000], &mut out));
        out.pop();
        let all: Vec<_> = Decoder::new(&out, 3).collect();
        assert_eq!(all, [Ok(0), Ok(0), Err(GorillaError)]);
        assert_eq!(Decoder::new(&[], 1_000_000).count(), 1);
    }

    #[test]
    fn sums_wrap_at_64_bits() {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&i64::MIN.to_le_bytes());
        bytes.extend_from_slice(&i64::MAX.to_le_bytes());
        bytes.push(0);
        let values: Vec<_> = Decoder::new(&bytes, 3).flatten().collect();
        assert_eq!(values, [i64::MIN, i64::MAX, i64::MAX - 1]);
    }
}
