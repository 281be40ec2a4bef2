//! One pass over a segment file: header, frames, end of data, and what lies beyond
//! (slot-format.md sections 2.3 and 2.4).
//!
//! The first frame whose length is impossible or whose CRC does not hold is the end of data; there
//! is no resynchronisation. The whole rest of the file is then inspected for non-zero bytes: a
//! frame planted there would otherwise be adopted once appends reach its border. Lengths from disk
//! are only compared, never allocated: memory is one window, whatever the file says.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::io;
use std::path::Path;

use super::fold::{self, DELTA_PREFIX_LEN};
use super::frame::{FRAME_HEADER_BYTES, FRAME_HEADER_LEN, FrameHeader, crc_of_length};
use super::segment::{HEADER_BYTES, HeaderError, SegmentHeader};
use super::window::{WINDOW_LEN, Window};
use crate::error::Error;
use crate::io::{File, Fs};

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
    window: Vec<u8>,
    long: Vec<u8>,
}

impl Scanner {
    /// Scans `file`, which is `size` bytes long, and shows every valid frame to `visit`.
    pub(crate) fn scan(
        &mut self,
        fs: &dyn Fs,
        file: &File,
        path: &Path,
        size: u64,
        visit: &mut dyn FnMut(&SegmentHeader, SeenFrame<'_>),
    ) -> Result<Found, Error> {
        let mut pass = Pass {
            window: Window::new(fs, file, &mut self.window),
            long: &mut self.long,
            size,
            at: 0,
            deferred: false,
        };
        pass.run(visit)
            .map_err(|source| Error::disk("read", path, pass.at, source))
    }
}

struct Pass<'a> {
    window: Window<'a>,
    long: &'a mut Vec<u8>,
    size: u64,
    at: u64,
    /// Whether the frame seen last leaves its commit to a later one.
    deferred: bool,
}

impl Pass<'_> {
    fn run(&mut self, visit: &mut dyn FnMut(&SegmentHeader, SeenFrame<'_>)) -> io::Result<Found> {
        let header = match SegmentHeader::parse(self.window.get(0, FIRST_LEN)?) {
            Ok(header) => header,
            Err(error) => {
                return Ok(match self.window.nonzero(0, self.size)? {
                    None => Found::Blank,
                    Some(_) => Found::Damaged(error),
                });
            }
        };
        self.at = HEADER_BYTES;
        let mut frames = 0;
        let mut committed = Committed {
            frames: 0,
            end: HEADER_BYTES,
        };
        while let Some(frame) = self.frame(frames, &header, visit)? {
            self.at += FRAME_HEADER_BYTES + u64::from(frame.payload_len);
            frames += 1;
            if !self.deferred {
                let end = self.at;
                committed = Committed { frames, end };
            }
        }
        let end = self.at;
        let residue = self.window.nonzero(end, self.size)?;
        let residue = residue.map(|(first, last)| Residue { first, last });
        Ok(Found::Segment(Scan {
            header,
            frames,
            end,
            residue,
            committed,
        }))
    }

    /// The frame at the current offset, if a valid one is there.
    fn frame(
        &mut self,
        index: u64,
        header: &SegmentHeader,
        visit: &mut dyn FnMut(&SegmentHeader, SeenFrame<'_>),
    ) -> io::Result<Option<FrameHeader>> {
        let Some(head) = FrameHeader::parse(self.window.get(self.at, FRAME_HEADER_LEN)?) else {
            return Ok(None);
        };
        // `at` and `size` are file offsets, the length is below 2^31: no overflow.
        if self.at + FRAME_HEADER_BYTES + u64::from(head.payload_len) > self.size {
            return Ok(None);
        }
        let payload_len = head.payload_len as usize;
        let offset = self.at;
        let payload = if FRAME_HEADER_LEN + payload_len <= WINDOW_LEN {
            let bytes = self.window.get(self.at, FRAME_HEADER_LEN + payload_len)?;
            let Some(payload) = bytes
                .get(FRAME_HEADER_LEN..)
                .filter(|p| p.len() == payload_len)
            else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            if crc32c::crc32c_append(crc_of_length(head.payload_len), payload) != head.crc {
                return Ok(None);
            }
            payload
        } else {
            if self.long_crc(head)? != head.crc {
                return Ok(None);
            }
            self.long_prefix(payload_len)?
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
        self.deferred = deferred;
        Ok(Some(head))
    }

    /// CRC of the frame at the current offset, whose payload does not fit the window.
    fn long_crc(&mut self, head: FrameHeader) -> io::Result<u32> {
        let mut crc = crc_of_length(head.payload_len);
        let mut at = self.at + FRAME_HEADER_BYTES;
        let end = at + u64::from(head.payload_len);
        while at < end {
            let want = usize::try_from(end - at).map_or(WINDOW_LEN, |left| left.min(WINDOW_LEN));
            let bytes = self.window.get(at, want)?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            crc = crc32c::crc32c_append(crc, bytes);
            at += bytes.len() as u64;
        }
        Ok(crc)
    }

    /// The start of a long payload: all that a symbol delta can take, or a few bytes when there is
    /// none.
    fn long_prefix(&mut self, payload_len: usize) -> io::Result<&[u8]> {
        let start = self.at + FRAME_HEADER_BYTES;
        self.long.clear();
        self.long
            .extend_from_slice(self.window.get(start, FIRST_LEN)?);
        if fold::has_delta(self.long) {
            let end = start + payload_len.min(DELTA_PREFIX_LEN) as u64;
            while let at = start + self.long.len() as u64
                && at < end
            {
                let want = usize::try_from(end - at)
                    .unwrap_or(WINDOW_LEN)
                    .min(WINDOW_LEN);
                let bytes = self.window.get(at, want)?;
                if bytes.is_empty() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.long.extend_from_slice(bytes);
            }
        }
        Ok(self.long)
    }
}

/// Enough for a segment header and for a message header, of which byte 5 holds the flags.
const FIRST_LEN: usize = 24;
