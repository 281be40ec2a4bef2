//! The pieces of a slot's files, read ahead by a second thread.
//!
//! Checking a piece takes a tenth of the time of reading it: the disk must not wait meanwhile. The
//! thread (`forebay-read`) lives for one scan. A small slot, and one that cannot have a thread, is
//! read by the caller.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::pieces::{PIECE_BYTES, Pieces, SegmentReader};
use super::progress::RecoveryProgress;
use super::takeover::Peeked;
use crate::error::Error;
use crate::io::sys::{block_signals, name_thread};
use crate::io::{Fs, Region};

/// Pieces in memory with a thread: one is checked, one is read, the others wait.
const PIECES: usize = 8;
/// A slot with fewer bytes than this is read in less time than a thread takes to start.
const THREAD_FROM_BYTES: u64 = 8 << 20;
/// Progress of a long scan is logged this often, in nanoseconds.
const PROGRESS_EVERY: u64 = 2_000_000_000;

/// Memory with the bytes of a piece at its start.
type Filled = (Region, usize);

/// Gives the pieces of one file after the other, and counts them.
pub(super) struct Supply<'a> {
    fs: &'a dyn Fs,
    dir: &'a Path,
    progress: &'a RecoveryProgress,
    told: u64,
    source: Source<'a>,
    current: Option<Filled>,
    /// Bytes of the file that are still to come.
    left: u64,
}

enum Source<'a> {
    Caller(SegmentReader<'a>),
    Thread {
        full: Receiver<Result<Filled, Error>>,
        free: Sender<Region>,
    },
}

/// Calls `use_it` with the pieces of `segments`.
pub(super) fn with_pieces<T>(
    fs: &dyn Fs,
    dir: &Path,
    segments: &[Peeked],
    progress: &RecoveryProgress,
    use_it: impl FnOnce(Supply<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let supply = |source| Supply {
        fs,
        dir,
        progress,
        told: fs.now(),
        source,
        current: None,
        left: 0,
    };
    let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let mut reader = SegmentReader::new(fs, dir, segments);
    if bytes < THREAD_FROM_BYTES {
        return use_it(supply(Source::Caller(reader)));
    }
    let (free, empty) = channel();
    for _ in 0..PIECES {
        let memory = Region::new(PIECE_BYTES);
        let memory = memory.map_err(|source| Error::disk("map memory for", dir, 0, source))?;
        let _ = free.send(memory);
    }
    let (filled, full) = sync_channel(PIECES);
    thread::scope(|scope| {
        let read = move || {
            block_signals();
            name_thread("forebay-read");
            read_ahead(&mut reader, &empty, &filled);
        };
        let source = match thread::Builder::new().spawn_scoped(scope, read) {
            Ok(_) => Source::Thread { full, free },
            Err(_) => Source::Caller(SegmentReader::new(fs, dir, segments)),
        };
        // The supply is dropped before the scope joins the thread, which ends the thread's wait.
        use_it(supply(source))
    })
}

/// Until the last file is read, a read fails, or nobody wants more.
fn read_ahead(
    reader: &mut SegmentReader<'_>,
    empty: &Receiver<Region>,
    filled: &SyncSender<Result<Filled, Error>>,
) {
    while let Ok(mut region) = empty.recv()
        && let Some(read) = reader.read(&mut region)
    {
        let failed = read.is_err();
        if filled.send(read.map(|len| (region, len))).is_err() || failed {
            return;
        }
    }
}

impl Supply<'_> {
    /// From now on the pieces are those of the next file, which has `bytes`.
    pub(super) fn begin(&mut self, bytes: u64) {
        self.release();
        self.left = bytes;
    }

    /// The file was read to its end.
    pub(super) fn end(&mut self) {
        self.progress.segment();
    }

    fn release(&mut self) {
        if let Some((region, _)) = self.current.take() {
            match &self.source {
                // Kept for the next piece.
                Source::Caller(_) => self.current = Some((region, 0)),
                // A thread that has ended needs none.
                Source::Thread { free, .. } => drop(free.send(region)),
            }
        }
    }

    fn tell(&mut self) {
        let now = self.fs.now();
        if now.saturating_sub(self.told) > PROGRESS_EVERY {
            self.told = now;
            let progress = self.progress;
            tracing::info!(
                slot = %self.dir.display(),
                bytes = progress.bytes_scanned(),
                of_bytes = progress.bytes_total(),
                segments = progress.segments_scanned(),
                of_segments = progress.segments_total(),
                "FB-R010 recovery: scanning"
            );
        }
    }
}

impl Pieces for Supply<'_> {
    fn advance(&mut self) -> Result<(), Error> {
        self.release();
        if self.left == 0 {
            return Ok(());
        }
        let lost = || {
            let source = std::io::Error::other("the thread that reads ahead is gone");
            Error::disk("read", self.dir, 0, source)
        };
        let filled = match &mut self.source {
            Source::Thread { full, .. } => full.recv().map_err(|_| lost())??,
            Source::Caller(reader) => {
                let mut region = match self.current.take() {
                    Some((region, _)) => region,
                    None => Region::new(PIECE_BYTES)
                        .map_err(|source| Error::disk("map memory for", self.dir, 0, source))?,
                };
                let len = reader.read(&mut region).unwrap_or_else(|| Err(lost()))?;
                (region, len)
            }
        };
        let len = filled.1 as u64;
        self.current = Some(filled);
        self.left = self.left.saturating_sub(len);
        self.progress.piece(len);
        self.tell();
        Ok(())
    }

    fn piece(&self) -> &[u8] {
        self.current
            .as_ref()
            .map_or(&[], |(region, len)| region.slice(0..*len))
    }
}
