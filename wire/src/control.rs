//! Messages without rows, and the delta section that data messages share with them
//! (protocol.md sections 4.2 and 9).

use crate::header::{Flags, HEADER_LEN, Header};
use crate::varint;

/// Bytes to keep free for everything but the entries when a catch-up frame is sized: the header
/// and head-room for the two varints.
pub const CATCH_UP_RESERVE: usize = HEADER_LEN + 16;

/// Bytes of a delta section.
#[inline]
pub const fn delta_len(start: u64, count: u64, entry_bytes: usize) -> usize {
    delta_head_len(start, count) + entry_bytes
}

/// Bytes of a delta section before its entries.
#[inline]
pub const fn delta_head_len(start: u64, count: u64) -> usize {
    varint::len(start) + varint::len(count)
}

/// Writes what stands before the entries of a delta section; returns the bytes written.
///
/// # Panics
/// When `out` is shorter than [`delta_head_len`].
#[inline]
pub fn write_delta_head(start: u64, count: u64, out: &mut [u8]) -> usize {
    let used = varint::encode(start, out);
    used + varint::encode(count, &mut out[used..])
}

/// Appends a dictionary catch-up: `count` symbols from id `start`, no rows. `entries` are
/// length-prefixed texts as [`crate::decode::Delta::entry_bytes`] gives them.
///
/// # Panics
/// When the entries are larger than any payload can be (4 GiB).
pub fn write_catch_up(out: &mut Vec<u8>, start: u64, count: u64, entries: &[u8]) {
    let payload = delta_len(start, count, entries.len());
    let payload = u32::try_from(payload).expect("callers cut catch-ups to the peer's batch size");
    let header = Header::new(Flags::DELTA_SYMBOL_DICT, 0, payload);
    out.extend_from_slice(&header.to_bytes());
    varint::push(start, out);
    varint::push(count, out);
    out.extend_from_slice(entries);
}

/// Appends a message that only commits the connection's deferred rows. `start` is the number of
/// ids that the connection knows, so that the empty delta fits behind them.
pub fn commit_only(out: &mut Vec<u8>, start: u64) {
    write_catch_up(out, start, 0, &[]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catch_ups_match_the_captured_bytes() {
        let mut out = Vec::new();
        write_catch_up(&mut out, 0, 3, b"\x02v0\x02v1\x02v2");
        assert_eq!(
            out,
            b"QWP1\x01\x08\x00\x00\x0b\x00\x00\x00\x00\x03\x02v0\x02v1\x02v2"
        );
        out.clear();
        write_catch_up(&mut out, 2, 1, b"\x02v2");
        assert_eq!(out, b"QWP1\x01\x08\x00\x00\x05\x00\x00\x00\x02\x01\x02v2");
    }

    #[test]
    fn commit_only_is_an_empty_delta() {
        let mut out = Vec::new();
        commit_only(&mut out, 0);
        assert_eq!(out, b"QWP1\x01\x08\x00\x00\x02\x00\x00\x00\x00\x00");
    }
}
