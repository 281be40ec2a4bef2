//! A forward look over the pieces of a file, whatever lies across their borders.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use super::pieces::Pieces;
use crate::error::Error;

/// A view that moves forward over a file: a caller asks for offsets that never go back behind the
/// start of what it was given last. Only what lies across the border of two pieces is copied.
pub(super) struct Tape<'a> {
    pieces: &'a mut dyn Pieces,
    /// Offset in the file of the piece's first byte.
    start: u64,
    /// Bytes that begin before the piece and may reach into it.
    carry: &'a mut Vec<u8>,
    carry_start: u64,
    /// The piece is the file's last, and empty.
    ended: bool,
}

impl<'a> Tape<'a> {
    /// At the start of a file none of whose pieces was gone to.
    pub(super) fn new(pieces: &'a mut dyn Pieces, carry: &'a mut Vec<u8>) -> Self {
        carry.clear();
        Self {
            pieces,
            start: 0,
            carry,
            carry_start: 0,
            ended: false,
        }
    }

    /// The `want` bytes from `offset`, or fewer where the file ends.
    pub(super) fn get(&mut self, offset: u64, want: usize) -> Result<&[u8], Error> {
        let end = offset.saturating_add(want as u64);
        if offset >= self.start {
            while !self.ended && offset >= self.piece_end() {
                self.advance()?;
            }
            if self.ended || end <= self.piece_end() {
                return Ok(self.in_piece(offset, want));
            }
            self.carry.clear();
            self.carry_start = offset;
        }
        while let at = self.carry_end()
            && at < end
            && !self.ended
        {
            if at == self.piece_end() {
                self.advance()?;
                continue;
            }
            let skip = index(at.saturating_sub(self.start));
            let more = index(end.saturating_sub(at));
            let piece = self.pieces.piece().get(skip..).unwrap_or_default();
            let more = piece.get(..more).unwrap_or(piece);
            self.carry.extend_from_slice(more);
        }
        let skip = index(offset.saturating_sub(self.carry_start));
        let rest = self.carry.get(skip..).unwrap_or_default();
        Ok(rest.get(..want).unwrap_or(rest))
    }

    /// The bytes from `offset` that need no copying, at most `most`, at least one unless the file
    /// ends there.
    pub(super) fn stretch(&mut self, offset: u64, most: u64) -> Result<&[u8], Error> {
        if offset < self.start {
            let most = most.min(self.start.saturating_sub(offset));
            return self.get(offset, index(most));
        }
        while !self.ended && offset >= self.piece_end() {
            self.advance()?;
        }
        Ok(self.in_piece(offset, index(most)))
    }

    /// First and last non-zero byte of `from..to`, if any; `false` where the file ends before `to`.
    pub(super) fn nonzero(
        &mut self,
        from: u64,
        to: u64,
    ) -> Result<(Option<(u64, u64)>, bool), Error> {
        let mut found: Option<(u64, u64)> = None;
        let mut at = from;
        while at < to {
            let bytes = self.stretch(at, to.saturating_sub(at))?;
            if bytes.is_empty() {
                return Ok((found, false));
            }
            // One pass that the compiler vectorises; positions only where something is found.
            if bytes.iter().fold(0, |all, byte| all | byte) != 0 {
                let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
                let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
                let first = found.map_or(at.saturating_add(first as u64), |(first, _)| first);
                found = Some((first, at.saturating_add(last as u64)));
            }
            at = at.saturating_add(bytes.len() as u64);
        }
        Ok((found, true))
    }

    fn in_piece(&self, offset: u64, want: usize) -> &[u8] {
        let skip = index(offset.saturating_sub(self.start));
        let rest = self.pieces.piece().get(skip..).unwrap_or_default();
        rest.get(..want).unwrap_or(rest)
    }

    fn piece_end(&self) -> u64 {
        self.start.saturating_add(self.pieces.piece().len() as u64)
    }

    fn carry_end(&self) -> u64 {
        self.carry_start.saturating_add(self.carry.len() as u64)
    }

    fn advance(&mut self) -> Result<(), Error> {
        self.start = self.piece_end();
        self.pieces.advance()?;
        self.ended = self.pieces.piece().is_empty();
        Ok(())
    }
}

/// A distance inside what is held; more than memory can hold is as good as all of it.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
