//! Proof of acceptance, and the way to wait for more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::io::sys::Home;
use crate::router::gate::Gate;
use crate::router::lane::{Lane, Stage};
use crate::units::millis;

/// A published batch (or, for an empty publish, everything the producer published before).
///
/// As a `Future` it completes at the stage at which `flush()` returns. Dropping a receipt changes
/// nothing about the batch.
#[derive(Debug)]
pub struct Receipt {
    gate: Arc<Gate>,
    lane: Arc<Lane>,
    /// Entries of the lane up to and including this batch.
    entries: u64,
    flush_stage: Stage,
    has_files: bool,
    /// Names its waker in the lane; 0 before the first poll.
    ticket: u64,
    home: Home,
}

impl Clone for Receipt {
    fn clone(&self) -> Self {
        Self {
            gate: Arc::clone(&self.gate),
            lane: Arc::clone(&self.lane),
            ticket: 0,
            ..*self
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if self.ticket != 0 && self.home.is_here() {
            self.lane
                .unwatch(self.flush_stage, self.entries, self.ticket);
        }
    }
}

/// While one exists, every commit ends with an fdatasync.
struct StableWait<'a>(&'a Gate);

impl<'a> StableWait<'a> {
    fn new(gate: &'a Gate) -> Self {
        gate.stable_waiters(1);
        Self(gate)
    }
}

impl Drop for StableWait<'_> {
    fn drop(&mut self) {
        self.0.stable_waiters(-1);
    }
}

impl Receipt {
    pub(crate) fn new(
        gate: Arc<Gate>,
        lane: Arc<Lane>,
        entries: u64,
        flush_stage: Stage,
        has_files: bool,
    ) -> Self {
        Self {
            gate,
            lane,
            entries,
            flush_stage,
            has_files,
            ticket: 0,
            home: Home::here(),
        }
    }

    /// Whether the batch has reached `stage`. [`Error::Misuse`] for a stage that this
    /// configuration can never reach.
    pub fn reached(&self, stage: Stage) -> Result<bool, Error> {
        self.home.check()?;
        match stage {
            Stage::Accepted => return Ok(true),
            Stage::Written | Stage::Stable if !self.has_files => {
                return Err(Error::Misuse(
                    "written and stable need a journal: set sf_dir",
                ));
            }
            Stage::Durable if !self.gate.expects_durable() => {
                return Err(Error::Misuse(
                    "durable needs request_durable_ack, which is off",
                ));
            }
            _ => {}
        }
        Ok(self.lane.reached(stage) >= self.entries)
    }

    /// Waits until the batch has reached `stage`: [`Error::Timeout`] after `timeout`, the latched
    /// error or [`Error::Closed`] when the engine ends before. Waiting for stable asks for an
    /// fdatasync in every mode.
    pub fn wait(&self, stage: Stage, timeout: Duration) -> Result<(), Error> {
        if self.reached(stage)? {
            return Ok(());
        }
        let start = Instant::now();
        let _sync = (stage == Stage::Stable).then(|| StableWait::new(&self.gate));
        self.gate.knock();
        let reached = || self.lane.reached(stage) >= self.entries;
        self.lane
            .wait(stage, timeout, || reached() || self.gate.is_over());
        if reached() {
            return Ok(());
        }
        Err(self.gate.ending().unwrap_or_else(|| Error::Timeout {
            stage: stage.name(),
            waited_millis: millis(start.elapsed()),
        }))
    }
}

impl Future for Receipt {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let stage = self.flush_stage;
        for registered in [false, true] {
            match self.reached(stage) {
                Err(error) => return Poll::Ready(Err(error)),
                Ok(true) => return Poll::Ready(Ok(())),
                Ok(false) => {}
            }
            if let Some(error) = self.gate.ending() {
                return Poll::Ready(Err(error));
            }
            if !registered {
                let (entries, ticket) = (self.entries, self.ticket);
                self.ticket = self.lane.watch(stage, entries, ticket, context.waker());
            }
        }
        Poll::Pending
    }
}
