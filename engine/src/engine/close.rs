//! Closing: everything accepted is written, what time allows is acked, the slot is released.

use std::time::{Duration, Instant};

use super::Engine;
use super::doorway::Started;
use crate::error::Error;
use crate::intake::RingFile;
use crate::io::Fs;
use crate::io::sys::monotonic_nanos;
use crate::router::gate::{Gate, lock};
use crate::shard::Remains;
use crate::slot::{self, Drained};
use crate::units::{millis, nanos};

/// How long drainers of other senders' slots may go on after `close` (protocol.md section 13.9).
const DRAINERS_LIMIT: Duration = Duration::from_millis(2_500);

impl Engine {
    /// Stops accepting rows, writes what was accepted, waits up to `close_flush_timeout_millis`
    /// until all of it is acked, and releases the slot. A drained slot is left empty; otherwise
    /// [`Error::NotDrained`] says what stays on disk. A latched terminal error is returned unless a
    /// call has returned it before.
    pub fn close(self) -> Result<(), Error> {
        self.home.check()?;
        self.finish(self.config.close_flush_timeout.unwrap_or(Duration::ZERO))
    }

    pub(super) fn finish(&self, wait: Duration) -> Result<(), Error> {
        let Some(mut running) = lock(&self.running).take() else {
            return Ok(());
        };
        let start = Instant::now();
        let now = monotonic_nanos();
        let deadline = now.saturating_add(nanos(wait));
        let orphans = running.orphans.take();
        if let Some(orphans) = &orphans {
            orphans.stop(now.saturating_add(nanos(wait.min(DRAINERS_LIMIT))));
        }
        let successor = running.successor.take();
        if let Some(successor) = &successor {
            successor.stop(deadline);
        }
        for gate in self.gates() {
            gate.close(deadline);
        }
        let ended = end_all(running.shards);
        if let Some(orphans) = orphans {
            orphans.join();
        }
        if let Some(successor) = successor {
            successor.join();
        }
        self.hall.herald.stop();
        drop(running.notifier);
        self.conclude(ended, start)
    }

    /// What `close` answers after the shards ended like this: the first terminal error that nobody
    /// was told, a slot that is not as it should be, or what is left.
    fn conclude(&self, ended: Vec<Result<Left, Error>>, start: Instant) -> Result<(), Error> {
        let mut left = Left::default();
        let mut failure = None;
        for (shard, outcome) in ended.into_iter().enumerate() {
            match outcome {
                Ok(rest) => left = left.plus(rest),
                Err(error) if failure.is_none() => failure = Some(error),
                Err(error) => {
                    tracing::warn!(shard, %error, "FB-C006 the slot was not left as it should be");
                }
            }
        }
        let Left {
            frames,
            bytes,
            untaken,
        } = left;
        if failure.is_none() && self.gates().any(|gate| gate.terminal().is_some()) {
            tracing::warn!(
                frames,
                bytes,
                untaken,
                "FB-C004 closed after a terminal error"
            );
        }
        // Every shard's counts as told now.
        let untold: Vec<Error> = self.gates().filter_map(Gate::take_undelivered).collect();
        if let Some(terminal) = untold.into_iter().next() {
            if let Some(error) = failure {
                tracing::warn!(%error, "FB-C006 the slot was not left as it should be");
            }
            return Err(terminal);
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if frames > 0 || untaken > 0 {
            let waited_millis = millis(start.elapsed());
            tracing::warn!(
                frames,
                bytes,
                untaken,
                waited_millis,
                "FB-C002 closed before all was acked"
            );
            return Err(Error::NotDrained {
                frames,
                bytes,
                untaken,
                waited_millis,
            });
        }
        Ok(())
    }
}

/// Ends all shards beside each other: one that hangs takes nobody else's time.
fn end_all(mut shards: Vec<Started>) -> Vec<Result<Left, Error>> {
    let last = shards.pop();
    std::thread::scope(|scope| {
        let others: Vec<_> = shards
            .into_iter()
            .map(|shard| scope.spawn(move || shard.end()))
            .collect();
        let last = last.map(Started::end);
        let joined = others.into_iter().map(|other| {
            let panicked = |_| Error::Internal("the end of a shard panicked".to_owned());
            other.join().map_err(panicked).flatten()
        });
        joined.chain(last).collect()
    })
}

/// What shards leave behind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Left {
    frames: u64,
    bytes: u64,
    untaken: u64,
}

impl Left {
    /// What one shard leaves.
    pub(super) fn of(remains: &Remains) -> Self {
        Self {
            frames: remains.frames,
            bytes: remains.bytes,
            untaken: remains.untaken,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            bytes: self.bytes + other.bytes,
            untaken: self.untaken + other.untaken,
        }
    }
}

impl Drop for Engine {
    /// Closes as [`Engine::close`] does, unless the thread is panicking: then without a wait. In a
    /// forked child it does nothing.
    fn drop(&mut self) {
        if !self.home.is_here() {
            return self.leave_to_the_parent();
        }
        let wait = self
            .config
            .close_flush_timeout
            .filter(|_| !std::thread::panicking());
        if let Err(error) = self.finish(wait.unwrap_or(Duration::ZERO)) {
            tracing::warn!(%error, "FB-C003 engine dropped");
        }
    }
}

/// The directory work of close, and the end of the lock.
pub(crate) fn hand_back(fs: &dyn Fs, remains: Remains) -> Result<(), Error> {
    let Some(left) = remains.slot else {
        return Ok(());
    };
    // The intake first: with it gone, what is left is a slot like any other.
    let cleared = RingFile::remove_all(&remains.rings);
    let mut files = left.files;
    // Whatever the steward still does to files of the slot is over first.
    files
        .incarnation
        .close()
        .map_err(|source| Error::disk("close", &files.dir, 0, source))?;
    let outcome = if remains.frames == 0 && remains.poisoned.is_none() {
        let drained = Drained {
            dir: &files.dir,
            manifest: &mut files.manifest,
            watermark: &mut files.watermark,
            segments: &left.segments,
            active_base: left.active_base,
            acked: left.acked,
        };
        // Dropping the older segments leaves the dictionary as the only copy of their symbols, as
        // in a trim: a power cut half-way through must not make the rest undeliverable.
        fs.sync(&files.dictionary)
            .map_err(|source| Error::disk("sync", &files.dir, 0, source))
            .and_then(|()| slot::close_drained(fs, drained))
    } else {
        Ok(())
    };
    files
        .incarnation
        .release(fs)
        .map_err(|source| Error::disk("unlock", &files.dir, 0, source))?;
    cleared.and(outcome)
}
