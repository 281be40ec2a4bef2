//! What the targets share: a file to show bytes in, and mending checksums.
//!
//! A mutation hardly ever keeps a CRC right, so the first byte of an input says whether the target
//! makes it right again before it looks: without that nothing behind a checksum would be reached.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

thread_local! {
    static SCRATCH: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// A file that holds `bytes`. There is one, in memory and without a name, and every call fills it
/// anew.
pub fn file_with(bytes: &[u8]) -> File {
    SCRATCH.with_borrow_mut(|scratch| {
        let file = scratch.get_or_insert_with(nameless);
        file.set_len(bytes.len() as u64).expect("a size");
        file.write_all_at(bytes, 0).expect("a write");
        file.try_clone().expect("a descriptor")
    })
}

fn nameless() -> File {
    let shm = Path::new("/dev/shm");
    let dir = if shm.is_dir() {
        shm.to_path_buf()
    } else {
        std::env::temp_dir()
    };
    let path: PathBuf = dir.join(format!("forebay-fuzz-{}", std::process::id()));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(&path);
    let file = file.expect("a scratch file");
    std::fs::remove_file(&path).expect("it was just made");
    file
}

/// Splits the first byte off: flags that say how to read the rest.
pub fn flags(data: &[u8]) -> Option<(u8, &[u8])> {
    data.split_first().map(|(flags, rest)| (*flags, rest))
}

/// Puts the CRC of `bytes[covered]` little-endian at `bytes[at..at + 4]`, if both are there.
pub fn mend(bytes: &mut [u8], covered: std::ops::Range<usize>, at: usize) -> Option<()> {
    let crc = crc32c::crc32c(bytes.get(covered)?);
    let end = at.checked_add(4)?;
    bytes.get_mut(at..end)?.copy_from_slice(&crc.to_le_bytes());
    Some(())
}
