//! Reads of small files from anywhere: authorities, tokens, passwords. Symbolic links are followed.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The whole file, or an error if it is longer than `bytes_max`.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let reason = format!("longer than {bytes_max} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}
