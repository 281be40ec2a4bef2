//! XOR masking of client payloads (RFC 6455, section 5.3): byte `i` of a frame's payload is
//! combined with byte `i % 4` of the frame's key.
//!
//! The sender calls [`copy`] for every payload byte that goes to the wire, the server side
//! [`apply`]; both run at memory speed: the key is widened to eight bytes and applied
//! to words of eight, a loop that the compiler turns into vector instructions.
//!
//! A payload that is handed over in pieces passes the offset of each piece within the payload as
//! `phase`: with key `[a, b, c, d]`, phase 3 starts with `d`.

/// Copies `src` to `dst` and masks it in the same pass.
///
/// # Panics
/// If the two slices differ in length, as `copy_from_slice` does.
///
/// ```
/// use forebay_wire::ws::mask;
/// let mut out = [0; 2];
/// mask::copy(&mut out, &[0x03, 0xE8], [0x11, 0x22, 0x33, 0x44], 0);
/// assert_eq!(out, [0x12, 0xCA]);
/// ```
pub fn copy(dst: &mut [u8], src: &[u8], key: [u8; 4], phase: usize) {
    assert_eq!(
        dst.len(),
        src.len(),
        "mask::copy wants slices of one length"
    );
    let word = word(key, phase);
    // By 64 first: fewer steps, and the compiler may take them in wide registers.
    let (to_large, to_rest) = dst.as_chunks_mut::<64>();
    let (from_large, from_rest) = src.as_chunks::<64>();
    for (to, from) in to_large.iter_mut().zip(from_large) {
        *to = masked(*from, word);
    }
    let (to_blocks, to_tail) = to_rest.as_chunks_mut::<16>();
    let (from_blocks, from_tail) = from_rest.as_chunks::<16>();
    for (to, from) in to_blocks.iter_mut().zip(from_blocks) {
        *to = masked(*from, word);
    }
    let tail_bytes = to_tail.len();
    if tail_bytes == 0 {
        return;
    }
    if let (Some(to), Some(from)) = (dst.last_chunk_mut::<16>(), src.last_chunk::<16>()) {
        // The last sixteen bytes, those before the tail a second time.
        *to = masked(*from, self::word(key, phase % 4 + tail_bytes));
        return;
    }
    for ((to, from), key) in dst
        .iter_mut()
        .zip(from_tail)
        .zip(key.iter().cycle().skip(phase % 4))
    {
        *to = from ^ key;
    }
}

/// A block under a widened key.
#[inline]
fn masked<const N: usize>(mut bytes: [u8; N], word: u64) -> [u8; N] {
    for part in bytes.as_chunks_mut::<8>().0 {
        *part = (u64::from_ne_bytes(*part) ^ word).to_ne_bytes();
    }
    bytes
}

/// Masks or unmasks `bytes` where they are. A key of zeros costs nothing.
pub fn apply(bytes: &mut [u8], key: [u8; 4], phase: usize) {
    if key == [0; 4] {
        return;
    }
    let word = word(key, phase);
    let (words, tail) = bytes.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    for (byte, key) in tail.iter_mut().zip(word.to_ne_bytes()) {
        *byte ^= key;
    }
}

/// The key, turned so that it starts at `phase`, twice.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "below 4")]
fn word(key: [u8; 4], phase: usize) -> u64 {
    // Byte `i` of the little-endian number is byte `i` of the key.
    let once = u64::from(u32::from_le_bytes(key));
    let twice = once | once << 32;
    let turns = u32::try_from(phase % 4).unwrap_or_default(); // below 4
    twice.rotate_right(8 * turns).to_le()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(src: &[u8], key: [u8; 4], phase: usize) -> Vec<u8> {
        src.iter()
            .enumerate()
            .map(|(i, b)| b ^ key[(i + phase) % 4])
            .collect()
    }

    proptest! {
        #[test]
        fn both_forms_equal_the_loop_of_the_rfc(
            src in proptest::collection::vec(any::<u8>(), 0..400),
            key in any::<[u8; 4]>(),
            phase in 0_usize..1000,
            skip in 0_usize..9,
        ) {
            let src = &src[skip.min(src.len())..];
            let want = naive(src, key, phase);
            let mut copied = vec![0xEE; src.len()];
            copy(&mut copied, src, key, phase);
            prop_assert_eq!(&copied, &want);
            let mut in_place = src.to_vec();
            apply(&mut in_place, key, phase);
            prop_assert_eq!(&in_place, &want);
            apply(&mut in_place, key, phase);
            prop_assert_eq!(&in_place[..], src);
        }

        #[test]
        fn pieces_with_their_phase_equal_the_whole(
            src in proptest::collection::vec(any::<u8>(), 1..300),
            key in any::<[u8; 4]>(),
            cut in 0_usize..300,
        ) {
            let cut = cut % src.len();
            let mut pieces = src.clone();
            apply(&mut pieces[..cut], key, 0);
            apply(&mut pieces[cut..], key, cut);
            prop_assert_eq!(pieces, naive(&src, key, 0));
        }
    }

    #[test]
    #[ignore = "measures; run alone and in release"]
    fn masking_speed() {
        let src = vec![7_u8; 44_000];
        let mut dst = vec![0_u8; 44_000];
        let start = std::time::Instant::now();
        for round in 0..20_000_u32 {
            copy(&mut dst, std::hint::black_box(&src), round.to_le_bytes(), 1);
            std::hint::black_box(&mut dst);
        }
        let copied = start.elapsed();
        let start = std::time::Instant::now();
        for round in 1..20_001_u32 {
            apply(std::hint::black_box(&mut dst), round.to_le_bytes(), 1);
        }
        let applied = start.elapsed();
        let rate = |t: std::time::Duration| 44_000.0 * 20_000.0 / t.as_secs_f64() / 1e9;
        println!(
            "mask::copy {:.1} GB/s, mask::apply {:.1} GB/s",
            rate(copied),
            rate(applied)
        );
        assert!(rate(copied) >= 10.0, "in cache, release");
    }
}
