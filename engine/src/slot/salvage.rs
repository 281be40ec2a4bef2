//! Taking bytes out of a segment without losing them: copy first, zero then.
//!
//! What lies behind the end of data must go before anything may be appended, or before an official
//! client reads the file. It may be the only copy of something, so it is kept beside the segment,
//! at the same distance from the file's start of the copy as it had from the place where it was
//! cut: byte `k` of the copy is byte `from + k` of the segment. Runs of zeros take no space.

use std::io;
use std::ops::Range;
use std::path::Path;

use super::frame::{FRAME_HEADER_BYTES, FRAME_HEADER_LEN, FrameHeader, crc_of_length};
use super::names;
use super::whole;
use super::window::{WINDOW_LEN, Window};
use crate::error::Error;
use crate::io::{Fs, OpenMode};

/// Bytes read, written and left out at once.
const PIECE: usize = 64 * 1024;
/// How often a byte may be looked at when frames are searched for; hostile lengths end there.
const LOOKS_MAX: u64 = 8;
const MAGIC: &[u8] = b"QWP1";

/// Copies `range` of `dir/name` to the first free `<name>.<what>-<n>`, durably; answers its name.
pub(crate) fn keep(
    fs: &dyn Fs,
    dir: &Path,
    name: &str,
    range: Range<u64>,
    what: &str,
) -> Result<String, Error> {
    let path = dir.join(name);
    let copy = free_name(fs, dir, name, what)?;
    let source = fs
        .open(&path, OpenMode::Read)
        .map_err(|source| Error::disk("open", &path, 0, source))?;
    let target = whole::start(fs, dir, &copy)
        .map_err(|source| Error::disk("create", &dir.join(&copy), 0, source))?;
    let mut piece = vec![0; PIECE];
    let mut copy_all = || {
        fs.set_bytes(&target, range.end - range.start)?;
        let mut at = range.start;
        while at < range.end {
            let left = usize::try_from(range.end - at).unwrap_or(PIECE);
            let want = piece.get_mut(..left.min(PIECE)).unwrap_or_default();
            if fs.read_at(&source, want, at)? < want.len() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if want.iter().any(|byte| *byte != 0) {
                fs.write_at(&target, want, at - range.start)?;
            }
            at += want.len() as u64;
        }
        Ok(())
    };
    let copied = copy_all();
    whole::finish(fs, dir, &copy, target, copied)
        .map_err(|source| Error::disk("copy to", &dir.join(&copy), 0, source))?;
    Ok(copy)
}

fn free_name(fs: &dyn Fs, dir: &Path, name: &str, what: &str) -> Result<String, Error> {
    let entries = fs
        .entries(dir)
        .map_err(|source| Error::disk("list", dir, 0, source))?;
    let taken = |copy: &String| entries.iter().any(|entry| entry.name == *copy);
    let mut copies = (0..=u32::MAX).map(|n| names::copy(name, what, n));
    copies.find(|copy| !taken(copy)).ok_or_else(|| {
        let source = io::Error::other("four billion copies are there");
        Error::disk("copy", &dir.join(name), 0, source)
    })
}

/// Zeroes `range` of the file and syncs it.
pub(crate) fn zero(fs: &dyn Fs, path: &Path, range: Range<u64>) -> Result<(), Error> {
    let zeros = vec![0; PIECE];
    let zero = || {
        let file = fs.open(path, OpenMode::ReadWrite)?;
        let mut at = range.start;
        while at < range.end {
            let left = usize::try_from(range.end - at).unwrap_or(PIECE);
            let piece = zeros.get(..left.min(PIECE)).unwrap_or_default();
            fs.write_at(&file, piece, at)?;
            at += piece.len() as u64;
        }
        fs.sync(&file)
    };
    zero().map_err(|source| Error::disk("zero", path, range.start, source))
}

/// How many whole frames lie in `range` of the file, whose start is no frame: what the scan, which
/// never looks past the first damage, does not deliver.
///
/// A frame is looked for where the damaged one says that it ends, and wherever a QWP message may
/// begin.
pub(crate) fn count_frames(fs: &dyn Fs, path: &Path, range: Range<u64>) -> Result<u64, Error> {
    let count = || {
        let file = fs.open(path, OpenMode::Read)?;
        let mut buffer = Vec::new();
        let mut search = Search {
            looks: LOOKS_MAX.saturating_mul(range.end - range.start),
            end: range.end,
            window: Window::new(fs, &file, &mut buffer),
        };
        search.run(range.start)
    };
    count().map_err(|source| Error::disk("read", path, range.start, source))
}

struct Search<'a> {
    window: Window<'a>,
    end: u64,
    /// Bytes that may still be looked at.
    looks: u64,
}

impl Search<'_> {
    fn run(&mut self, start: u64) -> io::Result<u64> {
        let mut found = 0;
        let mut at = start;
        let claimed = self.claimed_end(start)?;
        if let Some(next) = claimed
            && self.frame(next)?.is_some()
        {
            at = next;
        }
        loop {
            if let Some(next) = self.frame(at)? {
                found += 1;
                at = next;
                continue;
            }
            match self.message_from(at + 1)? {
                Some(next) if self.looks > 0 => at = next,
                _ => return Ok(found),
            }
        }
    }

    /// Where the frame at `at` says that it ends, if that is possible.
    fn claimed_end(&mut self, at: u64) -> io::Result<Option<u64>> {
        let header = FrameHeader::parse(self.window.get(at, FRAME_HEADER_LEN)?);
        let end = header.map(|header| at + FRAME_HEADER_BYTES + u64::from(header.payload_len));
        Ok(end.filter(|end| *end <= self.end))
    }

    /// The end of the valid frame at `at`, if there is one.
    fn frame(&mut self, at: u64) -> io::Result<Option<u64>> {
        let Some(end) = self.claimed_end(at)? else {
            return Ok(None);
        };
        let Some(header) = FrameHeader::parse(self.window.get(at, FRAME_HEADER_LEN)?) else {
            return Ok(None);
        };
        self.looks = self.looks.saturating_sub(end - at);
        let mut crc = crc_of_length(header.payload_len);
        let mut from = at + FRAME_HEADER_BYTES;
        while from < end {
            let want = usize::try_from(end - from).unwrap_or(WINDOW_LEN);
            let bytes = self.window.get(from, want.min(WINDOW_LEN))?;
            if bytes.is_empty() {
                return Ok(None);
            }
            crc = crc32c::crc32c_append(crc, bytes);
            from += bytes.len() as u64;
        }
        Ok((crc == header.crc).then_some(end))
    }

    /// The first place from `at` on whose payload would begin like a QWP message.
    fn message_from(&mut self, mut at: u64) -> io::Result<Option<u64>> {
        loop {
            let start = at + FRAME_HEADER_BYTES;
            if start >= self.end || self.looks == 0 {
                return Ok(None);
            }
            let want = usize::try_from(self.end - start)
                .unwrap_or(PIECE)
                .min(PIECE);
            let bytes = self.window.get(start, want)?;
            let len = bytes.len();
            let magic = bytes.windows(MAGIC.len()).position(|four| four == MAGIC);
            self.looks = self.looks.saturating_sub(len as u64);
            match magic {
                Some(offset) => return Ok(Some(at + offset as u64)),
                None if len < MAGIC.len() || start + len as u64 >= self.end => return Ok(None),
                // The magic may lie across the border of two pieces.
                None => at += (len - MAGIC.len() + 1) as u64,
            }
        }
    }
}
