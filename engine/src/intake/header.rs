//! The header of a ring's file.
//!
//! ```text
//! 0    magic "FBINTAKE"
//! 8    version u32 (1)
//! 12   shard u32
//! 16   number u64      of the ring, as in its name
//! 24   capacity u64    bytes of the buffer; the file has 4,096 more
//! 32   id 16 bytes     of the slot's intake (`.intake-id`)
//! 48   boot 36 bytes   id of the kernel's boot, as text
//! 84   zero
//! 124  crc u32         CRC-32C of bytes 0..124
//! 128  head u64        cursors: router/region.rs
//! 256  tail u64
//! ```

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

use crate::router::region::{FRONT_BYTES, HEAD_AT, TAIL_AT};
use crate::router::ring::head::HEAD_BYTES;

const MAGIC: &[u8; 8] = b"FBINTAKE";
const VERSION: u32 = 1;
const COVERED: usize = 124;
/// Bytes of the header without the cursors.
pub(super) const HEADER_LEN: usize = 128;
const BOOT_LEN: usize = 36;
/// Smallest and largest buffer.
pub(super) const CAPACITY_MIN: u64 = 4096;
pub(super) const CAPACITY_MAX: u64 = 1 << 30;

/// Names a slot's intake: 16 random bytes.
pub(crate) type IntakeId = [u8; 16];

/// What the header of a ring's file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// Which shard the ring leads to.
    pub(crate) shard: u32,
    /// Number of the ring.
    pub(crate) number: u64,
    /// Bytes of the buffer.
    pub(crate) capacity: u64,
    /// The slot's intake.
    pub(crate) id: IntakeId,
    /// The boot of the process that made it; empty if it could not be learned.
    pub(crate) boot: String,
}

/// Why a file is no ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadHeader {
    /// Shorter than a header.
    #[error("it is too short for a header")]
    Short,
    /// Another kind of file.
    #[error("it does not begin with FBINTAKE")]
    Magic,
    /// A later version of the format.
    #[error("its version is {0}, this program knows 1")]
    Version(u32),
    /// The header is damaged.
    #[error("the CRC of its header does not hold")]
    Crc,
    /// The capacity is none, or not that of the file.
    #[error("its capacity does not fit its size")]
    Size,
    /// The cursors contradict each other.
    #[error("its cursors contradict each other")]
    Cursors,
}

/// Where the entries that count begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursors {
    /// Everything below is written to the journal.
    pub(crate) head: u64,
    /// Everything below was accepted.
    pub(crate) tail: u64,
}

impl FileHeader {
    /// The front of a new ring's file.
    pub(crate) fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let boot = self.boot.as_bytes();
        let boot = boot.get(..BOOT_LEN).unwrap_or(boot);
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.shard.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.capacity.to_le_bytes());
        out.extend_from_slice(&self.id);
        out.extend_from_slice(boot);
        out.resize(COVERED, 0);
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.try_into().expect("as long as a header")
    }

    /// Reads the front of a file that is `file_bytes` long.
    pub(crate) fn parse(front: &[u8], file_bytes: u64) -> Result<Self, BadHeader> {
        let header = front.get(..HEADER_LEN).ok_or(BadHeader::Short)?;
        if !header.starts_with(MAGIC) {
            return Err(BadHeader::Magic);
        }
        let covered = header.get(..COVERED).ok_or(BadHeader::Short)?;
        if u32_at(header, COVERED) != Some(crc32c::crc32c(covered)) {
            return Err(BadHeader::Crc);
        }
        match u32_at(header, 8) {
            Some(VERSION) => {}
            other => return Err(BadHeader::Version(other.unwrap_or_default())),
        }
        let capacity = u64_at(header, 24).ok_or(BadHeader::Short)?;
        let sized = capacity.is_power_of_two()
            && (CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity)
            && capacity.checked_add(FRONT_BYTES as u64) == Some(file_bytes);
        if !sized {
            return Err(BadHeader::Size);
        }
        let boot = header.get(48..84).ok_or(BadHeader::Short)?;
        let boot = String::from_utf8_lossy(boot);
        Ok(Self {
            shard: u32_at(header, 12).ok_or(BadHeader::Short)?,
            number: u64_at(header, 16).ok_or(BadHeader::Short)?,
            capacity,
            id: *header
                .get(32..)
                .and_then(<[u8]>::first_chunk)
                .ok_or(BadHeader::Short)?,
            boot: boot.trim_end_matches('\0').to_owned(),
        })
    }

    /// The cursors in the front of the file.
    pub(crate) fn cursors(&self, front: &[u8]) -> Result<Cursors, BadHeader> {
        let head = u64_at(front, HEAD_AT).ok_or(BadHeader::Short)?;
        let tail = u64_at(front, TAIL_AT).ok_or(BadHeader::Short)?;
        let whole = |position: u64| position.is_multiple_of(HEAD_BYTES as u64);
        let used = tail.checked_sub(head).ok_or(BadHeader::Cursors)?;
        // Far from where positions would end: sums of them and a capacity do not overflow.
        if used > self.capacity || !whole(head) || !whole(tail) || tail > u64::MAX / 2 {
            return Err(BadHeader::Cursors);
        }
        Ok(Cursors { head, tail })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
