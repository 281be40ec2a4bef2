//! Length, first and last bytes of a text: all of it up to 16 bytes, and compared without a call.
//! For names that the application writes as literals they are worked out by the compiler.

/// Longest text whose ends are all of it.
const BYTES_MAX: u32 = 16;

/// The ends of a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) bytes: u32,
}

impl Ends {
    /// Those of no text.
    pub(super) const NONE: Self = Self {
        first: 0,
        last: 0,
        bytes: u32::MAX,
    };

    /// Those of a text.
    #[inline]
    pub(super) fn of(text: &[u8]) -> Self {
        let (first, last) = match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => short_ends(text),
        };
        // Longer than a symbol or a name may be: not a length that one has, and not none.
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX - 1);
        Self { first, last, bytes }
    }

    /// Whether they are all of their text.
    #[inline]
    pub(super) fn are_all(self) -> bool {
        self.bytes <= BYTES_MAX
    }

    /// A number whose upper bits depend on all of the ends.
    #[inline]
    pub(super) fn mixed(self) -> u64 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = self.first ^ self.last.rotate_left(29) ^ u64::from(self.bytes);
        mixed.wrapping_mul(FACTOR)
    }
}

/// The ends of a text of less than 8 bytes.
#[inline]
fn short_ends(text: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let word = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        return (word(first), word(last));
    }
    let byte = |at: usize| u64::from(text.get(at).copied().unwrap_or(0));
    (byte(0) | byte(1) << 8 | byte(2) << 16, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_that_are_all_of_their_texts_tell_them_apart() {
        let text: Vec<u8> = (1..=40).collect();
        for len in 0..text.len() {
            let ends = Ends::of(&text[..len]);
            assert_eq!(ends.are_all(), len <= 16);
            assert_ne!(ends, Ends::of(&text[..=len]));
            assert_ne!(ends, Ends::NONE);
            for at in 0..len.min(16) {
                let mut other = text[..len].to_vec();
                other[at] = 99;
                assert!(ends != Ends::of(&other) || !ends.are_all(), "{at} of {len}");
            }
        }
    }
}
