//! The yardstick: every byte of the same files by direct reads, one after the other.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

const READ_BYTES: usize = 4 << 20;
const BLOCK: usize = 4096;

/// Reads all files and answers their bytes.
pub(crate) fn read(files: &[PathBuf]) -> io::Result<u64> {
    let mut memory = vec![1u8; READ_BYTES + BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    let buffer = &mut memory[start..start + READ_BYTES];
    let mut total = 0;
    for path in files {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)?;
        let mut at = 0;
        loop {
            let len = file.read_at(buffer, at)?;
            at += len as u64;
            if len < READ_BYTES {
                break;
            }
        }
        total += at;
    }
    Ok(total)
}
