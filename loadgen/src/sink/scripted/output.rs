//! Answers on their way to the socket, each written when it is due, in their order.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::transport::Transport;

#[derive(Debug, Default)]
pub(super) struct Output {
    /// What the session writes into; not queued yet.
    pub(super) fresh: Vec<u8>,
    pub(super) delay: Duration,
    queue: VecDeque<(Instant, Vec<u8>)>,
}

impl Output {
    /// Queues what is fresh behind what was queued before.
    pub(super) fn queue(&mut self, now: Instant) {
        if self.fresh.is_empty() {
            return;
        }
        let before = self.queue.back().map_or(now, |(due, _)| *due);
        let due = before.max(now + self.delay);
        self.queue.push_back((due, std::mem::take(&mut self.fresh)));
    }

    /// Writes what is due by then.
    pub(super) fn write_due(&mut self, to: &mut Transport<'_>, now: Instant) -> io::Result<()> {
        while let Some((_, bytes)) = self.queue.pop_front_if(|(due, _)| *due <= now) {
            to.write(&bytes)?;
        }
        Ok(())
    }

    /// When the next answer is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.queue.front().map(|(due, _)| *due)
    }
}
