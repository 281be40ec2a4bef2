//! Which entries are in the journal: an entry is skipped only if the chain holds, at the FSN of its
//! stamp, a frame of the same CRC and length.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::collections::BTreeSet;
use std::path::Path;

use super::walk::Stamp;
use crate::error::Error;
use crate::io::{Fs, OpenMode};
use crate::slot::frame::{FRAME_HEADER_BYTES, FRAME_HEADER_LEN, FrameHeader};
use crate::slot::segment::HEADER_BYTES;
use crate::slot::window::Window;
use crate::slot::{OpenedSegment, OpenedSlot};

/// The stamps of `wanted` whose frames are in the chain. Reads the heads of the frames of those
/// segments that may hold one, which recovery has just checked.
pub(super) fn proven(
    fs: &dyn Fs,
    slot: &OpenedSlot,
    wanted: &BTreeSet<Stamp>,
) -> Result<BTreeSet<Stamp>, Error> {
    let mut found = BTreeSet::new();
    let mut buffer = Vec::new();
    for segment in &slot.segments {
        let end = segment.base.plus(segment.frames);
        let from = |fsn| Stamp {
            fsn,
            crc: 0,
            payload_len: 0,
        };
        let range = from(segment.base.0)..from(end.0);
        let Some(last) = wanted.range(range.clone()).next_back() else {
            continue;
        };
        let path = slot.dir.join(&segment.name);
        let mut frames = Frames::new(fs, &path, segment);
        let read = frames.read(&mut buffer, last.fsn, |frame| {
            if wanted.contains(&frame) {
                found.insert(frame);
            }
        });
        read.map_err(|source| Error::disk("read", &path, 0, source))?;
    }
    Ok(found)
}

/// The heads of a segment's frames.
struct Frames<'a> {
    fs: &'a dyn Fs,
    path: &'a Path,
    segment: &'a OpenedSegment,
}

impl<'a> Frames<'a> {
    fn new(fs: &'a dyn Fs, path: &'a Path, segment: &'a OpenedSegment) -> Self {
        Self { fs, path, segment }
    }

    /// Shows all frames up to the one with number `last`.
    fn read(
        &mut self,
        buffer: &mut Vec<u8>,
        last: u64,
        mut show: impl FnMut(Stamp),
    ) -> std::io::Result<()> {
        let file = self.fs.open(self.path, OpenMode::Read)?;
        let mut window = Window::new(self.fs, &file, buffer);
        let mut at = HEADER_BYTES;
        for index in 0..self.segment.frames {
            let fsn = self.segment.base.plus(index).0;
            if fsn > last || at >= self.segment.end {
                break;
            }
            let head = window.get(at, FRAME_HEADER_LEN)?;
            let Some(header) = FrameHeader::parse(head) else {
                break;
            };
            show(Stamp {
                fsn,
                crc: header.crc,
                payload_len: header.payload_len,
            });
            at += FRAME_HEADER_BYTES + u64::from(header.payload_len);
        }
        Ok(())
    }
}
