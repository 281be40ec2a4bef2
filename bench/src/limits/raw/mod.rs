//! What the disk gives to a loop that does nothing but write to files made before, in the shape of
//! the engine's writes: one write at a time, group commits of [`GROUP_BYTES`].

mod memory;
mod ring;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

pub(super) use self::memory::Aligned;
use self::memory::BLOCK;
pub(super) use self::ring::Completions;
use self::ring::RawRing;
use super::figures::{float, nanos};

/// Frames of 32 KiB that go with one group commit, in bytes.
const GROUP_BYTES: usize = 512 << 10;
/// Zeros are written in pieces of this size.
const ZERO_BYTES: usize = 1 << 20;
/// Files kept ready beside the one that is written.
const FILES_AHEAD: usize = 2;

/// What the blocks of a file are when the loop comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extents {
    /// Reserved before, never written.
    Fresh,
    /// Reserved by another thread while the loop writes the file before.
    FreshBeside,
    /// Written and flushed before.
    Written,
    /// Zero-filled by another thread while the loop writes the file before.
    FilledBeside,
}

/// What a loop writes to, and by which kind of ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) extents: Extents,
    pub(super) completions: Completions,
}

impl From<Extents> for Target {
    /// By the ring that suits a loop best.
    fn from(extents: Extents) -> Self {
        let completions = Completions::Deferred;
        Self {
            extents,
            completions,
        }
    }
}

fn make(path: &Path, bytes: u64, written: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).read(true).write(true);
    let file = options.custom_flags(libc::O_DIRECT).open(path)?;
    let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: a plain system call on a descriptor that is open.
    let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    if written {
        let zeros = Aligned::new(ZERO_BYTES, false);
        for at in (0..bytes).step_by(ZERO_BYTES) {
            let len = zeros
                .bytes()
                .len()
                .min(usize::try_from(bytes - at).unwrap_or(ZERO_BYTES));
            file.write_all_at(&zeros.bytes()[..len], at)?;
        }
    }
    file.sync_all()?;
    Ok(file)
}

/// Files one after the other, of `bytes` each.
fn files(dir: PathBuf, count: usize, bytes: u64, extents: Extents) -> Receiver<io::Result<File>> {
    let beside = matches!(extents, Extents::FreshBeside | Extents::FilledBeside);
    let filled = matches!(extents, Extents::Written | Extents::FilledBeside);
    let (ready, taken) = sync_channel(if beside { FILES_AHEAD } else { count });
    let work = move || {
        for number in 0..count {
            let path = dir.join(format!("raw-{number}"));
            let file = make(&path, bytes, filled);
            if ready.send(file).is_err() {
                return;
            }
        }
    };
    if beside {
        std::thread::spawn(work);
    } else {
        work();
    }
    taken
}

/// Bytes per second of group commits over `count` files of `file_bytes`.
pub(super) fn groups(
    dir: &Path,
    count: usize,
    file_bytes: u64,
    target: impl Into<Target>,
    sync: bool,
) -> io::Result<f64> {
    let target = target.into();
    let files = files(dir.to_path_buf(), count, file_bytes, target.extents);
    let group = Aligned::new(GROUP_BYTES, true);
    let mut ring = RawRing::new(target.completions)?;
    let next = || files.recv().map_err(io::Error::other)?;
    let mut file = next()?;
    let began = Instant::now();
    for number in 1..=count {
        for at in (0..file_bytes).step_by(GROUP_BYTES) {
            ring.write(&file, group.bytes(), at, sync)?;
        }
        if number < count {
            file = next()?;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let bytes = count as u64 * file_bytes;
    Ok(float(bytes) / seconds)
}

/// Time of each of `count` writes of 4 KiB with an fdatasync, with a pause before each.
pub(super) fn singles(
    dir: &Path,
    count: usize,
    pause: Duration,
    target: impl Into<Target>,
) -> io::Result<Vec<u64>> {
    let target = target.into();
    let bytes = (count * BLOCK) as u64;
    let file = files(dir.to_path_buf(), 1, bytes, target.extents);
    let file = file.recv().map_err(io::Error::other)??;
    let block = Aligned::new(BLOCK, true);
    let mut ring = RawRing::new(target.completions)?;
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let began = Instant::now();
        ring.write(&file, block.bytes(), (number * BLOCK) as u64, true)?;
        times.push(nanos(began.elapsed()));
    }
    Ok(times)
}
