//! A piece of a segment on its way into memory: whole blocks, read in one operation unless the
//! kernel stops short.

use std::ops::Range;

use super::PIECE_BYTES;
use crate::io::BLOCK;

/// Where a piece stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// To be submitted as soon as the file is open and the queue has room.
    Wanted,
    /// With the kernel.
    Reading,
    /// All of it is in memory.
    Ready,
    /// It cannot be had: why, and whether that is damage.
    Failed(String, bool),
}

/// Bytes `start..start + data` of a segment.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) state: State,
    pub(super) key: u64,
    /// A whole number of blocks.
    pub(super) start: u64,
    /// Bytes of it that hold frames: fewer than [`PIECE_BYTES`] only where the data end.
    pub(super) data: usize,
    /// Whole blocks that are in memory.
    got: usize,
    /// How far the last read came, if it came too short.
    reached: Option<usize>,
    /// The kernel fills the memory. Outlives the wish for it.
    pub(super) is_pinned: bool,
}

impl Piece {
    /// Memory that is free.
    pub(super) fn free() -> Self {
        Self {
            state: State::Ready,
            key: 0,
            start: 0,
            data: 0,
            got: 0,
            reached: None,
            is_pinned: false,
        }
    }

    /// Aims at the data of segment `key` from `start` on, which end at `end`.
    pub(super) fn aim(&mut self, key: u64, start: u64, end: u64) {
        assert!(!self.is_pinned, "memory that the kernel fills is not free");
        let left = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        *self = Self {
            state: State::Wanted,
            key,
            start,
            data: left.min(PIECE_BYTES),
            ..Self::free()
        };
    }

    /// What is to be read: the place in the file, and where that goes in the piece's memory.
    pub(super) fn rest(&self) -> (u64, Range<usize>) {
        let range = self.got..self.data.next_multiple_of(BLOCK);
        (self.start + self.got as u64, range)
    }

    /// Offset in the file behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.start + self.data as u64
    }

    /// Whether more of the same segment follows, as far as was known when this was aimed.
    pub(super) fn is_full(&self) -> bool {
        self.data == PIECE_BYTES
    }

    /// Whether it holds, or will hold, the byte at `offset` of segment `key`.
    pub(super) fn covers(&self, key: u64, offset: u64) -> bool {
        self.key == key && (self.start..self.end()).contains(&offset)
    }

    /// A read brought `bytes` more.
    pub(super) fn read(&mut self, bytes: u32) {
        let reached = self.got + bytes as usize;
        if reached >= self.data {
            self.state = State::Ready;
            return;
        }
        // The kernel stopped short, or the file is shorter than its data: the second time that a
        // read gets no further it is the latter.
        if self.reached.replace(reached) >= Some(reached) {
            let (limit, end) = (self.start + reached as u64, self.end());
            self.state = State::Failed(
                format!(
                    "the file of a segment ends at offset {limit}, where its data go on to {end}"
                ),
                true,
            );
            return;
        }
        self.got = reached - reached % BLOCK;
        self.state = State::Wanted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aimed(end: u64) -> Piece {
        let mut piece = Piece::free();
        piece.aim(3, 8192, end);
        piece
    }

    #[test]
    fn a_piece_ends_where_the_data_end_and_is_read_in_whole_blocks() {
        let piece = aimed(8192 + 5000);
        assert_eq!((piece.data, piece.is_full()), (5000, false));
        assert_eq!(piece.rest(), (8192, 0..8192));
        assert!(piece.covers(3, 8192) && piece.covers(3, 13_191));
        assert!(!piece.covers(3, 13_192) && !piece.covers(4, 8192));
        assert!(aimed(u64::MAX).is_full());
    }

    #[test]
    fn a_short_read_goes_on_at_its_last_whole_block() {
        let mut piece = aimed(8192 + 20_000);
        piece.read(9000);
        assert_eq!(piece.state, State::Wanted);
        assert_eq!(piece.rest(), (8192 + 8192, 8192..20_480));
        piece.read(20_000 - 8192);
        assert_eq!(piece.state, State::Ready);
    }

    #[test]
    fn a_file_that_ends_before_its_data_is_damage() {
        let mut piece = aimed(8192 + 20_000);
        piece.read(9000);
        piece.read(9000 - 8192);
        let State::Failed(reason, is_damage) = &piece.state else {
            panic!("{piece:?}");
        };
        assert!(is_damage);
        assert!(reason.contains("ends at offset 17192"), "{reason}");
    }
}
