//! Moving a slot's intake into segments without an engine: for `forebay settle`, a way back to the
//! official client. Public through `internals`.

use std::path::Path;
use std::sync::Arc;

use super::{OpenedIntake, hand_back, open_slot};
use crate::config::Config;
use crate::error::Error;
use crate::io::Fs;
use crate::io::offline::OfflineIo;
use crate::io::sys::{EventFd, RealFs, monotonic_nanos};
use crate::router::gate::Gate;
use crate::shard::{Next, Shard};

/// What was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// Batches that were moved into segments.
    pub batches: u64,
    /// Batches that were in the journal already.
    pub skipped: u64,
    /// Rings of which something could not be moved; it is kept as `.lost-*`.
    pub rings_lost: u64,
    /// Bytes of it.
    pub bytes_lost: u64,
    /// Frames in the slot that no server has confirmed.
    pub frames: u64,
}

/// Moves what is in the intake of `<sf_dir>/<sender_id>` into its segments, and removes the intake.
/// Plain calls that wait: it works where io_uring is forbidden, but needs direct I/O. New segments
/// have `segment_bytes`.
///
/// # Errors
/// As opening the slot; [`Error::Poisoned`] when a write failed: what was not moved stays in the
/// intake.
pub fn settle(sf_dir: &Path, sender_id: &str, segment_bytes: u64) -> Result<Settled, Error> {
    // The values are given as such: a path may hold what a connect string would have to escape.
    let mut config = Config::parse("ws::addr=localhost;sf_dir=x;")?;
    config.sf_dir = Some(sf_dir.to_path_buf());
    sender_id.clone_into(&mut config.sender_id);
    config.segment_bytes = segment_bytes;
    let bell = EventFd::new().map_err(|error| Error::Internal(error.to_string()))?;
    let gate = Arc::new(Gate::new(bell));
    let handover = open_slot(&RealFs, &config)?.expect("there is a directory");
    let lock = handover.slot.lock.clone();
    let moved = OpenedIntake::open(&handover.slot, &config).and_then(|intake| {
        intake.join(&gate);
        let mut shard = Shard::new(&config, Arc::clone(&gate), Some(handover))?;
        let mut io = OfflineIo::default();
        gate.close(monotonic_nanos());
        loop {
            match shard.turn(&mut io) {
                Next::Exit => break,
                Next::Again => {}
                Next::Park(_) => std::thread::yield_now(),
            }
        }
        shard.stop(&mut io);
        let remains = shard.into_remains();
        let (frames, poisoned) = (remains.frames, remains.poisoned.clone());
        let handed = hand_back(&RealFs, remains);
        match (poisoned, gate.terminal()) {
            (Some(cause), _) => return Err(Error::Poisoned { cause }),
            (None, Some(terminal)) => return Err(terminal.to_error()),
            (None, None) => handed?,
        }
        let counted = gate.counters.stats();
        Ok(Settled {
            batches: counted.intake_entries_recovered,
            skipped: counted.intake_entries_skipped,
            rings_lost: counted.intake_rings_lost,
            bytes_lost: counted.intake_bytes_lost,
            frames,
        })
    });
    if moved.is_err() {
        // Nothing is in flight: everything was waited for.
        let _ = RealFs.unlock(&lock);
    }
    moved
}
