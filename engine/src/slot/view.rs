//! Looking at a slot without owning it: the codecs, the scan and the decisions of recovery for
//! tools that only read. Public through `internals`; the caller opens the files.
//!
//! Nothing here locks, writes or follows a name. Bytes are trusted as little as in recovery: no
//! panic, no allocation by a length from disk.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use std::fmt;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::chain::{Candidate, Damaged, Judge, decide_without_manifest, first_unacked};
use super::chunk::{self, FileHeader, HEADER_BYTES, HEADER_LEN};
use super::dictionary::Dictionary;
use super::dictionary_file::next_chunk;
use super::fold::{Fold, Misfit};
use super::frame::{self, FRAME_HEADER_LEN, FrameHeader};
use super::names;
use super::pieces::Plain;
use super::record::{Kind, newer};
use super::scan::{Found, Residue, Scan, Scanner};
use super::segment::{HeaderError, SegmentHeader};
use super::window::Window;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::sys::RealFs;
use crate::io::{File, FileOwner, Fs};

/// A file that the tool opened, as the scanner wants it.
struct Opened(fs::File);

impl FileOwner for Opened {
    fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// A valid frame.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Its number.
    pub fsn: u64,
    /// Where it lies in the file; the payload is 8 bytes further.
    pub offset: u64,
    /// Bytes of its payload.
    pub payload_len: u32,
    /// The payload, or only the start of one above 1 MiB.
    pub payload: &'a [u8],
}

/// What a `*.sfa` file turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentFile {
    /// A segment.
    Segment(Segment),
    /// Nothing but zeros.
    Blank,
    /// No segment of this format.
    Bad(BadHeader),
}

/// A segment and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment(Scan);

impl Segment {
    /// FSN of the first frame.
    pub fn base(&self) -> u64 {
        self.0.header.base.0
    }

    /// Valid frames.
    pub fn frames(&self) -> u64 {
        self.0.frames
    }

    /// First FSN behind its frames.
    pub fn end_fsn(&self) -> u64 {
        self.base().saturating_add(self.0.frames)
    }

    /// Offset behind the last valid frame.
    pub fn end(&self) -> u64 {
        self.0.end
    }

    /// Offsets of the first and the last byte behind the end that is not zero.
    pub fn residue(&self) -> Option<(u64, u64)> {
        self.0.residue.map(|Residue { first, last }| (first, last))
    }

    /// Creation, microseconds since the Unix epoch, as the writer's clock had it.
    pub fn created_micros(&self) -> u64 {
        self.0.header.created_micros
    }

    /// Whether its flag says that the slot has a manifest.
    pub fn manifest_required(&self) -> bool {
        self.0.header.manifest_required
    }
}

/// Why bytes are no segment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadHeader(HeaderError);

impl BadHeader {
    /// Offset of the field at fault.
    pub fn offset(self) -> u64 {
        self.0.offset()
    }

    /// The format version, where it is one that a newer writer may use.
    pub fn unknown_version(self) -> Option<u8> {
        match self.0 {
            HeaderError::Version(version) => Some(version),
            _ => None,
        }
    }
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The base in the header at the start of `bytes`, if it is one.
pub fn base(bytes: &[u8]) -> Option<u64> {
    SegmentHeader::parse(bytes).ok().map(|header| header.base.0)
}

/// Bytes of the payload of a frame that starts with `bytes`, if one may.
pub fn payload_len(bytes: &[u8]) -> Option<u32> {
    FrameHeader::parse(bytes).map(|header| header.payload_len)
}

/// Whether `bytes` are a frame, whole and with the right CRC.
pub fn is_frame(bytes: &[u8]) -> bool {
    let head = FrameHeader::parse(bytes).zip(bytes.get(FRAME_HEADER_LEN..));
    head.is_some_and(|(head, payload)| {
        payload.len() as u64 == u64::from(head.payload_len)
            && frame::crc(head.payload_len, payload) == head.crc
    })
}

/// The buffers of a scan, used again from file to file: about 2 MiB, up to 18 MiB where long
/// frames carry symbols.
#[derive(Debug, Default)]
pub struct Reader {
    scanner: Scanner,
    buffer: Vec<u8>,
}

impl Reader {
    /// Scans a `*.sfa` file and shows every valid frame to `visit`; also gives the file's size.
    pub fn segment(
        &mut self,
        file: fs::File,
        path: &Path,
        visit: &mut dyn FnMut(Frame<'_>),
    ) -> Result<(u64, SegmentFile), Error> {
        let file = File::new(Opened(file));
        let size = RealFs
            .bytes(&file)
            .map_err(|source| Error::disk("stat", path, 0, source))?;
        let mut pieces = Plain {
            fs: &RealFs,
            file: &file,
            path,
            buffer: &mut self.buffer,
            offset: 0,
            filled: 0,
        };
        let found = self
            .scanner
            .scan(&mut pieces, path, size, &mut |header, seen| {
                visit(Frame {
                    fsn: header.base.0.saturating_add(seen.index),
                    offset: seen.offset,
                    payload_len: seen.payload_len,
                    payload: seen.payload,
                });
            })?;
        let found = match found {
            Found::Segment(scan) => SegmentFile::Segment(Segment(scan)),
            Found::Blank => SegmentFile::Blank,
            Found::Damaged(error) => SegmentFile::Bad(BadHeader(error)),
        };
        Ok((size, found))
    }
}

/// One record of a dual-record file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Counts the writes of the file from 1.
    pub generation: i64,
    /// Manifest: base of the first segment; watermark: acked FSN or -1.
    pub first: i64,
    /// Manifest: base of the active segment; watermark: 0.
    pub second: i64,
}

/// The record at `lower`, the one at `upper`, and the one of them that counts, in a manifest or
/// else a watermark file.
pub fn records(lower: &[u8], upper: &[u8], manifest: bool) -> [Option<Record>; 3] {
    let kind = if manifest {
        Kind::Manifest
    } else {
        Kind::Watermark
    };
    let parse = |bytes| super::record::Record::parse(bytes, kind);
    let (lower, upper) = (parse(lower), parse(upper));
    [lower, upper, newer(lower, upper)].map(|record| {
        record.map(|record| Record {
            generation: record.generation,
            first: record.first,
            second: record.second,
        })
    })
}

/// What the first eight bytes of a dictionary file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DictionaryHeader {
    /// A dictionary of this version.
    Known,
    /// A dictionary of a later version.
    Version(u8),
    /// No dictionary.
    Unknown,
}

/// `.symbol-dict`, as far as it is valid.
#[derive(Debug)]
pub struct SymbolFile {
    /// What its first eight bytes say.
    pub header: DictionaryHeader,
    /// Size of the file.
    pub bytes: u64,
    /// End of the last valid chunk.
    pub end: u64,
    /// Symbols of each valid chunk.
    pub chunks: Vec<u32>,
    /// The symbols.
    pub symbols: Symbols,
}

/// Reads a dictionary file up to its first invalid chunk.
pub fn symbol_file(file: fs::File, path: &Path) -> Result<SymbolFile, Error> {
    let file = File::new(Opened(file));
    let disk = |op, offset| move |source| Error::disk(op, path, offset, source);
    let bytes = RealFs.bytes(&file).map_err(disk("stat", 0))?;
    let mut buffer = Vec::new();
    let mut window = Window::new(&RealFs, &file, &mut buffer);
    let head = window.get(0, HEADER_LEN).map_err(disk("read", 0))?;
    let header = match chunk::file_header(head) {
        FileHeader::Known => DictionaryHeader::Known,
        FileHeader::Version(version) => DictionaryHeader::Version(version),
        FileHeader::Unknown => DictionaryHeader::Unknown,
    };
    let mut dictionary = Dictionary::new();
    let mut chunks = Vec::new();
    let mut end = 0;
    if header == DictionaryHeader::Known {
        end = HEADER_BYTES;
        loop {
            let before = dictionary.len();
            let chunk = next_chunk(&mut window, end, bytes, &mut dictionary);
            let Some(len) = chunk.map_err(disk("read", end))? else {
                break;
            };
            end = end.saturating_add(len);
            chunks.push(dictionary.len().saturating_sub(before));
        }
    }
    Ok(SymbolFile {
        header,
        bytes,
        end,
        chunks,
        symbols: Symbols(dictionary),
    })
}

/// Symbols by id.
#[derive(Debug, Default)]
pub struct Symbols(Dictionary);

impl Symbols {
    /// How many there are; ids are dense from 0.
    pub fn len(&self) -> u32 {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// The text of an id.
    pub fn get(&self, id: u32) -> Option<&str> {
        self.0.get(id)
    }

    /// Ids `from..to` as the delta section of a message has them.
    ///
    /// # Panics
    /// Unless `from <= to <= len()`.
    pub fn entries(&self, from: u32, to: u32) -> &[u8] {
        self.0.entries(from, to)
    }

    /// Starts to check frames against these symbols; `claimed` is the first FSN that the watermark
    /// does not call acked.
    pub fn cover(self, claimed: u64) -> Coverage {
        Coverage(Fold::new(self.0, Fsn(claimed)))
    }
}

/// Whether the dictionary and the frames' own symbols cover every frame.
#[derive(Debug)]
pub struct Coverage(Fold);

impl Coverage {
    /// Shows it the frames of the chain in FSN order.
    pub fn frame(&mut self, file: &str, frame: &Frame<'_>) {
        self.0
            .frame(Fsn(frame.fsn), file, frame.offset, frame.payload);
    }

    /// File, offset and reason of the first frame that must be delivered and is not covered; the
    /// watermark is `believed` or not.
    pub fn misfit(&mut self, believed: bool) -> Option<(String, u64, String)> {
        let Misfit {
            fsn,
            offset,
            file,
            reason,
        } = self.0.misfit(believed, Fsn(u64::MAX))?;
        Some((file, offset, format!("frame {fsn}: {reason}")))
    }
}

/// Whether a file of this name may be a segment.
pub fn is_segment_name(name: &str) -> bool {
    names::is_segment(name)
}

/// Whether this engine or an official client gives such a name to a segment.
pub fn is_usual_segment_name(name: &str) -> bool {
    names::is_canonical_segment(name)
}

/// The names of the segments that form the chain, the active one last; none when the slot was
/// drained and its clean-up cut short. `manifest` is `(head, active)`, where there is one; `blank` is
/// a file of nothing but zeros.
///
/// # Errors
/// `Error::Corrupt` where recovery would say so.
pub fn chain(
    dir: &Path,
    manifest: Option<(u64, u64)>,
    segments: &[(&str, u64, &Segment)],
    (bad, blank): (&[(&str, BadHeader)], Option<&str>),
) -> Result<Vec<String>, Error> {
    let damaged: Vec<Damaged> = bad
        .iter()
        .map(|(name, error)| Damaged {
            name: (*name).to_owned(),
            error: error.0,
        })
        .collect();
    let found = segments
        .iter()
        .map(|(name, bytes, segment)| Candidate {
            name: (*name).to_owned(),
            bytes: *bytes,
            scan: segment.0.clone(),
        })
        .collect();
    let chain = match manifest {
        None => decide_without_manifest(dir, &damaged, "there is no sf-manifest.bin", found)?,
        Some((head, active)) => Judge {
            dir,
            head,
            active,
            damaged: &damaged,
            blank,
        }
        .decide(found)?,
    };
    Ok(chain.links.into_iter().map(|link| link.name).collect())
}

/// The first FSN that is not acked, and whether the watermark was believed: it is not when it
/// claims frames that do not exist.
pub fn acked(lowest: u64, next: u64, watermark: i64) -> (u64, bool) {
    match first_unacked(lowest, next, watermark) {
        Ok(fsn) => (fsn.0, true),
        Err(refused) => (refused.0.0, false),
    }
}
