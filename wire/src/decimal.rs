//! 256-bit unscaled values of decimals: what rescaling and printing need, and no more.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]

/// A signed 256-bit number, two's complement.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unscaled {
    /// Least significant word first.
    words: [u64; 4],
}

impl Unscaled {
    /// Zero.
    pub const ZERO: Self = Self { words: [0; 4] };

    /// From 32 little-endian bytes.
    pub fn from_le_bytes(bytes: [u8; 32]) -> Self {
        let mut words = [0; 4];
        for (word, chunk) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        Self { words }
    }

    /// From little-endian two's complement bytes of one of the decimal types, sign-extended.
    #[inline]
    pub(crate) fn from_le_slice(bytes: &[u8]) -> Self {
        if let Ok(narrow) = bytes.try_into() {
            return Self::from(i64::from_le_bytes(narrow));
        }
        if let Ok(middle) = bytes.try_into() {
            return Self::from(i128::from_le_bytes(middle));
        }
        let mut wide = [0; 32];
        for (to, from) in wide.iter_mut().zip(bytes) {
            *to = *from;
        }
        Self::from_le_bytes(wide)
    }

    /// As 32 little-endian bytes.
    pub fn to_le_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, word) in bytes.as_chunks_mut().0.iter_mut().zip(self.words) {
            *chunk = word.to_le_bytes();
        }
        bytes
    }

    /// Whether the number is below zero.
    #[inline]
    pub fn is_negative(self) -> bool {
        self.words.last().is_some_and(|top| top.cast_signed() < 0)
    }

    /// The number as 128 bits, if it fits.
    pub fn to_i128(self) -> Option<i128> {
        let [a, b, ..] = self.words;
        let low = (u128::from(a) | (u128::from(b) << 64)).cast_signed();
        (Self::from(low) == self).then_some(low)
    }

    /// Whether the number fits `width` bytes: 8, 16 or 32, the widths of the decimal types.
    pub fn fits(self, width: usize) -> bool {
        let bytes = self.to_le_bytes();
        bytes
            .split_at_checked(width)
            .is_none_or(|(kept, _)| Self::from_le_slice(kept) == self)
    }

    /// The number times ten to the power of `digits`, if that fits 256 bits.
    #[must_use = "the number itself is not changed"]
    pub fn scaled_up(self, digits: u8) -> Option<Self> {
        let mut magnitude = self.magnitude();
        for _ in 0..digits {
            let mut carry = 0_u128;
            for word in &mut magnitude {
                let wide = u128::from(*word) * 10 + carry;
                *word = low_word(wide);
                carry = wide >> 64;
            }
            if carry != 0 {
                return None;
            }
        }
        Self::from_magnitude(magnitude, self.is_negative())
    }

    /// Fixed-point text: `-0.125` for −125 at scale 3.
    pub fn to_text(self, scale: u8) -> String {
        let mut magnitude = self.magnitude();
        let mut digits = Vec::new();
        while magnitude != [0; 4] || digits.len() <= usize::from(scale) {
            let mut rest = 0_u128;
            for word in magnitude.iter_mut().rev() {
                let wide = (rest << 64) | u128::from(*word);
                *word = low_word(wide / 10);
                rest = wide % 10;
            }
            if digits.len() == usize::from(scale) && scale > 0 {
                digits.push('.');
            }
            digits.push(char::from(b'0' + low_word(rest).to_le_bytes()[0]));
        }
        if self.is_negative() {
            digits.push('-');
        }
        digits.iter().rev().collect()
    }

    fn magnitude(self) -> [u64; 4] {
        if self.is_negative() {
            negate(self.words)
        } else {
            self.words
        }
    }

    fn from_magnitude(magnitude: [u64; 4], negative: bool) -> Option<Self> {
        let words = if negative {
            negate(magnitude)
        } else {
            magnitude
        };
        let number = Self { words };
        // Zero has no sign; everything else must have kept the one it had.
        (number.is_negative() == negative || words == [0; 4]).then_some(number)
    }
}

impl From<i128> for Unscaled {
    #[inline]
    fn from(value: i128) -> Self {
        let bits = value.cast_unsigned();
        let sign = low_word((value >> 127).cast_unsigned());
        Self {
            words: [low_word(bits), low_word(bits >> 64), sign, sign],
        }
    }
}

impl From<[u8; 32]> for Unscaled {
    fn from(bytes: [u8; 32]) -> Self {
        Self::from_le_bytes(bytes)
    }
}

impl From<i64> for Unscaled {
    #[inline]
    fn from(value: i64) -> Self {
        let sign = (value >> 63).cast_unsigned();
        Self {
            words: [value.cast_unsigned(), sign, sign, sign],
        }
    }
}

impl std::fmt::Debug for Unscaled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_text(0))
    }
}

/// The low 64 bits.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the point of it")]
fn low_word(wide: u128) -> u64 {
    wide as u64
}

fn negate(mut words: [u64; 4]) -> [u64; 4] {
    let mut carry = true;
    for word in &mut words {
        let (sum, overflow) = (!*word).overflowing_add(u64::from(carry));
        *word = sum;
        carry = overflow;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_the_scale_and_the_sign() {
        let text = |value: i64, scale| Unscaled::from(value).to_text(scale);
        assert_eq!(text(-125, 3), "-0.125");
        assert_eq!(text(0, 2), "0.00");
        assert_eq!(text(12345, 0), "12345");
        assert_eq!(text(-7, 0), "-7");
        assert_eq!(text(i64::MIN, 18), "-9.223372036854775808");
    }

    #[test]
    fn scaling_stops_at_256_bits() {
        let one = Unscaled::from(1_i64);
        let most = one.scaled_up(76).unwrap();
        assert_eq!(most.to_text(0), format!("1{}", "0".repeat(76)));
        assert_eq!(one.scaled_up(77), None);
        assert_eq!(
            Unscaled::from(-250_i64).scaled_up(2),
            Some(Unscaled::from(-25_000_i64))
        );
        assert_eq!(Unscaled::ZERO.scaled_up(200), Some(Unscaled::ZERO));
    }

    #[test]
    fn width_and_narrowing_agree() {
        for value in [
            0,
            1,
            -1,
            i128::from(i64::MAX),
            i128::from(i64::MIN),
            i128::MAX,
            i128::MIN,
        ] {
            let number = Unscaled::from(value);
            assert_eq!(number.to_i128(), Some(value));
            assert_eq!(number.fits(8), i64::try_from(value).is_ok());
            assert!(number.fits(16) && number.fits(32));
        }
        let wide = Unscaled::from(i128::MAX).scaled_up(1).unwrap();
        assert_eq!(wide.to_i128(), None);
        assert!(!wide.fits(16));
    }
}
