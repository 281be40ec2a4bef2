//! CRC-32C, with a short way for short pieces.
//!
//! The crate `crc32c` is made for long ones: it goes byte by byte up to an aligned address and from
//! the last one on. In a frame of one row those are half of its steps, and as many as the frame's
//! place says, which no branch predictor knows. Here words are read where they lie.

/// Pieces below this go the short way; the crate works in three lanes from 768 bytes on.
const SHORT: usize = 768;

/// The CRC-32C of `bytes`.
#[inline]
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// Continues `crc` over `bytes`.
#[inline]
pub(crate) fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < SHORT && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instructions.
        return unsafe { short(crc, bytes) };
    }
    ::crc32c::crc32c_append(crc, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};

    let (words, tail) = bytes.as_chunks::<8>();
    let mut wide = u64::from(!crc);
    for word in words {
        wide = _mm_crc32_u64(wide, u64::from_le_bytes(*word));
    }
    let mut state = u32::try_from(wide).unwrap_or_default(); // the upper half is zero
    let (halves, tail) = tail.as_chunks::<4>();
    for half in halves {
        state = _mm_crc32_u32(state, u32::from_le_bytes(*half));
    }
    let (pairs, tail) = tail.as_chunks::<2>();
    for pair in pairs {
        state = _mm_crc32_u16(state, u16::from_le_bytes(*pair));
    }
    for byte in tail {
        state = _mm_crc32_u8(state, *byte);
    }
    !state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_at_every_place_is_summed_as_by_the_crate() {
        let bytes: Vec<u8> = (0..=250).cycle().take(SHORT + 40).collect();
        for from in 0..8 {
            for to in from..bytes.len() {
                let piece = &bytes[from..to];
                assert_eq!(crc32c(piece), ::crc32c::crc32c(piece), "{from}..{to}");
            }
        }
        let (first, second) = bytes.split_at(133);
        assert_eq!(
            crc32c_append(crc32c(first), second),
            ::crc32c::crc32c(&bytes)
        );
        assert_eq!(crc32c(b"123456789"), 0xE306_9283, "the published value");
    }
}
