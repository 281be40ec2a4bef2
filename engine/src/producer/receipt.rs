//! Proof of acceptance, and the way to wait for more.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::desk::Way;
use crate::error::Error;
use crate::io::sys::Home;
use crate::router::lane::Stage;
use crate::units::millis;

/// A published batch (or, for an empty publish, everything the producer published before).
///
/// As a `Future` it completes at the stage at which `flush()` returns. Dropping a receipt changes
/// nothing about the batch.
#[derive(Debug)]
pub struct Receipt {
    leg: Leg,
    /// Where a batch went to several shards.
    others: Box<[Leg]>,
    flush_stage: Stage,
    has_files: bool,
    home: Home,
}

/// What went to one shard.
#[derive(Debug)]
struct Leg {
    way: Way,
    /// Entries of the lane up to and including this batch.
    entries: u64,
    /// Names its waker in the lane; 0 while there is none.
    ticket: u64,
}

impl Leg {
    fn has_reached(&self, stage: Stage) -> bool {
        self.way.lane.reached(stage) >= self.entries
    }
}

impl Clone for Leg {
    fn clone(&self) -> Self {
        Self {
            way: self.way.clone(),
            ticket: 0,
            ..*self
        }
    }
}

impl Clone for Receipt {
    fn clone(&self) -> Self {
        Self {
            leg: self.leg.clone(),
            others: self.others.clone(),
            ..*self
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if !self.home.is_here() {
            return;
        }
        for leg in self.legs().filter(|leg| leg.ticket != 0) {
            let lane = &leg.way.lane;
            lane.unwatch(self.flush_stage, leg.entries, leg.ticket);
        }
    }
}

/// While one exists, every commit of the legs' shards ends with an fdatasync.
struct StableWait<'a>(&'a Receipt);

impl<'a> StableWait<'a> {
    fn new(receipt: &'a Receipt) -> Self {
        let legs = receipt.legs();
        legs.for_each(|leg| leg.way.gate.stable_waiters(1));
        Self(receipt)
    }
}

impl Drop for StableWait<'_> {
    fn drop(&mut self) {
        let legs = self.0.legs();
        legs.for_each(|leg| leg.way.gate.stable_waiters(-1));
    }
}

impl Receipt {
    pub(super) fn new(way: Way, entries: u64, flush_stage: Stage, has_files: bool) -> Self {
        Self {
            leg: Leg {
                way,
                entries,
                ticket: 0,
            },
            others: Box::default(),
            flush_stage,
            has_files,
            home: Home::here(),
        }
    }

    /// The same, of what went these ways too.
    pub(super) fn and(self, others: impl Iterator<Item = (Way, u64)>) -> Self {
        let ticket = 0;
        let leg = |(way, entries)| Leg {
            way,
            entries,
            ticket,
        };
        let others = others.map(leg).collect();
        let mut receipt = self;
        receipt.others = others;
        receipt
    }

    fn legs(&self) -> impl Iterator<Item = &Leg> {
        std::iter::once(&self.leg).chain(&self.others)
    }

    /// Whether the batch has reached `stage`, at every shard that it went to. [`Error::Misuse`]
    /// for a stage that this configuration can never reach.
    pub fn reached(&self, stage: Stage) -> Result<bool, Error> {
        self.home.check()?;
        match stage {
            Stage::Accepted => return Ok(true),
            Stage::Written | Stage::Stable if !self.has_files => {
                return Err(Error::Misuse(
                    "written and stable need a journal: set sf_dir",
                ));
            }
            Stage::Durable if !self.leg.way.gate.expects_durable() => {
                return Err(Error::Misuse(
                    "durable needs request_durable_ack, which is off",
                ));
            }
            _ => {}
        }
        Ok(self.legs().all(|leg| leg.has_reached(stage)))
    }

    /// Waits until the batch has reached `stage`: [`Error::Timeout`] after `timeout`, the latched
    /// error or [`Error::Closed`] when the engine ends before. Waiting for stable asks for an
    /// fdatasync in every mode.
    pub fn wait(&self, stage: Stage, timeout: Duration) -> Result<(), Error> {
        if self.reached(stage)? {
            return Ok(());
        }
        let start = Instant::now();
        let _sync = (stage == Stage::Stable).then(|| StableWait::new(self));
        self.legs().for_each(|leg| leg.way.gate.knock());
        for leg in self.legs() {
            let Way { gate, lane } = &leg.way;
            let left = timeout.saturating_sub(start.elapsed());
            lane.wait(stage, left, || leg.has_reached(stage) || gate.is_over());
            if !leg.has_reached(stage) {
                return Err(gate.ending().unwrap_or_else(|| Error::Timeout {
                    stage: stage.name(),
                    waited_millis: millis(start.elapsed()),
                }));
            }
        }
        Ok(())
    }
}

impl Future for Receipt {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let stage = this.flush_stage;
        for registered in [false, true] {
            match this.reached(stage) {
                Err(error) => return Poll::Ready(Err(error)),
                Ok(true) => return Poll::Ready(Ok(())),
                Ok(false) => {}
            }
            // One after the other: woken by the first, the task comes to the next.
            let mut legs = std::iter::once(&mut this.leg).chain(&mut this.others);
            let Some(leg) = legs.find(|leg| !leg.has_reached(stage)) else {
                continue;
            };
            let Way { gate, lane } = &leg.way;
            if let Some(error) = gate.ending() {
                return Poll::Ready(Err(error));
            }
            if !registered {
                leg.ticket = lane.watch(stage, leg.entries, leg.ticket, context.waker());
            }
        }
        Poll::Pending
    }
}
