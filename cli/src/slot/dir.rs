//! The directory and its files: listed by what they are, opened only as regular files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use forebay::internals::slot::is_segment_name;

use crate::error::Failure;

pub(crate) const MANIFEST: &str = "sf-manifest.bin";
pub(crate) const WATERMARK: &str = ".ack-watermark";
pub(crate) const DICTIONARY: &str = ".symbol-dict";
pub(crate) const LOCK: &str = ".lock";
pub(crate) const LOCK_PID: &str = ".lock.pid";
pub(crate) const FAILED: &str = ".failed";
pub(crate) const LOCK_OWNER: &str = ".lock.owner";

/// What a directory entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    /// Links, sockets and the like: listed, never opened.
    Other,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name; bytes that are not UTF-8 are replaced, and such a name is never opened.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
}

/// A slot directory, or one that holds slots.
#[derive(Debug, Clone)]
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// All entries by name.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let list = |source| Failure::read("list", &self.0, source);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(list)? {
            let entry = entry.map_err(list)?;
            // Metadata of the entry itself, never of what a link points to.
            let meta = match entry.metadata() {
                Ok(meta) => meta,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Failure::read("stat", &entry.path(), error)),
            };
            let (name, readable) = match entry.file_name().into_string() {
                Ok(name) => (name, true),
                Err(raw) => (raw.to_string_lossy().into_owned(), false),
            };
            let kind = if meta.is_dir() {
                Kind::Directory
            } else if meta.is_file() && readable {
                Kind::File
            } else {
                Kind::Other
            };
            let bytes = meta.len();
            found.push(Entry { name, kind, bytes });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Whether the directory or a file in it was written to since, or nobody knows.
    pub(crate) fn changed_since(&self, since: SystemTime) -> Result<bool, Failure> {
        let failed = |source| Failure::read("stat", &self.0, source);
        let recent = |meta: &fs::Metadata| meta.modified().is_ok_and(|at| at >= since);
        let mut changed = recent(&fs::metadata(&self.0).map_err(failed)?);
        for entry in fs::read_dir(&self.0).map_err(failed)? {
            let meta = entry.and_then(|entry| entry.metadata());
            changed |= meta.map_or(true, |meta| recent(&meta));
        }
        Ok(changed)
    }

    /// Opens a regular file for reading. A link is refused, and so is anything that took the
    /// file's place since it was listed.
    pub(crate) fn open(&self, name: &str) -> Result<File, Failure> {
        let path = self.join(name);
        let open = || {
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
                .open(&path)?;
            if file.metadata()?.is_file() {
                Ok(file)
            } else {
                Err(io::Error::other("not a regular file"))
            }
        };
        open().map_err(|source| Failure::read("open", &path, source))
    }

    /// The first bytes of a file, at most `most`.
    pub(crate) fn head(&self, name: &str, most: usize) -> Result<Vec<u8>, Failure> {
        let file = self.open(name)?;
        read_up_to(&file, 0, most).map_err(|source| Failure::read("read", &self.join(name), source))
    }

    /// Like [`Dir::head`], and `None` for a file that is not there.
    pub(crate) fn head_if_any(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, Failure> {
        match self.head(name, most) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(failure) if failure.is_gone() => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// Up to `most` bytes from `offset`, fewer where the file ends. `most` is the caller's, not the
/// file's.
pub(crate) fn read_up_to(file: &File, offset: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Whether the entries are those of a slot.
pub(crate) fn is_slot(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| {
        let known = [MANIFEST, WATERMARK, DICTIONARY, LOCK, LOCK_PID, LOCK_OWNER];
        known.contains(&entry.name.as_str()) || is_segment_name(&entry.name)
    })
}
