//! Files that are there as a whole or not at all: written under another name, synced, renamed.

use std::io;
use std::path::Path;

use super::names;
use crate::io::{File, Fs, OpenMode};

/// Makes `dir/name` hold exactly `bytes`, durably; what had the name before is replaced. The file
/// is open for buffered reading and writing.
pub(crate) fn write(fs: &dyn Fs, dir: &Path, name: &str, bytes: &[u8]) -> io::Result<File> {
    let file = start(fs, dir, name)?;
    let written = fs.write_at(&file, bytes, 0);
    finish(fs, dir, name, file, written)
}

/// The text of `dir/name`, at most so many bytes of it; `None` if there is no such file or `dir`.
pub(crate) fn read(
    fs: &dyn Fs,
    dir: &Path,
    name: &str,
    bytes_max: usize,
) -> io::Result<Option<String>> {
    let file = match fs.open(&dir.join(name), OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let bytes = usize::try_from(fs.bytes(&file)?).unwrap_or(bytes_max);
    let mut text = vec![0; bytes.min(bytes_max)];
    let len = fs.read_at(&file, &mut text, 0)?;
    text.truncate(len);
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

/// Opens the file that is to become `dir/name`, empty.
pub(crate) fn start(fs: &dyn Fs, dir: &Path, name: &str) -> io::Result<File> {
    let file = fs.open(&dir.join(names::temporary(name)), OpenMode::Create)?;
    fs.set_bytes(&file, 0)?;
    Ok(file)
}

/// Gives the file its name, if it was written; else removes it.
pub(crate) fn finish(
    fs: &dyn Fs,
    dir: &Path,
    name: &str,
    file: File,
    written: io::Result<()>,
) -> io::Result<File> {
    let temporary = dir.join(names::temporary(name));
    let named = written
        .and_then(|()| fs.sync(&file))
        .and_then(|()| fs.rename(&temporary, &dir.join(name)));
    if let Err(error) = named {
        // A full disk is the likely cause: the half file must not make it fuller.
        let _ = fs.unlink(&temporary);
        return Err(error);
    }
    fs.sync_dir(dir)?;
    Ok(file)
}
