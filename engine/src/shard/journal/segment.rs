//! One segment of the chain: a file, and the part of it that is in memory.

use std::path::PathBuf;

use crate::fsn::Fsn;
use crate::io::{BLOCK, File, Region, SpareFile};
use crate::slot::OpenedSegment;
use crate::slot::frame::{FRAME_HEADER_LEN, FrameHeader};
use crate::slot::segment::HEADER_BYTES as SEGMENT_HEADER_BYTES;

/// A place between two frames of the chain: where a reader goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Key of the segment.
    pub(crate) key: u64,
    /// Offset of the next frame in it.
    pub(crate) offset: u64,
    /// FSN of the next frame.
    pub(crate) fsn: Fsn,
}

/// Frames `base..base+frames` at `24..end` of a file of `bytes`.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) name: String,
    /// `None` in memory mode, and once the segment is sealed, written and synced: then it is
    /// opened again only to be read.
    pub(crate) file: Option<File>,
    pub(crate) base: Fsn,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// Where the next frame goes.
    pub(crate) end: u64,
    /// Everything below is on disk.
    pub(crate) written: u64,
    pub(crate) created_micros: u64,
    /// The manifest names this segment: frames may be written to it.
    pub(crate) committed: bool,
    /// `memory` holds `memory_from..end`, at the same offsets as the file.
    pub(crate) memory: Option<Region>,
    pub(crate) memory_from: u64,
}

impl Segment {
    /// A recovered segment: everything on disk, nothing in memory.
    pub(super) fn opened(opened: OpenedSegment) -> Self {
        Self {
            name: opened.name,
            file: opened.file,
            base: opened.base,
            frames: opened.frames,
            bytes: opened.bytes,
            end: opened.end,
            written: opened.end,
            created_micros: opened.created_micros,
            committed: true,
            memory: None,
            memory_from: opened.end,
        }
    }

    /// A spare that becomes the active segment.
    pub(super) fn promoted(spare: SpareFile, base: Fsn, region: Region) -> Self {
        Self {
            name: spare.name,
            file: Some(spare.file),
            committed: false,
            created_micros: spare.created_micros,
            ..Self::in_memory(base, spare.bytes, region)
        }
    }

    /// A segment without a file.
    pub(super) fn in_memory(base: Fsn, bytes: u64, region: Region) -> Self {
        Self {
            name: String::new(),
            file: None,
            base,
            frames: 0,
            bytes,
            end: SEGMENT_HEADER_BYTES,
            written: SEGMENT_HEADER_BYTES,
            created_micros: 0,
            committed: true,
            memory: Some(region),
            memory_from: SEGMENT_HEADER_BYTES,
        }
    }

    /// Makes a recovered active segment appendable: `tail` is what its last partial block holds.
    /// Example: end 10,000 -> the block starts at 8,192 and `tail` is the 1,808 bytes from there.
    pub(super) fn resume(&mut self, mut region: Region, tail: &[u8]) {
        let block = self.end - self.end % BLOCK as u64;
        let (from, to) = (offset(block), offset(self.end));
        assert_eq!(
            tail.len(),
            to - from,
            "the opener reads the last partial block"
        );
        region.slice_mut(from..to).copy_from_slice(tail);
        self.memory_from = self.end;
        self.memory = Some(region);
    }

    /// First FSN behind this segment.
    pub(crate) fn next(&self) -> Fsn {
        self.base.plus(self.frames)
    }

    /// Bytes of memory behind `memory`, 0 without.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory
            .as_ref()
            .map_or(0, |region| region.bytes() as u64)
    }
}

/// The payload of the first of these frames, and what lies behind it.
#[inline]
pub(crate) fn first_frame(frames: &[u8]) -> Option<(&[u8], &[u8])> {
    let header = FrameHeader::parse(frames)?;
    let behind = frames.get(FRAME_HEADER_LEN..)?;
    behind.split_at_checked(header.payload_len as usize)
}

/// A file offset as an index into memory.
pub(super) fn offset(value: u64) -> usize {
    usize::try_from(value).expect("segments are at most 1 GiB")
}

impl super::Journal {
    /// File name of a segment, for messages.
    pub(crate) fn segment_name(&self, key: u64) -> &str {
        self.segment(key)
            .map_or("(trimmed)", |segment| segment.name.as_str())
    }

    /// Where the part of a segment that must be read from disk ends; `None` if it is gone.
    pub(crate) fn disk_end(&self, key: u64) -> Option<u64> {
        let segment = self.segment(key)?;
        let in_memory = segment.memory.is_some();
        Some(if in_memory {
            segment.memory_from
        } else {
            segment.written
        })
    }

    /// The file of a segment if the journal has it open.
    pub(crate) fn open_file(&self, key: u64) -> Option<File> {
        self.segment(key)?.file.clone()
    }

    /// Where the file of a segment lies.
    pub(crate) fn path_of(&self, key: u64) -> Option<PathBuf> {
        Some(self.files.as_ref()?.dir.join(&self.segment(key)?.name))
    }

    /// Whether the first frame of a segment must be read from disk.
    pub(crate) fn starts_on_disk(&self, key: u64) -> bool {
        self.disk_end(key) > Some(SEGMENT_HEADER_BYTES)
    }

    /// Everything of a segment from `position` on, frame after frame, if it is in the segment's
    /// memory.
    pub(crate) fn memory_from(&self, position: Position) -> Option<&[u8]> {
        let segment = self.segment(position.key)?;
        let region = segment
            .memory
            .as_ref()
            .filter(|_| position.offset >= segment.memory_from)?;
        Some(region.slice(offset(position.offset)..offset(segment.end)))
    }

    /// The frame at `position`, if it is in the segment's memory. `position` lies before the
    /// segment's end.
    pub(crate) fn in_memory(&self, position: Position) -> Option<&[u8]> {
        let (payload, _) = first_frame(self.memory_from(position)?)?;
        Some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::first_frame;

    #[test]
    fn frames_are_split_where_their_headers_say() {
        let bytes = b"....\x03\0\0\0abc....\x02\0\0\0de";
        let (first, behind) = first_frame(bytes).expect("a frame");
        assert_eq!(first, b"abc");
        assert_eq!(first_frame(behind), Some((&b"de"[..], &b""[..])));
        assert_eq!(first_frame(b""), None);
        assert_eq!(first_frame(&bytes[..10]), None);
    }
}
