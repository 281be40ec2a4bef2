//! The two notes that a drainer leaves in a slot (slot-format.md section 9).
//!
//! `.failed` keeps every later scan away until an operator removes it, so it is there as a whole or
//! not at all. `.last_error` is for people: it decides nothing and its own errors are ignored.

use std::io;
use std::path::Path;

use super::close::remove;
use super::names::{FAILED, LAST_ERROR};
use super::whole;
use crate::io::Fs;

/// Most bytes of a note.
const TEXT_BYTES_MAX: usize = 4096;

/// Marks a slot, whose lock is held, as given up; no newline at the end, as the official clients
/// write it.
pub(crate) fn mark_failed(fs: &dyn Fs, dir: &Path, reason: &str) -> io::Result<()> {
    whole::write(fs, dir, FAILED, cut(reason).as_bytes()).map(drop)
}

/// Notes why the slot, whose lock is held, is not drained yet.
pub(crate) fn note_error(fs: &dyn Fs, dir: &Path, cause: &str) {
    if let Err(error) = whole::write(fs, dir, LAST_ERROR, cut(cause).as_bytes()) {
        tracing::debug!(slot = %dir.display(), %error, "could not write .last_error");
    }
}

/// Removes that note.
pub(crate) fn clear_last_error(fs: &dyn Fs, dir: &Path) {
    if let Err(error) = remove(fs, dir, LAST_ERROR) {
        tracing::debug!(slot = %dir.display(), %error, "could not remove .last_error");
    }
}

/// The start of a text that a server may have chosen.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{TEXT_BYTES_MAX, cut};

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = format!("{}ä", "x".repeat(TEXT_BYTES_MAX - 1));
        assert_eq!(cut(&long).len(), TEXT_BYTES_MAX - 1);
    }
}
