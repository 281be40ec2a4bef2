//! The pieces of a slot's files, read ahead by two threads.
//!
//! Checking a piece takes a tenth of the time of reading it, and waking a thread a twentieth: the
//! disk must not wait meanwhile. So two threads (`forebay-read`) take turns, and there is always a
//! read under way. They live for one scan. A small slot, and one that cannot have threads, is read
//! by the caller.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::pieces::{PIECE_BYTES, Pieces, SegmentReader};
use super::progress::RecoveryProgress;
use super::takeover::Peeked;
use crate::error::Error;
use crate::io::sys::{block_signals, name_thread};
use crate::io::{Fs, Region};

/// Bytes of a piece that is read ahead: each costs two threads a wake-up.
pub(super) const AHEAD_BYTES: usize = 4 << 20;
/// Threads that read.
const READERS: usize = 2;
/// Pieces in the memory of each: one is read while one is checked or waits.
const PIECES_EACH: usize = 2;
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
    Threads {
        lanes: Vec<Lane>,
        /// The lane that has the next piece.
        turn: usize,
    },
}

/// The near end of a thread that reads.
struct Lane {
    full: Receiver<Result<Filled, Error>>,
    free: Sender<Region>,
}

/// The far end.
struct FarEnd {
    empty: Receiver<Region>,
    filled: SyncSender<Result<Filled, Error>>,
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
    let alone = || Source::Caller(SegmentReader::new(fs, dir, segments, 0, 1));
    let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
    if bytes < THREAD_FROM_BYTES {
        return use_it(supply(alone()));
    }
    let mut ends = Vec::with_capacity(READERS);
    for _ in 0..READERS {
        ends.push(lane().map_err(|source| Error::disk("map memory for", dir, 0, source))?);
    }
    thread::scope(|scope| {
        let mut lanes = Vec::with_capacity(READERS);
        for (index, (near, far)) in ends.into_iter().enumerate() {
            let mut reader = SegmentReader::new(fs, dir, segments, index, READERS);
            let read = move || {
                block_signals();
                name_thread("forebay-read");
                read_ahead(&mut reader, &far);
            };
            if thread::Builder::new().spawn_scoped(scope, read).is_err() {
                // Without its near end a thread that did start ends.
                drop(lanes);
                return use_it(supply(alone()));
            }
            lanes.push(near);
        }
        // The supply is dropped before the scope joins the threads, which ends their wait.
        use_it(supply(Source::Threads { lanes, turn: 0 }))
    })
}

/// Both ends of a lane, with its memory on the way to the thread.
fn lane() -> io::Result<(Lane, FarEnd)> {
    let (free, empty) = channel();
    for _ in 0..PIECES_EACH {
        // The other end is here.
        let _ = free.send(Region::new(AHEAD_BYTES)?);
    }
    let (filled, full) = sync_channel(PIECES_EACH);
    Ok((Lane { full, free }, FarEnd { empty, filled }))
}

/// Until the last file is read, a read fails, or nobody wants more.
fn read_ahead(reader: &mut SegmentReader<'_>, far: &FarEnd) {
    while let Ok(mut region) = far.empty.recv()
        && let Some(read) = reader.read(&mut region)
    {
        let failed = read.is_err();
        if far.filled.send(read.map(|len| (region, len))).is_err() || failed {
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
            match &mut self.source {
                // Kept for the next piece.
                Source::Caller(_) => self.current = Some((region, 0)),
                Source::Threads { lanes, turn } => {
                    // A thread that has ended needs none.
                    if let Some(lane) = lanes.get(*turn) {
                        let _ = lane.free.send(region);
                    }
                    *turn = (*turn + 1) % READERS;
                }
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
            let source = io::Error::other("the thread that reads ahead is gone");
            Error::disk("read", self.dir, 0, source)
        };
        let filled = match &mut self.source {
            Source::Threads { lanes, turn } => {
                let lane = lanes.get(*turn).ok_or_else(lost)?;
                lane.full.recv().map_err(|_| lost())??
            }
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
