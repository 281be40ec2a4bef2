//! Appending: room in the active segment, and the frame that goes there.

use super::segment::{Segment, offset};
use super::{Journal, Position};
use crate::fsn::Fsn;
use crate::io::{BLOCK, Io};
use crate::slot::Dictionary;
use crate::slot::frame::{FRAME_HEADER_BYTES, FrameHeader, seal};
use crate::slot::segment::HEADER_BYTES as SEGMENT_HEADER_BYTES;

/// Why no frame can be appended right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stall {
    /// `sf_max_total_bytes` is used up: waits for acknowledgements.
    Full,
    /// The previous rotation or the next spare is not ready yet.
    Rotation,
    /// The dictionary takes no more symbols: waits until everything is acked.
    Symbols,
    /// A new dictionary epoch is about to begin.
    Epoch,
    /// A disk operation failed earlier.
    Poisoned,
}

impl Journal {
    /// Makes sure that a frame with a payload of up to `payload_bytes` fits the active segment,
    /// rotating if it must.
    #[inline]
    pub(crate) fn make_room(
        &mut self,
        io: &mut impl Io,
        payload_bytes: usize,
        sent: Position,
    ) -> Result<(), Stall> {
        if self.poisoned.is_some() {
            return Err(Stall::Poisoned);
        }
        let need = FRAME_HEADER_BYTES + payload_bytes as u64;
        let active = self.active();
        // A foreign file may end inside a block: that block is never written, the file never grows.
        if active.end + need <= active.bytes - active.bytes % BLOCK as u64 {
            return Ok(());
        }
        self.make_segment(io, need, sent)
    }

    /// Room for `need` bytes in another segment.
    #[cold]
    fn make_segment(&mut self, io: &mut impl Io, need: u64, sent: Position) -> Result<(), Stall> {
        assert!(
            need + SEGMENT_HEADER_BYTES <= self.options.segment_bytes,
            "producers split or refuse what cannot fit a segment"
        );
        self.rotate(io, sent)
    }

    /// Writable memory for the payload of the next frame, and the dictionary to fill it from.
    #[inline]
    pub(crate) fn payload_mut(&mut self, payload_bytes: usize) -> (&mut [u8], &Dictionary) {
        let active = self.chain.back_mut().expect("the chain is never empty");
        let start = offset(active.end + FRAME_HEADER_BYTES);
        let region = active
            .memory
            .as_mut()
            .expect("the active segment is in memory");
        (
            region.slice_mut(start..start + payload_bytes),
            &self.dictionary,
        )
    }

    /// Seals the frame whose payload was put into [`payload_mut`](Self::payload_mut): its FSN is
    /// burned from now on.
    #[inline]
    pub(crate) fn append(&mut self, payload_bytes: usize) -> (Fsn, FrameHeader) {
        let active = self.active();
        let frame_bytes = FRAME_HEADER_BYTES + payload_bytes as u64;
        let (start, end) = (offset(active.end), offset(active.end + frame_bytes));
        let region = active
            .memory
            .as_mut()
            .expect("the active segment is in memory");
        let sealed = seal(region.slice_mut(start..end));
        let frame_header = sealed.expect("frames have a payload of at most 16 MiB");
        active.end += frame_bytes;
        active.frames += 1;
        let fsn = self.published;
        self.published = fsn.plus(1);
        let counters = &self.gate.counters;
        counters.frames_published.add(1);
        counters.bytes_published.add(frame_bytes);
        (fsn, frame_header)
    }

    /// Notes the dictionary entries `from..to` that the frame just appended introduces: they are
    /// written before it, as one chunk.
    #[inline]
    pub(crate) fn note_symbols(&mut self, from: u32, to: u32) {
        if from < to {
            self.note_new_symbols(from, to);
        }
    }

    #[cold]
    fn note_new_symbols(&mut self, from: u32, to: u32) {
        let Some(files) = self.files.as_mut() else {
            return;
        };
        let before = self.dictionary_pending.len();
        self.dictionary
            .chunk(from, to, &mut self.dictionary_pending);
        files.dictionary_due += (self.dictionary_pending.len() - before) as u64;
    }

    /// Where a reader of everything from `fsn` on starts; `None` if `fsn` lies inside a segment
    /// whose frames are not all in memory: then the caller walks from the segment's start.
    pub(crate) fn start_of(&self, fsn: Fsn) -> Position {
        let index = self
            .chain
            .iter()
            .rposition(|segment| segment.base <= fsn)
            .expect("the chain starts at or below every unacked frame");
        let segment = &self.chain[index];
        let key = self.first_key + index as u64;
        if fsn >= segment.next() {
            return Position {
                key,
                offset: segment.end,
                fsn: segment.next(),
            };
        }
        Position {
            key,
            offset: SEGMENT_HEADER_BYTES,
            fsn: segment.base,
        }
    }

    /// The segment at `position`, moving on to the next one where it ends.
    pub(crate) fn read_at(&self, position: &mut Position) -> Option<&Segment> {
        if position.key < self.first_key {
            // The reader stood at the end of a segment that was trimmed meanwhile.
            *position = self.start_of(position.fsn);
        }
        loop {
            let segment = self.segment(position.key)?;
            if position.offset < segment.end {
                return Some(segment);
            }
            if position.key + 1 >= self.first_key + self.chain.len() as u64 {
                return None;
            }
            position.key += 1;
            position.offset = SEGMENT_HEADER_BYTES;
        }
    }
}
