//! Reading a file of any size through one reused buffer.

use std::io;

use crate::io::{File, Fs};

/// Bytes read at once; also the most that [`Window::get`] holds for segments.
pub(crate) const WINDOW_LEN: usize = 1 << 20;

/// A sliding view over an open file. Only what a caller asks for in one piece is ever allocated.
pub(crate) struct Window<'a> {
    fs: &'a dyn Fs,
    file: &'a File,
    buffer: &'a mut Vec<u8>,
    /// Offset in the file of the buffer's first byte.
    start: u64,
    /// Bytes of the buffer that hold file content.
    filled: usize,
    /// Whether the file ends where the content ends.
    at_end: bool,
}

impl<'a> Window<'a> {
    /// A view over `file` that reads through `buffer`.
    pub(crate) fn new(fs: &'a dyn Fs, file: &'a File, buffer: &'a mut Vec<u8>) -> Self {
        if buffer.len() < WINDOW_LEN {
            buffer.resize(WINDOW_LEN, 0);
        }
        Self {
            fs,
            file,
            buffer,
            start: 0,
            filled: 0,
            at_end: false,
        }
    }

    /// The `want` bytes from `offset`, or fewer where the file ends.
    pub(crate) fn get(&mut self, offset: u64, want: usize) -> io::Result<&[u8]> {
        let held = offset
            .checked_sub(self.start)
            .and_then(|skip| usize::try_from(skip).ok())
            .and_then(|skip| self.filled.checked_sub(skip).map(|rest| (skip, rest)));
        let skip = match held {
            Some((skip, rest)) if rest >= want || self.at_end => skip,
            _ => {
                self.fill(offset, want)?;
                0
            }
        };
        let end = self.filled.min(skip.saturating_add(want));
        Ok(self.buffer.get(skip..end).unwrap_or_default())
    }

    fn fill(&mut self, offset: u64, want: usize) -> io::Result<()> {
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        self.filled = 0;
        self.filled = self.fs.read_at(self.file, self.buffer, offset)?;
        self.start = offset;
        self.at_end = self.filled < self.buffer.len();
        Ok(())
    }

    /// First and last non-zero byte of `from..to`, if any.
    pub(crate) fn nonzero(&mut self, from: u64, to: u64) -> io::Result<Option<(u64, u64)>> {
        let mut found: Option<(u64, u64)> = None;
        let mut at = from;
        while at < to {
            let want = usize::try_from(to - at).map_or(WINDOW_LEN, |left| left.min(WINDOW_LEN));
            let bytes = self.get(at, want)?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // One pass that the compiler vectorises; positions only where something is found.
            if bytes.iter().fold(0, |all, byte| all | byte) != 0 {
                let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
                let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
                found = Some((found.map_or(at + first as u64, |f| f.0), at + last as u64));
            }
            at += bytes.len() as u64;
        }
        Ok(found)
    }
}
