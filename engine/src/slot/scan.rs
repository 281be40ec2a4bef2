//! One pass over a segment file: header, frames, end of data, and what lies beyond
//! (slot-format.md sections 2.3 and 2.4).
//!
//! The first frame whose length is impossible or whose CRC does not hold is the end of data; there
//! is no resynchronisation. The whole rest of the file is then inspected for non-zero bytes: a
//! frame planted there would otherwise be adopted once appends reach its border. Lengths from disk
//! are only compared, never allocated. Every byte is asked for once, in order, so that it can be read
//! ahead; memory is two pieces at most, and the symbols of one long frame, whatever the file says.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::path::Path;

use super::fold::{self, DELTA_PREFIX_LEN};
use super::frame::{FRAME_HEADER_BYTES, FRAME_HEADER_LEN, FrameHeader, crc_of_length};
use super::pieces::{PIECE_BYTES, Pieces};
use super::segment::{HEADER_BYTES, HeaderError, SegmentHeader};
use super::tape::Tape;
use crate::error::Error;

/// Non-zero bytes behind the end of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Residue {
    /// Offset of the first.
    pub first: u64,
    /// Offset of the last.
    pub last: u64,
}

/// A segment file and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scan {
    /// Its header.
    pub header: SegmentHeader,
    /// Valid frames.
    pub frames: u64,
    /// Where the next frame goes.
    pub end: u64,
    /// What lies between `end` and the end of the file, unless all is zero.
    pub residue: Option<Residue>,
    /// The frames up to the last one that commits.
    pub committed: Committed,
}

/// Frames of a segment up to and with the last that does not defer its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Committed {
    /// Their number.
    pub frames: u64,
    /// Offset behind the last of them.
    pub end: u64,
}

/// What a `*.sfa` file turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// A segment.
    Segment(Scan),
    /// Nothing but zeros: a crash between creation and the header.
    Blank,
    /// No segment of this format.
    Damaged(HeaderError),
}

/// A valid frame that the pass came by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenFrame<'a> {
    /// Position in the file's sequence of frames, from 0.
    pub index: u64,
    /// Offset of the frame in the file.
    pub offset: u64,
    /// Bytes of the whole payload.
    #[cfg_attr(
        not(any(test, feature = "internals")),
        allow(dead_code, reason = "for the tools, through `internals`")
    )]
    pub payload_len: u32,
    /// The payload, or as much of its start as may hold a symbol delta.
    pub payload: &'a [u8],
}

/// The two buffers of a recovery, reused from file to file.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    carry: Vec<u8>,
    long: Vec<u8>,
}

impl Scanner {
    /// Scans a file that is `size` bytes long, none of whose `pieces` was gone to, and shows every
    /// valid frame to `visit`.
    pub(crate) fn scan(
        &mut self,
        pieces: &mut dyn Pieces,
        path: &Path,
        size: u64,
        visit: &mut dyn FnMut(&SegmentHeader, SeenFrame<'_>),
    ) -> Result<Found, Error> {
        Pass {
            tape: Tape::new(pieces, &mut self.carry),
            long: &mut self.long,
            path,
            size,
            at: 0,
            passed: None,
        }
        .run(visit)
    }
}

struct Pass<'a> {
    tape: Tape<'a>,
    long: &'a mut Vec<u8>,
    path: &'a Path,
    size: u64,
    at: u64,
    /// A long frame at the current offset whose CRC did not hold: it was passed.
    passed: Option<Passed>,
}

/// The frames so far.
struct Seen {
    frames: u64,
    committed: Committed,
}

impl Seen {
    /// One more, which ends at `end`.
    fn count(&mut self, end: u64, deferred: bool) {
        self.frames += 1;
        if !deferred {
            let frames = self.frames;
            self.committed = Committed { frames, end };
        }
    }
}

/// What is known of bytes that the pass came by and that are no frame.
#[derive(Clone, Copy)]
struct Passed {
    residue: Residue,
    /// Offset behind them.
    end: u64,
}

impl Pass<'_> {
    fn run(
        &mut self,
        visit: &mut dyn FnMut(&SegmentHeader, SeenFrame<'_>),
    ) -> Result<Found, Error> {
        let header = match SegmentHeader::parse(self.tape.get(0, FIRST_LEN)?) {
            Ok(header) => header,
            Err(error) => {
                return Ok(match self.nonzero(0)? {
                    None => Found::Blank,
                    Some(_) => Found::Damaged(error),
                });
            }
        };
        self.at = HEADER_BYTES;
        let mut seen = Seen {
            frames: 0,
            committed: Committed {
                frames: 0,
                end: HEADER_BYTES,
            },
        };
        loop {
            self.frames_of_piece(&header, &mut seen, visit)?;
            let Some((head, deferred)) = self.frame(seen.frames, &header, visit)? else {
                break;
            };
            self.at += FRAME_HEADER_BYTES + u64::from(head.payload_len);
            seen.count(self.at, deferred);
        }
        Ok(Found::Segment(Scan {
            header,
            frames: seen.frames,
            end: self.at,
            residue: self.residue()?,
            committed: seen.committed,
        }))
    }

    /// Goes through the frames that lie as a whole in the piece at the current offset: most of
    /// them, one loop without a call between two small ones. Stops at anything else.
    fn frames_of_piece(
        &mut self,
        header: &SegmentHeader,
        seen: &mut Seen,
        visit: &mut dyn FnMut(&SegmentHeader, SeenFrame<'_>),
    ) -> Result<(), Error> {
        let left = self.size.saturating_sub(self.at);
        let mut rest = self.tape.stretch(self.at, left)?;
        while let Some(head) = FrameHeader::parse(rest)
            && let Some((frame, behind)) =
                rest.split_at_checked(FRAME_HEADER_LEN.saturating_add(head.payload_len as usize))
            && let Some(covered) = frame.get(CRC_LEN..)
            && let Some(payload) = frame.get(FRAME_HEADER_LEN..)
            && crc32c::crc32c(covered) == head.crc
        {
            visit(
                header,
                SeenFrame {
                    index: seen.frames,
                    offset: self.at,
                    payload_len: head.payload_len,
                    payload,
                },
            );
            self.at += frame.len() as u64;
            seen.count(self.at, fold::defers_commit(payload));
            rest = behind;
        }
        Ok(())
    }

    /// What lies between the end of data, the current offset, and the end of the file.
    fn residue(&mut self) -> Result<Option<Residue>, Error> {
        let Some(passed) = self.passed else {
            return self.nonzero(self.at);
        };
        let last = self.nonzero(passed.end)?.map(|behind| behind.last);
        Ok(Some(Residue {
            first: passed.residue.first,
            last: last.unwrap_or(passed.residue.last),
        }))
    }

    /// First and last non-zero byte from `from` to the end of the file.
    fn nonzero(&mut self, from: u64) -> Result<Option<Residue>, Error> {
        match self.tape.nonzero(from, self.size)? {
            (found, true) => Ok(found.map(|(first, last)| Residue { first, last })),
            (_, false) => Err(self.shorter()),
        }
    }

    /// The frame at the current offset, if a valid one is there, wherever it lies; and whether it
    /// leaves its commit to a later one.
    fn frame(
        &mut self,
        index: u64,
        header: &SegmentHeader,
        visit: &mut dyn FnMut(&SegmentHeader, SeenFrame<'_>),
    ) -> Result<Option<(FrameHeader, bool)>, Error> {
        let Some(head) = FrameHeader::parse(self.tape.get(self.at, FRAME_HEADER_LEN)?) else {
            return Ok(None);
        };
        // `at` and `size` are file offsets, the length is below 2^31: no overflow.
        if self.at + FRAME_HEADER_BYTES + u64::from(head.payload_len) > self.size {
            return Ok(None);
        }
        let payload_len = head.payload_len as usize;
        let offset = self.at;
        let payload = if FRAME_HEADER_LEN + payload_len <= PIECE_BYTES {
            let bytes = self.tape.get(self.at, FRAME_HEADER_LEN + payload_len)?;
            let payload = bytes.get(FRAME_HEADER_LEN..).unwrap_or_default();
            if payload.len() != payload_len {
                return Err(self.shorter());
            }
            if crc32c::crc32c_append(crc_of_length(head.payload_len), payload) != head.crc {
                return Ok(None);
            }
            payload
        } else {
            if !self.long_frame(head)? {
                return Ok(None);
            }
            self.long.as_slice()
        };
        let deferred = fold::defers_commit(payload);
        visit(
            header,
            SeenFrame {
                index,
                offset,
                payload_len: head.payload_len,
                payload,
            },
        );
        Ok(Some((head, deferred)))
    }

    /// Goes through the frame at the current offset, whose payload is longer than a piece. Keeps
    /// the start of the payload: all that a symbol delta can take, or a few bytes when there is
    /// none. Answers whether the CRC holds.
    fn long_frame(&mut self, head: FrameHeader) -> Result<bool, Error> {
        let mut at = self.at + FRAME_HEADER_BYTES;
        let end = at + u64::from(head.payload_len);
        let has_delta = fold::has_delta(self.tape.get(at, FIRST_LEN)?);
        let keep = if has_delta {
            (head.payload_len as usize).min(DELTA_PREFIX_LEN)
        } else {
            FIRST_LEN
        };
        let of_header = head.to_bytes();
        let nonzero = |byte: &u8| *byte != 0;
        // A header whose length is not zero has such bytes.
        let first = of_header.iter().position(nonzero).unwrap_or_default() as u64;
        let last = of_header.iter().rposition(nonzero).unwrap_or_default() as u64;
        let mut residue = Residue {
            first: self.at + first,
            last: self.at + last,
        };
        let mut crc = crc_of_length(head.payload_len);
        self.long.clear();
        while at < end {
            let bytes = self.tape.stretch(at, end - at)?;
            if bytes.is_empty() {
                return Err(self.shorter());
            }
            crc = crc32c::crc32c_append(crc, bytes);
            let wanted = keep.saturating_sub(self.long.len());
            self.long
                .extend_from_slice(bytes.get(..wanted).unwrap_or(bytes));
            if let Some(last) = bytes.iter().rposition(nonzero) {
                residue.last = at + last as u64;
            }
            at += bytes.len() as u64;
        }
        if crc != head.crc {
            self.passed = Some(Passed { residue, end });
            return Ok(false);
        }
        Ok(true)
    }

    /// The file is shorter than it was when its size was asked for.
    fn shorter(&self) -> Error {
        let source = std::io::ErrorKind::UnexpectedEof.into();
        Error::disk("read", self.path, self.at, source)
    }
}

/// Bytes of a frame's CRC, which covers all that follows it.
const CRC_LEN: usize = 4;
/// Enough for a segment header and for a message header, of which byte 5 holds the flags.
const FIRST_LEN: usize = 24;
