//! The writing half.

use super::BUCKET_BITS;

/// Appends the stream of `values` (without the encoding byte in front of it).
///
/// Returns false, with `out` as it was, when a change does not fit 32 bits: the caller writes the
/// values plain. A stream is never longer than the plain values.
///
/// ```
/// let mut out = Vec::new();
/// assert!(forebay_wire::gorilla::encode(&[0, 0, 2_147_483_647], &mut out));
/// assert_eq!(out[16..], [0xff, 0xff, 0xff, 0xff, 0x07]);
/// assert!(!forebay_wire::gorilla::encode(&[0, 0, 2_147_483_648], &mut out));
/// ```
pub fn encode(values: &[i64], out: &mut Vec<u8>) -> bool {
    encode_from(values.iter().copied(), out)
}

/// Like [`encode`], for values that do not lie in one slice.
pub fn encode_from(values: impl Iterator<Item = i64>, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    let written = encode_all(values, out).is_some();
    if !written {
        out.truncate(before);
    }
    written
}

fn encode_all(mut values: impl Iterator<Item = i64>, out: &mut Vec<u8>) -> Option<()> {
    let Some(first) = values.next() else {
        return Some(());
    };
    out.extend_from_slice(&first.to_le_bytes());
    let Some(mut previous) = values.next() else {
        return Some(());
    };
    out.extend_from_slice(&previous.to_le_bytes());
    let mut delta = previous.checked_sub(first);
    let mut bits = BitWriter::default();
    for value in values {
        // Differences beyond 64 bits would wrap back in our decoder, but not in every decoder.
        let next = value.checked_sub(previous)?;
        let change = i32::try_from(next.checked_sub(delta?)?).ok()?;
        bits.put_change(change, out);
        previous = value;
        delta = Some(next);
    }
    bits.finish(out);
    Some(())
}

/// Gathers bits, least significant first; fewer than 8 are pending between calls.
#[derive(Default)]
struct BitWriter {
    pending: u64,
    used: u32,
}

impl BitWriter {
    fn put_change(&mut self, change: i32, out: &mut Vec<u8>) {
        let (ones, width) = bucket(change);
        // `ones` leading ones, a zero unless it is the widest bucket, then the number.
        let prefix = (1_u64 << ones) - 1;
        let prefix_bits = (ones + 1).min(4);
        let number = u64::from(change.cast_unsigned()) & ((1 << width) - 1);
        self.pending |= (prefix | (number << prefix_bits)) << self.used;
        self.used += prefix_bits + width;
        let whole = (self.used / 8) as usize;
        out.extend_from_slice(&self.pending.to_le_bytes()[..whole]);
        self.pending >>= whole * 8;
        self.used %= 8;
    }

    fn finish(self, out: &mut Vec<u8>) {
        if self.used > 0 {
            out.push(self.pending.to_le_bytes()[0]);
        }
    }
}

/// Leading ones and number width of a change.
fn bucket(change: i32) -> (u32, u32) {
    match change {
        0 => (0, 0),
        -64..=63 => (1, BUCKET_BITS[0]),
        -256..=255 => (2, BUCKET_BITS[1]),
        -2048..=2047 => (3, BUCKET_BITS[2]),
        _ => (4, BUCKET_BITS[3]),
    }
}
