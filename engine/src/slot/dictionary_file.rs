//! `.symbol-dict` at open: loading, cutting a torn tail, adding what the frames knew better.
//!
//! Loading only reads; [`DictionaryFile::commit`] changes the file, once recovery has decided that
//! the slot is whole.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::chunk::{self, CHUNK_HEAD_MAX, FileHeader, HEADER, HEADER_BYTES, HEADER_LEN};
use super::dictionary::{Dictionary, STRING_BYTES_MAX};
use super::names::DICTIONARY;
use super::salvage;
use super::window::Window;
use crate::error::Error;
use crate::io::{File, Fs, OpenMode};

/// Largest chunk that can be whole: all strings, their lengths, head and CRC.
const CHUNK_BYTES_MAX: u64 = STRING_BYTES_MAX + (16 << 20);

/// The file, and how much of it counts.
#[derive(Debug)]
pub(crate) struct DictionaryFile {
    path: PathBuf,
    file: Option<File>,
    /// Size as found.
    size: u64,
    /// End of the last valid chunk; 0 when not even the header is usable.
    end: u64,
    /// Entries in the valid chunks.
    count: u32,
}

/// What committing did.
#[derive(Debug)]
pub(crate) struct Committed {
    /// Open for buffered reading and writing.
    pub file: File,
    /// Logical end of the file: where the next chunk goes.
    pub bytes: u64,
    /// Bytes cut off behind the last valid chunk.
    pub cut_bytes: u64,
    /// Entries that the frames added.
    pub rebuilt: u32,
}

/// Loads the dictionary of `dir`, if the file is `present`; a file that is none counts as empty.
///
/// A file of another version is refused: it may be a newer client's and whole.
pub(crate) fn load(
    fs: &dyn Fs,
    dir: &Path,
    present: bool,
    buffer: &mut Vec<u8>,
) -> Result<(Dictionary, DictionaryFile), Error> {
    let path = dir.join(DICTIONARY);
    let mut dictionary = Dictionary::new();
    let mut loaded = DictionaryFile {
        path,
        file: None,
        size: 0,
        end: 0,
        count: 0,
    };
    if !present {
        return Ok((dictionary, loaded));
    }
    let path = loaded.path.clone();
    let disk = |op, offset| move |source| (op, offset, source);
    let mut read = || {
        let file = fs
            .open(&path, OpenMode::ReadWrite)
            .map_err(disk("open", 0))?;
        loaded.size = fs.bytes(&file).map_err(disk("stat", 0))?;
        let mut window = Window::new(fs, &file, buffer);
        let head = window.get(0, HEADER_LEN).map_err(disk("read", 0))?;
        let header = chunk::file_header(head);
        if header == FileHeader::Known {
            loaded.end = HEADER_BYTES;
            while let at = loaded.end
                && let Some(len) = next_chunk(&mut window, at, loaded.size, &mut dictionary)
                    .map_err(disk("read", at))?
            {
                loaded.end += len;
            }
        }
        loaded.file = Some(file);
        Ok(header)
    };
    let header = read().map_err(|(op, offset, source)| Error::disk(op, &path, offset, source))?;
    if let FileHeader::Version(version) = header {
        return Err(Error::Unsupported {
            what: format!("reading {}", path.display()),
            reason: format!("symbol dictionary version {version}, this engine reads version 1"),
            remedy: "Open the slot with the client that wrote it",
        });
    }
    loaded.count = dictionary.len();
    Ok((dictionary, loaded))
}

/// Takes over the chunk at `at`: its length, or `None` when there is no valid one.
pub(super) fn next_chunk(
    window: &mut Window<'_>,
    at: u64,
    size: u64,
    dictionary: &mut Dictionary,
) -> std::io::Result<Option<u64>> {
    let declared = chunk::declared_len(window.get(at, CHUNK_HEAD_MAX)?);
    let left = size.saturating_sub(at).min(CHUNK_BYTES_MAX);
    let Some(len) = declared
        .filter(|len| *len <= left)
        .and_then(|len| usize::try_from(len).ok())
    else {
        return Ok(None);
    };
    let Some(found) = chunk::parse(window.get(at, len)?) else {
        return Ok(None);
    };
    let before = dictionary.len();
    let mut entries = found.entries;
    while let Some((symbol, rest)) = chunk::split_entry(entries) {
        if dictionary.append(symbol).is_err() {
            break;
        }
        entries = rest;
    }
    if entries.is_empty() && u64::from(dictionary.len() - before) == found.count {
        return Ok(Some(found.len as u64));
    }
    dictionary.truncate(before);
    Ok(None)
}

impl DictionaryFile {
    /// Makes the file hold exactly `dictionary`: creates it, cuts what does not count, appends what
    /// it lacks as one chunk. Synced if anything changed; a created name by the caller.
    ///
    /// What is cut off is kept beside the file: it may hold chunks that nobody needs any more but
    /// somebody may look for.
    pub(crate) fn commit(
        self,
        fs: &dyn Fs,
        dir: &Path,
        dictionary: &Dictionary,
    ) -> Result<Committed, Error> {
        let Self {
            path,
            file,
            size,
            end,
            count,
        } = self;
        let disk = |op, offset| {
            let path = path.clone();
            move |source| Error::disk(op, &path, offset, source)
        };
        let file = match file {
            Some(file) => file,
            None => fs
                .open(&path, OpenMode::Create)
                .map_err(disk("create", 0))?,
        };
        let mut bytes = end;
        if size > end {
            if holds_bytes(fs, &file, end..size).map_err(disk("read", end))? {
                salvage::keep(fs, dir, DICTIONARY, end..size, "torn")?;
            }
            fs.set_bytes(&file, end).map_err(disk("truncate", end))?;
        }
        if end == 0 {
            fs.write_at(&file, &HEADER, 0).map_err(disk("write", 0))?;
            bytes = HEADER_BYTES;
        }
        let mut added = Vec::new();
        dictionary.chunk(count, dictionary.len(), &mut added);
        if !added.is_empty() {
            fs.write_at(&file, &added, bytes)
                .map_err(disk("write", bytes))?;
        }
        let changed = size != end || bytes != end || !added.is_empty();
        bytes += added.len() as u64;
        if changed {
            fs.sync(&file).map_err(disk("sync", 0))?;
        }
        let rebuilt = dictionary.len() - count;
        Ok(Committed {
            file,
            bytes,
            cut_bytes: size - end,
            rebuilt,
        })
    }
}

fn holds_bytes(fs: &dyn Fs, file: &File, range: Range<u64>) -> std::io::Result<bool> {
    let mut buffer = Vec::new();
    let found = Window::new(fs, file, &mut buffer).nonzero(range.start, range.end)?;
    Ok(found.is_some())
}
