//! Writing zeros over a whole file, around the page cache: its blocks are then written ones, which
//! later writes and their fdatasyncs find cheaper than reserved ones.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use super::{BLOCK, HUGE, Region, check, retry};
use crate::io::fs::{Between, FILL_BYTES};

/// Fills `bytes` of `file`, which are reserved, with `start` and zeros behind it. `between` is
/// called after each piece; its error ends the work.
pub(super) fn fill(
    file: &std::fs::File,
    bytes: u64,
    start: &[u8],
    between: Between<'_>,
) -> io::Result<()> {
    if bytes.is_multiple_of(BLOCK as u64) {
        // Where the filesystem refuses, the page cache does it.
        let _ = set_direct(file);
    }
    // One huge page: see there.
    let mut zeros = Region::new(HUGE.max(FILL_BYTES))?;
    let head = start.len().min(FILL_BYTES);
    zeros.slice_mut(0..head).copy_from_slice(&start[..head]);
    let mut done = 0;
    while done < bytes {
        let left = usize::try_from(bytes - done).unwrap_or(FILL_BYTES);
        let piece = left.min(FILL_BYTES);
        file.write_all_at(zeros.slice(0..piece), done)?;
        if done == 0 {
            zeros.slice_mut(0..head).fill(0);
        }
        done += piece as u64;
        between()?;
    }
    Ok(())
}

/// From now on the file is written around the page cache.
pub(super) fn set_direct(file: &std::fs::File) -> io::Result<()> {
    // SAFETY: no pointers; the descriptor is open.
    let flags = retry(|| check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) }))?;
    let flags = flags | libc::O_DIRECT;
    // SAFETY: no pointers; the descriptor is open.
    retry(|| check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) })).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_written_and_the_beginning_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for bytes in [4096, FILL_BYTES as u64 * 2 + 8192, 1000] {
            std::fs::write(&path, vec![0xAA; usize::try_from(bytes).unwrap()]).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            let mut pieces = 0;
            fill(&file, bytes, b"head", &mut || {
                pieces += 1;
                Ok(())
            })
            .unwrap();
            assert_eq!(pieces, bytes.div_ceil(FILL_BYTES as u64));
            let found = std::fs::read(&path).unwrap();
            assert_eq!(found.len() as u64, bytes);
            assert_eq!(&found[..4], b"head");
            assert!(found[4..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn an_error_between_two_pieces_ends_the_work() {
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(dir.path().join("f")).unwrap();
        let error = fill(&file, 4 * FILL_BYTES as u64, b"", &mut || {
            Err(io::ErrorKind::Interrupted.into())
        });
        assert!(error.is_err());
        assert_eq!(file.metadata().unwrap().len(), FILL_BYTES as u64);
    }

    /// Where the first hole is; blocks that are reserved and were never written are one.
    fn first_hole(file: &std::fs::File) -> u64 {
        // SAFETY: no pointers; the descriptor is open.
        let at = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_HOLE) };
        u64::try_from(at).expect("a filesystem that knows")
    }

    #[test]
    fn reserved_blocks_are_written_ones_afterwards() {
        use crate::io::sys::RealFs;
        use crate::io::{Fs, OpenMode};

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = RealFs.open(&path, OpenMode::CreateNew).unwrap();
        RealFs.allocate(&file, 2 << 20).unwrap();
        let again = std::fs::File::options().write(true).open(&path).unwrap();
        assert_eq!(first_hole(&again), 0);
        fill(&again, 2 << 20, b"head", &mut || Ok(())).unwrap();
        again.sync_data().unwrap();
        assert_eq!(first_hole(&again), 2 << 20, "no hole but the end");
    }
}
