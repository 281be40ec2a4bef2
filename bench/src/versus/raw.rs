//! The disk alone: what a loop of direct writes, or reads, moves.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::figures::Figures;
use crate::limits::figures::float;
use crate::limits::raw_read;

/// Bytes of a row on disk, about.
pub(super) const ROW_BYTES: u64 = 44;
const WRITE_BYTES: usize = 1 << 20;
const BLOCK: usize = 4096;
/// As the segments of the contenders.
const FILE_BYTES: u64 = 64 << 20;

/// Writes as many bytes as `rows` rows have, 1 MiB at a time, into reserved files of 64 MiB.
pub(super) fn write(dir: &Path, rows: u64) -> Result<Figures, Box<dyn Error>> {
    let mut memory = vec![0x5a_u8; WRITE_BYTES + BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    let buffer = &mut memory[start..start + WRITE_BYTES];
    let total = (rows * ROW_BYTES).next_multiple_of(WRITE_BYTES as u64);
    let begun = Instant::now();
    let mut written = 0;
    while written < total {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_DIRECT)
            .open(dir.join(format!("raw-{written:012}")))?;
        reserve(&file)?;
        let mut at = 0;
        while at < FILE_BYTES && written < total {
            file.write_all_at(buffer, at)?;
            at += WRITE_BYTES as u64;
            written += WRITE_BYTES as u64;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let mut figures = Figures::default();
    figures.set("rows_s", float(written / ROW_BYTES) / seconds);
    figures.set("mb_s", float(written) / seconds / 1e6);
    Ok(figures)
}

/// Gives the file its blocks, unwritten.
fn reserve(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call, which takes no pointer.
    let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, FILE_BYTES.cast_signed()) };
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Reads every segment below `dir`, 4 MiB at a time.
pub(super) fn read(dir: &Path) -> Result<Figures, Box<dyn Error>> {
    let files = segments(dir)?;
    let begun = Instant::now();
    let bytes = raw_read::read(&files)?;
    let mut figures = Figures::default();
    figures.set("open_ms", begun.elapsed().as_secs_f64() * 1e3);
    figures.set("mb", float(bytes) / 1e6);
    Ok(figures)
}

/// The segment files of all slots below `dir`, in order.
pub(super) fn segments(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for slot in std::fs::read_dir(dir)? {
        let slot = slot?.path();
        if slot.is_dir() {
            for file in std::fs::read_dir(slot)? {
                let file = file?.path();
                if file.extension().is_some_and(|ext| ext == "sfa") {
                    files.push(file);
                }
            }
        }
    }
    files.sort();
    Ok(files)
}

/// All files below `dir`.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Writes out what is dirty: whoever opens it would do that first.
pub(super) fn sync(dir: &Path) -> Result<(), Box<dyn Error>> {
    let synced = Command::new("sync").arg("-f").arg(dir).status()?;
    if !synced.success() {
        return Err("sync -f failed".into());
    }
    Ok(())
}

/// Writes the files out and drops them from the page cache.
pub(super) fn evict(dir: &Path) -> Result<(), Box<dyn Error>> {
    sync(dir)?;
    for file in files(dir)? {
        let input = format!("if={}", file.display());
        let dropped = Command::new("dd")
            .args([&input, "iflag=nocache", "count=0", "status=none"])
            .status()?;
        if !dropped.success() {
            return Err("dd iflag=nocache failed".into());
        }
    }
    Ok(())
}
