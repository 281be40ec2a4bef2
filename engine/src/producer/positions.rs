//! The application's positions: an offset in its input, a sequence number of its exchange.
//!
//! Whoever feeds an engine from something that can be read again wants to know from where. A
//! position handed over with a flush comes back once everything up to it has reached a stage.

use std::sync::Arc;

use super::Producer;
use super::desk::{Desk, Way};
use crate::error::Error;
use crate::io::sys::Home;
use crate::router::gate::Gate;
use crate::router::lane::{Lane, Stage};

/// The highest position up to which everything has reached each stage; `None` where no position
/// has, or where the configuration knows no such stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Positions {
    /// In the shard's ring, see [`Stage::Accepted`].
    pub accepted: Option<u64>,
    /// In the journal.
    pub written: Option<u64>,
    /// Covered by an fdatasync.
    pub stable: Option<u64>,
    /// Confirmed by the server.
    pub acked: Option<u64>,
    /// Confirmed by a durable acknowledgement.
    pub durable: Option<u64>,
}

/// Shows a producer's [`Positions`] to other threads, also when the producer is gone.
#[derive(Debug, Clone)]
pub struct PositionWatch {
    ways: Arc<[Way]>,
    has_files: bool,
    home: Home,
}

impl PositionWatch {
    /// How far the producer's positions have come: some hundred loads, no lock, no wait. A
    /// position is never told early; with more than 256 of them on their way to a stage it may be
    /// told late, with one of the next. In a forked child no position is known.
    pub fn progress(&self) -> Positions {
        let ways = self.ways.iter().map(|way| (&*way.gate, &*way.lane));
        positions(self.home, &ways, self.has_files)
    }
}

fn positions<'a>(
    home: Home,
    ways: &(impl Iterator<Item = (&'a Gate, &'a Lane)> + Clone),
    has_files: bool,
) -> Positions {
    if !home.is_here() {
        return Positions::default();
    }
    // Every lane is told every position; the slowest shard decides.
    let passed = |stage| {
        let passed = |(_, lane): (_, &Lane)| lane.marks.passed(stage, lane.reached(stage));
        ways.clone().map(passed).min().flatten()
    };
    let on_disk = |stage| has_files.then(|| passed(stage)).flatten();
    let expects_durable = ways.clone().any(|(gate, _)| gate.expects_durable());
    Positions {
        accepted: passed(Stage::Accepted),
        written: on_disk(Stage::Written),
        stable: on_disk(Stage::Stable),
        acked: passed(Stage::Acked),
        durable: expects_durable.then(|| passed(Stage::Durable)).flatten(),
    }
}

impl Producer {
    /// As [`flush`](Self::flush); the rows published so far are everything up to `position`, which
    /// [`progress`](Self::progress) then reports stage by stage. Positions must not fall. A
    /// refusal carries the first and the last position that it concerns.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), forebay::Error> {
    /// # let engine = forebay::Engine::connect("ws::addr=localhost:9000;")?;
    /// # let mut rows = engine.producer()?;
    /// # let (offset, commit) = (17u64, |_offset| {});
    /// rows.flush_at(offset)?;
    /// if let Some(safe) = rows.progress().acked {
    ///     commit(safe); // everything up to here is in the database
    /// }
    /// # Ok(()) }
    /// ```
    pub fn flush_at(&mut self, position: u64) -> Result<(), Error> {
        let span = self.span_to(position)?;
        let outcome = self.publish();
        let receipt = outcome.map_err(|error| error.with_positions(span))?;
        self.mark(position);
        receipt.wait(self.options.flush_stage, self.flush_limit())
    }

    /// As [`flush_at`](Self::flush_at), but never waits: see [`try_flush`](Self::try_flush).
    pub fn try_flush_at(&mut self, position: u64) -> Result<(), Error> {
        let span = self.span_to(position)?;
        let outcome = self.try_flush();
        outcome.map_err(|error| error.with_positions(span))?;
        self.mark(position);
        Ok(())
    }

    /// How far the positions have come, see [`PositionWatch::progress`].
    pub fn progress(&self) -> Positions {
        let ways = self.desks().map(|desk| (&*desk.gate, &*desk.lane));
        positions(self.home, &ways, self.options.has_files)
    }

    /// The same for other threads.
    pub fn watch_progress(&self) -> PositionWatch {
        PositionWatch {
            ways: self.desks().map(Desk::way).collect(),
            has_files: self.options.has_files,
            home: self.home,
        }
    }

    /// The positions that a flush at `position` is about.
    fn span_to(&self, position: u64) -> Result<(u64, u64), Error> {
        match self.position {
            _ if position == u64::MAX => Err(Error::Misuse("a position below u64::MAX, please")),
            Some(last) if position < last => Err(Error::Misuse(
                "a position lower than one that was accepted: positions must not fall",
            )),
            Some(last) => Ok((position.min(last + 1), position)),
            None => Ok((0, position)),
        }
    }

    fn mark(&mut self, position: u64) {
        self.position = Some(position);
        for desk in self.desks() {
            let reached = |stage| desk.lane.reached(stage);
            desk.lane.marks.note(desk.published, position, reached);
        }
    }
}
