//! The steward of the simulated world: one request after the other, each answered after a delay.

use std::collections::VecDeque;

use super::clock::SimClock;
use super::disk::SimFs;
use super::fate::{Event, Fate};
use super::random::Rng;
use crate::io::{Reply, Request};
use crate::steward::perform;

/// Longest time a request takes, in nanoseconds.
const REQUEST_NANOS: u64 = 8_000_000;
/// Requests that may wait.
const QUEUE: usize = 64;

/// Requests waiting for their turn.
#[derive(Debug)]
pub(crate) struct SimSteward {
    fs: SimFs,
    clock: SimClock,
    fate: Fate,
    rng: Rng,
    waiting: VecDeque<(u64, Request)>,
}

impl SimSteward {
    /// `fs` makes the calls of the process with this fate.
    pub(crate) fn new(fs: SimFs, clock: SimClock, fate: Fate, rng: Rng) -> Self {
        Self {
            fs,
            clock,
            fate,
            rng,
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn request(&mut self, request: Request) -> Result<(), Request> {
        let asks = || Event::Ask(name_of(&request));
        if self.waiting.len() >= QUEUE || !self.fate.step(asks) {
            return Err(request);
        }
        let from = self
            .waiting
            .back()
            .map_or(self.clock.now(), |(due, _)| *due);
        self.waiting
            .push_back((from + self.rng.between(10_000, REQUEST_NANOS), request));
        Ok(())
    }

    /// Does what is due.
    pub(super) fn reply(&mut self) -> Option<Reply> {
        let now = self.clock.now();
        let (_, request) = self.waiting.pop_front_if(|(due, _)| *due <= now)?;
        let reply = perform(&self.fs, request, false, &mut || Ok(()));
        // An answer that tells of the process's death reaches nobody.
        (!self.fate.is_dead()).then_some(reply)
    }

    /// Chance starts anew.
    pub(super) fn reseed(&mut self, rng: Rng) {
        self.rng = rng;
    }

    /// When the next answer comes.
    pub(crate) fn next_at(&self) -> u64 {
        self.waiting.front().map_or(u64::MAX, |(due, _)| *due)
    }

    /// The process dies: what was asked for first may be half done.
    pub(crate) fn abandon(&mut self) {
        if let Some((_, request)) = self.waiting.pop_front() {
            let steps = u32::try_from(self.rng.below(8)).expect("a small number");
            // Nobody is left to hear the answer.
            drop(perform(
                &self.fs.clone().dying_after(steps),
                request,
                false,
                &mut || Ok(()),
            ));
        }
        self.waiting.clear();
    }

    /// Its shard panicked: what it does from now on it does not do for that one, and of what it was
    /// asked for it may have done some, to the end.
    pub(super) fn begin_again(&mut self) {
        let done = self.rng.below(self.waiting.len() as u64 + 1);
        for _ in 0..done {
            if let Some((_, request)) = self.waiting.pop_front() {
                drop(perform(&self.fs, request, false, &mut || Ok(())));
            }
        }
        self.waiting.clear();
    }

    /// The engine closes in order: the steward does what it was asked for.
    pub(crate) fn finish(&mut self) {
        while let Some((_, request)) = self.waiting.pop_front() {
            drop(perform(&self.fs, request, false, &mut || Ok(())));
        }
    }
}

fn name_of(request: &Request) -> &'static str {
    match request {
        Request::MakeSpare { .. } => "make a spare",
        Request::Memory { .. } => "bring in memory",
        Request::Remove { .. } => "remove segments",
        Request::Rebuild(_) => "write files anew",
        Request::Open { .. } => "open a segment",
        Request::Keep { .. } => "keep refused rows",
        Request::Close { .. } => "close a segment",
        Request::RemoveRing(_) => "remove a ring",
        Request::Renew { .. } => "renew the slot",
        Request::Resolve(_) => "resolve a name",
    }
}
