//! The real file system. Symbolic links are never followed; modes are 0700 and 0600.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use super::{BLOCK, Descriptor, Memory, check, direct, fill, free_bytes, resident, retry, unnamed};
use crate::io::fs::create_reserved_named;
use crate::io::{Between, Entry, EntryKind, File, FileOwner, Fs, Machine, OpenMode};

/// A descriptor that closes with the last handle.
struct OwnedFile(Descriptor);

impl FileOwner for OwnedFile {
    fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// File calls of the kernel.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RealFs;

/// A `std::fs::File` view of a descriptor that the handle keeps open.
fn std_file(file: &File) -> std::mem::ManuallyDrop<std::fs::File> {
    // SAFETY: `file` owns the descriptor for longer than the returned view lives, and
    // ManuallyDrop keeps the view from closing it.
    std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(file.raw()) })
}

/// Reads until `into` is full, the file ends, or what was read is no whole number of `unit`s.
fn read_full(file: &File, into: &mut [u8], offset: u64, unit: usize) -> io::Result<usize> {
    let file = std_file(file);
    let mut done = 0;
    while done < into.len() && done.is_multiple_of(unit) {
        match retry(|| file.read_at(&mut into[done..], offset + done as u64))? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

pub(super) fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "path holds a NUL byte"))
}

impl Fs for RealFs {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(0o700).create(path)
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // A file unlinked between listing and looking is no longer an entry.
            let Ok(meta) = entry.path().symlink_metadata() else {
                continue;
            };
            let kind = if meta.file_type().is_file() {
                EntryKind::File
            } else if meta.is_dir() {
                EntryKind::Directory
            } else {
                EntryKind::Other
            };
            found.push(Entry {
                name,
                kind,
                bytes: meta.len(),
            });
        }
        Ok(found)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        let flags = match mode {
            OpenMode::Read => libc::O_RDONLY,
            OpenMode::ReadWrite => libc::O_RDWR,
            OpenMode::Direct => libc::O_RDWR | libc::O_DIRECT,
            OpenMode::ReadDirect => libc::O_RDONLY | libc::O_DIRECT,
            OpenMode::Create => libc::O_RDWR | libc::O_CREAT,
            OpenMode::CreateNew => libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
        };
        let path = c_path(path)?;
        let flags = flags | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: `path` is a live NUL-terminated string.
        let fd = retry(|| check(unsafe { libc::open(path.as_ptr(), flags, 0o600) }))?;
        // SAFETY: a fresh descriptor that nobody else owns.
        let owned = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(File::new(OwnedFile(owned.into())))
    }

    fn bytes(&self, file: &File) -> io::Result<u64> {
        Ok(std_file(file).metadata()?.len())
    }

    fn read_at(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        read_full(file, into, offset, 1)
    }

    fn read_direct(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
        // Only the end of the file lies within a block; from there no aligned read goes on.
        read_full(file, into, offset, BLOCK)
    }

    fn is_cached(&self, file: &File, offset: u64) -> bool {
        resident::is_resident(file.raw(), offset)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        std_file(file).write_all_at(bytes, offset)
    }

    fn set_bytes(&self, file: &File, bytes: u64) -> io::Result<()> {
        std_file(file).set_len(bytes)
    }

    fn allocate(&self, file: &File, bytes: u64) -> io::Result<()> {
        let bytes = i64::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: no pointers.
        retry(|| check(unsafe { libc::fallocate(file.raw(), 0, 0, bytes) })).map(drop)
    }

    fn create_reserved(
        &self,
        path: &Path,
        bytes: u64,
        start: &[u8],
        mut zeros: Option<Between<'_>>,
    ) -> io::Result<()> {
        if let Some(file) = unnamed::create(path)? {
            let file = File::new(OwnedFile(OwnedFd::from(file).into()));
            self.allocate(&file, bytes)?;
            match &mut zeros {
                Some(between) => fill::fill(&std_file(&file), bytes, start, between)?,
                None => self.write_at(&file, start, 0)?,
            }
            self.sync(&file)?;
            if unnamed::link(&std_file(&file), path)? {
                return Ok(());
            }
        }
        create_reserved_named(self, path, bytes, start, zeros)
    }

    fn try_direct(&self, dir: &Path) -> io::Result<()> {
        direct::try_block(dir, BLOCK)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        free_bytes(dir)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        std_file(file).sync_data()
    }

    fn sync_filesystem(&self, dir: &Path) -> io::Result<()> {
        let dir = std::fs::File::open(dir)?;
        // SAFETY: no pointers; the descriptor is open.
        retry(|| check(unsafe { libc::syncfs(dir.as_raw_fd()) })).map(drop)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        std::fs::File::open(dir)?.sync_all()
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn try_lock(&self, file: &File) -> io::Result<bool> {
        // SAFETY: no pointers.
        let locked =
            retry(|| check(unsafe { libc::flock(file.raw(), libc::LOCK_EX | libc::LOCK_NB) }));
        match locked {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn unlock(&self, file: &File) -> io::Result<()> {
        // SAFETY: no pointers.
        retry(|| check(unsafe { libc::flock(file.raw(), libc::LOCK_UN) })).map(drop)
    }

    fn filesystem(&self, path: &Path) -> String {
        super::filesystem(path).map_or_else(|_| "unknown".to_owned(), |kind| kind.to_string())
    }

    fn now(&self) -> u64 {
        super::monotonic_nanos()
    }

    fn sleep(&self, nanos: u64) {
        std::thread::sleep(Duration::from_nanos(nanos));
    }

    fn wall_micros(&self) -> u64 {
        super::wall_micros()
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn is_at(&self, file: &File, path: &Path) -> io::Result<bool> {
        let open = std_file(file).metadata()?;
        match std::fs::symlink_metadata(path) {
            Ok(named) => Ok((open.dev(), open.ino()) == (named.dev(), named.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn map(&self, file: &File, bytes: usize) -> io::Result<Memory> {
        Memory::of_file(file, bytes)
    }

    fn machine(&self) -> Machine {
        let read = |path| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.trim().to_owned()
        };
        Machine {
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
        }
    }

    fn random(&self) -> u64 {
        super::random_u64()
    }
}
