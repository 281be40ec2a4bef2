//! Blocking file access: opening, recovery, close, the steward and the tools. Never on a shard.

use std::io;
use std::path::Path;

use super::File;
use super::sys::Memory;

/// How a file is opened. No mode follows a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Existing file, reading only.
    Read,
    /// Existing file, reading and writing through the page cache.
    ReadWrite,
    /// Existing file, reading and writing around the page cache (`O_DIRECT`).
    Direct,
    /// Existing file, reading only, around the page cache. Fails where the filesystem cannot.
    ReadDirect,
    /// As `ReadWrite`, created (mode 0600) if absent, never truncated.
    Create,
    /// As `ReadWrite`, must not exist yet.
    CreateNew,
}

/// What a directory entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Anything else, symbolic links included.
    Other,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its name; entries whose names are not UTF-8 are foreign and not listed.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Size in bytes (files).
    pub bytes: u64,
}

/// A host and its boot. What cannot be learned is empty, and then equals nothing and differs from
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Machine {
    /// Host name.
    pub host: String,
    /// Id of the kernel's boot.
    pub boot: String,
}

/// Called between two pieces of a long piece of work; an error ends it.
pub(crate) type Between<'a> = &'a mut dyn FnMut() -> io::Result<()>;

/// Bytes of a piece of zeros.
pub(crate) const FILL_BYTES: usize = 1 << 20;

/// Blocking file system calls. Errors are the kernel's, with `EINTR` retried.
pub(crate) trait Fs: Send + Sync {
    /// Creates one directory level, mode 0700.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Lists a directory, in no particular order.
    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>>;
    /// Opens a file.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File>;
    /// Size in bytes.
    fn bytes(&self, file: &File) -> io::Result<u64>;
    /// Reads up to `into.len()` bytes; fewer only at the end of the file. Buffered files only.
    fn read_at(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<usize>;
    /// As [`read_at`](Self::read_at), of a file opened by [`OpenMode::ReadDirect`]: address and
    /// length of `into` and `offset` are whole blocks, whatever the size of the file.
    fn read_direct(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Whether the page cache holds the page at `offset`; `false` where nobody can tell.
    fn is_cached(&self, file: &File, offset: u64) -> bool;
    /// Writes all of `bytes`. Buffered files only.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts or extends the file.
    fn set_bytes(&self, file: &File, bytes: u64) -> io::Result<()>;
    /// Reserves real blocks for `0..bytes` and extends the file to `bytes` if it is shorter;
    /// waits for direct writes in flight. Never falls back to a sparse file.
    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()>;
    /// Makes the file `path`, which must not exist: `bytes` reserved, `start` at its beginning,
    /// fdatasynced. With `zeros` they are written over all of it, in pieces of [`FILL_BYTES`]
    /// between which it is called. Where the filesystem can, the name appears only when the file is
    /// complete. Elsewhere a process that dies meanwhile leaves a blank file of that name.
    fn create_reserved(
        &self,
        path: &Path,
        bytes: u64,
        start: &[u8],
        zeros: Option<Between<'_>>,
    ) -> io::Result<()> {
        create_reserved_named(self, path, bytes, start, zeros)
    }
    /// Whether files in `dir` take direct writes of whole blocks: `EINVAL` if they do not.
    fn try_direct(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
    /// Bytes that this process may still use on the filesystem of `dir`.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// fdatasync.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// syncfs of the filesystem that `dir` is on: all its files and directories. Some filesystems
    /// do not flush the disk's own cache when nothing was left to be written to it.
    fn sync_filesystem(&self, dir: &Path) -> io::Result<()>;
    /// fsync of a directory.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Removes a file.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Renames a file or a directory; an existing target file is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, which must not exist.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// `flock(LOCK_EX | LOCK_NB)`: `false` when somebody else holds it.
    fn try_lock(&self, file: &File) -> io::Result<bool>;
    /// `flock(LOCK_UN)`.
    fn unlock(&self, file: &File) -> io::Result<()>;
    /// Monotonic time in nanoseconds, for wait limits.
    fn now(&self) -> u64;
    /// Waits.
    fn sleep(&self, nanos: u64);
    /// Wall clock in microseconds since the Unix epoch.
    fn wall_micros(&self) -> u64;
    /// The process id to write into `.lock.pid`.
    fn pid(&self) -> u32;
    /// Whether `path` still names the open file; `false` when it names another or nothing.
    fn is_at(&self, file: &File, path: &Path) -> io::Result<bool>;
    /// Maps the first `bytes` of a file, shared. Touching them raises SIGBUS should the file become
    /// shorter or its filesystem read-only.
    fn map(&self, _file: &File, _bytes: usize) -> io::Result<Memory> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Where this process runs.
    fn machine(&self) -> Machine;
    /// What kind of filesystem `path` is on, for messages.
    fn filesystem(&self, _path: &Path) -> String {
        "unknown".to_owned()
    }
    /// A random number, to name things by.
    fn random(&self) -> u64;
}

/// [`Fs::create_reserved`] with the name there from the start. A file that could not be finished is
/// removed.
pub(crate) fn create_reserved_named<F: Fs + ?Sized>(
    fs: &F,
    path: &Path,
    bytes: u64,
    start: &[u8],
    zeros: Option<Between<'_>>,
) -> io::Result<()> {
    let file = fs.open(path, OpenMode::CreateNew)?;
    let finish = || {
        fs.allocate(&file, bytes)?;
        if let Some(between) = zeros {
            zero(fs, &file, bytes, between)?;
        }
        fs.write_at(&file, start, 0)?;
        fs.sync(&file)
    };
    finish().inspect_err(|_| {
        // Whatever remains is a blank file: the next recovery removes it.
        let _ = fs.unlink(path);
    })
}

fn zero<F: Fs + ?Sized>(fs: &F, file: &File, bytes: u64, between: Between<'_>) -> io::Result<()> {
    let piece_of_zeros = vec![0; FILL_BYTES];
    let mut done = 0;
    while done < bytes {
        let left = usize::try_from(bytes - done).unwrap_or(FILL_BYTES);
        let piece = left.min(FILL_BYTES);
        fs.write_at(file, &piece_of_zeros[..piece], done)?;
        done += piece as u64;
        between()?;
    }
    Ok(())
}
