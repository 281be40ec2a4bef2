//! One connection: bytes under way in both directions, and the peer at the far end.

use std::collections::VecDeque;

use super::random::Rng;
use super::server::Peer;

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    pub(super) pieces: VecDeque<(u64, Vec<u8>)>,
    pub(super) bytes: usize,
    pub(super) last_due: u64,
}

impl Pipe {
    pub(super) fn push(&mut self, bytes: &[u8], due: u64) {
        self.last_due = self.last_due.max(due);
        self.bytes += bytes.len();
        self.pieces.push_back((self.last_due, bytes.to_vec()));
    }

    pub(super) fn next_at(&self) -> u64 {
        self.pieces.front().map_or(u64::MAX, |(due, _)| *due)
    }

    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let (_, piece) = self.pieces.pop_front()?;
        self.bytes -= piece.len();
        Some(piece)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dial {
    Connects,
    Refused,
    Hangs,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) dial: Dial,
    pub(super) dialed_at: u64,
    pub(super) up: Pipe,
    pub(super) down: Pipe,
    pub(super) peer: Peer,
    pub(super) breaks_at: u64,
    /// When the client sees the end, and whether it is a reset.
    pub(super) ended: Option<(u64, bool)>,
    /// The far end is gone, and nobody told.
    pub(super) vanished: bool,
}

impl Connection {
    /// The server's side is over: nothing more arrives there, and the client learns of it after
    /// what was sent before.
    pub(super) fn end(&mut self, now: u64, reset: bool) {
        self.breaks_at = u64::MAX;
        if self.ended.is_none() {
            self.up = Pipe::default();
            self.ended = Some((self.down.last_due.max(now) + 1, reset));
            // A server that is gone acknowledges nothing.
            self.peer.fall_silent();
        }
    }

    /// The far end is gone without a word: nothing arrives any more on either side.
    pub(super) fn vanish(&mut self) {
        self.breaks_at = u64::MAX;
        if self.ended.is_none() {
            self.vanished = true;
            (self.up, self.down) = (Pipe::default(), Pipe::default());
            self.peer.fall_silent();
        }
    }

    /// A prefix of what is on its way still arrives; its answers do not.
    pub(super) fn deliver_some(&mut self, rng: &mut Rng, now: u64) {
        let count = rng.index(self.up.pieces.len() + 1);
        for _ in 0..count {
            let Some(piece) = self.up.pop() else { return };
            if self.peer.arrive(&piece, now, &mut Vec::new()).is_some() {
                return;
            }
        }
    }
}
