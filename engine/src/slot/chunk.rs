//! `.symbol-dict` as bytes (slot-format.md section 4).
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `SYD1` |
//! | 4 | 1 | version, 1 |
//! | 5 | 3 | zero |
//! | 8 | … | chunks |
//!
//! Chunk: `count varint >= 1`, `bytes varint >= 1`, entries, CRC-32C (u32) over all before it in
//! the chunk. Entry: `length varint`, UTF-8. An id is the position over all chunks, from 0.
//! One chunk holds what one frame introduced. A file may end in zeros; they are no chunk.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

use forebay_wire::varint;

/// Bytes before the first chunk.
pub(crate) const HEADER_LEN: usize = 8;
/// [`HEADER_LEN`] as a file offset.
pub(crate) const HEADER_BYTES: u64 = 8;
/// The file header that this engine writes.
pub(crate) const HEADER: [u8; HEADER_LEN] = *b"SYD1\x01\0\0\0";
/// Largest entry, in bytes.
pub(crate) const ENTRY_BYTES_MAX: usize = 1 << 20;

const CRC_LEN: usize = 4;

/// What the first eight bytes of a dictionary file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileHeader {
    /// A dictionary of this version.
    Known,
    /// A dictionary of a later version.
    Version(u8),
    /// No dictionary.
    Unknown,
}

/// Judges the start of a dictionary file.
pub(crate) fn file_header(bytes: &[u8]) -> FileHeader {
    match bytes.first_chunk::<HEADER_LEN>() {
        Some(head) if *head == HEADER => FileHeader::Known,
        Some([b'S', b'Y', b'D', b'1', version, ..]) if *version > 1 => {
            FileHeader::Version(*version)
        }
        _ => FileHeader::Unknown,
    }
}

/// Appends the chunk of `count` entries, which are `entries`, to `out`.
pub(crate) fn push(count: u32, entries: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    varint::push(u64::from(count), out);
    varint::push(entries.len() as u64, out);
    out.extend_from_slice(entries);
    let crc = out.get(from..).map_or(0, crc32c::crc32c);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// A chunk whose CRC holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk<'a> {
    /// Number of entries.
    pub count: u64,
    /// The entries.
    pub entries: &'a [u8],
    /// Bytes of the whole chunk.
    pub len: usize,
}

/// Most bytes that a declared chunk length may take: two varints.
pub(crate) const CHUNK_HEAD_MAX: usize = 2 * varint::LEN_MAX;

/// The length that the chunk at the start of `bytes` claims for itself, in bytes, CRC included;
/// `None` when no chunk starts like this. [`CHUNK_HEAD_MAX`] bytes are enough to tell.
pub(crate) fn declared_len(bytes: &[u8]) -> Option<u64> {
    let (count, used) = varint::decode(bytes).ok()?;
    let (entry_bytes, used_too) = varint::decode(bytes.get(used..)?).ok()?;
    if count == 0 || entry_bytes == 0 || count > entry_bytes {
        return None;
    }
    let head = u64::try_from(used.checked_add(used_too)?.checked_add(CRC_LEN)?).ok()?;
    head.checked_add(entry_bytes)
}

/// Reads the chunk at the start of `bytes`; `None` when there is no whole and valid one.
pub(crate) fn parse(bytes: &[u8]) -> Option<Chunk<'_>> {
    let (count, used) = varint::decode(bytes).ok()?;
    let (entry_bytes, used_too) = varint::decode(bytes.get(used..)?).ok()?;
    if count == 0 || entry_bytes == 0 || count > entry_bytes {
        return None;
    }
    let head = used.checked_add(used_too)?;
    let body = head.checked_add(usize::try_from(entry_bytes).ok()?)?;
    let len = body.checked_add(CRC_LEN)?;
    let crc = bytes.get(body..len)?;
    if crc != crc32c::crc32c(bytes.get(..body)?).to_le_bytes() {
        return None;
    }
    Some(Chunk {
        count,
        entries: bytes.get(head..body)?,
        len,
    })
}

/// Splits the entry at the start of `entries` off; `None` unless it is whole, within
/// [`ENTRY_BYTES_MAX`] and UTF-8.
pub(crate) fn split_entry(entries: &[u8]) -> Option<(&str, &[u8])> {
    let (len, used) = varint::decode(entries).ok()?;
    let len = usize::try_from(len)
        .ok()
        .filter(|len| *len <= ENTRY_BYTES_MAX)?;
    let (text, rest) = entries.get(used..)?.split_at_checked(len)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "positions of the test")]
mod tests {
    use super::*;

    /// The two-chunk file that slot-format.md section 20 decodes.
    pub(crate) const JAVA: [u8; 34] = [
        0x53, 0x59, 0x44, 0x31, 0x01, 0x00, 0x00, 0x00, 0x01, 0x04, 0x03, 0x6f, 0x6e, 0x65, 0x89,
        0x31, 0x8d, 0x70, 0x02, 0x0a, 0x03, 0x74, 0x77, 0x6f, 0x05, 0x74, 0x68, 0x72, 0x65, 0x65,
        0xa2, 0x44, 0x4d, 0x7f,
    ];

    #[test]
    fn the_official_file_decodes_and_encodes_byte_for_byte() {
        assert_eq!(file_header(&JAVA), FileHeader::Known);
        let one = parse(&JAVA[8..]).unwrap();
        assert_eq!(
            one,
            Chunk {
                count: 1,
                entries: b"\x03one",
                len: 10
            }
        );
        let two = parse(&JAVA[18..]).unwrap();
        assert_eq!(
            two,
            Chunk {
                count: 2,
                entries: b"\x03two\x05three",
                len: 16
            }
        );
        let mut out = HEADER.to_vec();
        push(1, one.entries, &mut out);
        push(2, two.entries, &mut out);
        assert_eq!(out, JAVA);
        assert_eq!(split_entry(two.entries), Some(("two", &b"\x05three"[..])));
    }

    #[test]
    fn every_flipped_byte_and_every_cut_makes_the_chunk_invalid() {
        for at in 18..JAVA.len() {
            let mut bytes = JAVA;
            bytes[at] ^= 1;
            assert_eq!(parse(&bytes[18..]), None, "byte {at}");
            assert_eq!(parse(&JAVA[18..at]), None, "cut at {at}");
        }
        assert_eq!(parse(&[0; 64]), None);
        assert_eq!(parse(&[0xff; 64]), None);
    }

    #[test]
    fn other_headers_are_told_apart() {
        assert_eq!(file_header(b"SYD1\x03\0\0\0"), FileHeader::Version(3));
        assert_eq!(file_header(b"SYD1\0\0\0\0"), FileHeader::Unknown);
        assert_eq!(file_header(b"\0\0\0\0\x01\0\0\0"), FileHeader::Unknown);
        assert_eq!(file_header(b"SYD1\x01\0\0"), FileHeader::Unknown);
    }

    #[test]
    fn entries_that_lie_about_themselves_are_refused() {
        assert_eq!(split_entry(b"\x04one"), None);
        assert_eq!(split_entry(b"\x02\xc3\x28"), None);
        assert_eq!(
            split_entry(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"),
            None
        );
        assert_eq!(split_entry(b""), None);
        assert_eq!(split_entry(b"\0rest"), Some(("", &b"rest"[..])));
    }
}
