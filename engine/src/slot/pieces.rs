//! Reading segment files piece by piece, each byte once and in order.
//!
//! A piece comes through the page cache where that holds it already, which is the case in a slot
//! that its owner left a moment ago, and else around it: a backlog is read once, fills no cache,
//! and a large direct read is as fast as the disk (docs/decisions/0007).

use std::path::Path;

use super::takeover::Peeked;
use crate::error::Error;
use crate::io::{BLOCK, File, Fs, OpenMode, Region};

/// Bytes of a piece that the caller reads; the last of a file is shorter.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// The bytes of one file, piece by piece.
pub(crate) trait Pieces {
    /// Goes on to the file's next piece, which is empty at the end of the file.
    fn advance(&mut self) -> Result<(), Error>;
    /// The piece gone to last. Empty before the first.
    fn piece(&self) -> &[u8];
}

/// Reads the pieces of one file after the other, into memory that the caller has: all of them, or
/// every nth.
pub(super) struct SegmentReader<'a> {
    fs: &'a dyn Fs,
    dir: &'a Path,
    /// Pieces of other readers before this one's next.
    others: usize,
    readers: usize,
    /// The files to be read; the first is being read.
    segments: &'a [Peeked],
    offset: u64,
    open: Option<Handles>,
}

struct Handles {
    buffered: File,
    direct: Direct,
}

/// A second descriptor of the same file.
enum Direct {
    Untried,
    Open(File),
    /// The filesystem, or this file on it, has no such reads.
    Unusable,
}

impl<'a> SegmentReader<'a> {
    /// Number `reader` of `readers` that take turns, all with the same memory for a piece.
    pub(super) fn new(
        fs: &'a dyn Fs,
        dir: &'a Path,
        segments: &'a [Peeked],
        reader: usize,
        readers: usize,
    ) -> Self {
        Self {
            fs,
            dir,
            others: reader,
            readers,
            segments,
            offset: 0,
            open: None,
        }
    }

    /// Reads the next piece, as much as `into` has room for, and answers its length; `None` behind
    /// the last file.
    pub(super) fn read(&mut self, into: &mut Region) -> Option<Result<usize, Error>> {
        loop {
            let (segment, rest) = self.segments.split_first()?;
            let left = segment.bytes.saturating_sub(self.offset);
            if left == 0 {
                self.segments = rest;
                self.offset = 0;
                self.open = None;
                continue;
            }
            let room = into.bytes();
            let len = usize::try_from(left).map_or(room, |left| left.min(room));
            let mine = self.others == 0;
            let read = mine.then(|| self.piece(segment, len, into).map(|()| len));
            self.offset += len as u64;
            match read {
                None => self.others -= 1,
                Some(read) => {
                    self.others = self.readers - 1;
                    return Some(read);
                }
            }
        }
    }

    fn piece(&mut self, segment: &Peeked, len: usize, into: &mut Region) -> Result<(), Error> {
        let path = || self.dir.join(&segment.name);
        let (fs, offset) = (self.fs, self.offset);
        if self.open.is_none() {
            let opened = fs.open(&path(), OpenMode::Read);
            self.open = Some(Handles {
                buffered: opened.map_err(|source| Error::disk("open", &path(), 0, source))?,
                direct: Direct::Untried,
            });
        }
        let Some(handles) = &mut self.open else {
            return Ok(());
        };
        // The middle stands for the whole. The start was looked at before the scan.
        let cached = fs.is_cached(&handles.buffered, offset + len as u64 / 2);
        let done = match handles.direct(fs, &path, cached) {
            Some(file) => {
                let whole = len.next_multiple_of(BLOCK);
                fs.read_direct(&file, into.slice_mut(0..whole), offset)
                    .or_else(|error| match error.raw_os_error() {
                        Some(libc::EINVAL) => {
                            handles.direct = Direct::Unusable;
                            fs.read_at(&handles.buffered, into.slice_mut(0..len), offset)
                        }
                        _ => Err(error),
                    })
            }
            None => fs.read_at(&handles.buffered, into.slice_mut(0..len), offset),
        };
        match done {
            Ok(done) if done >= len => Ok(()),
            Ok(done) => {
                let source = std::io::ErrorKind::UnexpectedEof.into();
                Err(Error::disk("read", &path(), offset + done as u64, source))
            }
            Err(source) => Err(Error::disk("read", &path(), offset, source)),
        }
    }
}

impl Handles {
    /// The descriptor to read around the cache by, unless the piece is cached or there is none.
    fn direct(
        &mut self,
        fs: &dyn Fs,
        path: &impl Fn() -> std::path::PathBuf,
        cached: bool,
    ) -> Option<File> {
        if cached {
            return None;
        }
        if matches!(self.direct, Direct::Untried) {
            let opened = fs.open(&path(), OpenMode::ReadDirect);
            self.direct = opened.map_or(Direct::Unusable, Direct::Open);
        }
        match &self.direct {
            Direct::Open(file) => Some(file.clone()),
            Direct::Untried | Direct::Unusable => None,
        }
    }
}

/// The pieces of a file that a tool opened, by plain reads.
#[cfg(any(test, feature = "internals"))]
pub(crate) struct Plain<'a> {
    pub(crate) fs: &'a dyn Fs,
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    pub(crate) buffer: &'a mut Vec<u8>,
    pub(crate) offset: u64,
    pub(crate) filled: usize,
}

#[cfg(any(test, feature = "internals"))]
impl Pieces for Plain<'_> {
    fn advance(&mut self) -> Result<(), Error> {
        self.buffer.resize(PIECE_BYTES, 0);
        self.offset += self.filled as u64;
        let read = self.fs.read_at(self.file, self.buffer, self.offset);
        self.filled = read.map_err(|source| Error::disk("read", self.path, self.offset, source))?;
        Ok(())
    }

    fn piece(&self) -> &[u8] {
        self.buffer.get(..self.filled).unwrap_or_default()
    }
}
