//! What goes out: frames masked from the journal's memory, control frames.

use std::io;
use std::sync::Arc;

use forebay_wire::header::{Flags, Header};
use forebay_wire::ws::{Opcode, append_client_frame, client_frame_len, close, write_client_frame};

use super::{Link, State};
use crate::delivery::{Conversation, End, Failure};
use crate::fsn::Fsn;
use crate::io::{Io, Transport};
use crate::router::gate::Gate;
use crate::shard::fault::{self, Place};
use crate::shard::journal::{Journal, Position};
use crate::shard::replay::Fetch;
use crate::slot::Dictionary;
use crate::slot::frame::FRAME_HEADER_BYTES;

/// Bytes gathered for one write to the socket.
pub(super) const OUTBOX_BYTES: usize = 256 << 10;
/// Most bytes handed to the socket in one turn: acknowledgements and the intake wait no longer.
const TURN_BYTES_MAX: usize = 1 << 20;
/// Most frames passed over in one turn because they were acked before.
const SKIPS_MAX: u32 = 4096;
/// Most bytes that may wait for the socket when a pong is added to them.
const PONG_BACKLOG_MAX: usize = 1 << 20;
/// Most bytes of a WebSocket frame header from a client.
const HEADER_BYTES_MAX: usize = 14;

/// Why a frame cannot be sent on this connection.
pub(super) enum Unsent {
    /// Another connection may take it.
    Later(String),
    /// Another server may take it.
    Blocked(String),
    /// No connection will.
    Never(String),
}

/// Where the sender stands and what waits for the socket.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) gate: Arc<Gate>,
    pub(super) position: Position,
    /// Everything below was sent at least once: sending it again is a replay.
    pub(super) sent_before: Fsn,
    pub(super) batch_bytes_max: Option<u64>,
    /// Symbols registered on this connection, by catch-up and by frames' own deltas.
    pub(super) registered: u32,
    buffer: Vec<u8>,
    pub(super) used: usize,
    sent: usize,
    said_goodbye: bool,
}

impl Outgoing {
    pub(super) fn new(journal: &Journal, gate: Arc<Gate>) -> Self {
        Self {
            gate,
            position: journal.start_of(journal.acked()),
            sent_before: journal.acked(),
            batch_bytes_max: None,
            registered: 0,
            buffer: vec![0; OUTBOX_BYTES],
            used: 0,
            sent: 0,
            said_goodbye: false,
        }
    }

    /// A fresh connection: catch-up, then everything that is not acked.
    pub(super) fn restart(&mut self, journal: &Journal) {
        self.position = journal.start_of(journal.acked());
        self.registered = 0;
        self.said_goodbye = false;
        (self.used, self.sent) = (0, 0);
    }

    /// Replaces what waits by `bytes`, unframed.
    pub(super) fn set(&mut self, bytes: &[u8]) {
        (self.used, self.sent) = (0, 0);
        self.room(bytes.len()).copy_from_slice(bytes);
    }

    /// Whether bytes wait for the socket.
    pub(super) fn pending(&self) -> bool {
        self.sent < self.used
    }

    /// The next `bytes` of the buffer, which grows to the largest frame and stays there.
    #[inline]
    pub(super) fn room(&mut self, bytes: usize) -> &mut [u8] {
        let (start, end) = (self.used, self.used + bytes);
        if end > self.buffer.len() {
            self.buffer.resize(end.next_multiple_of(OUTBOX_BYTES), 0);
        }
        self.used = end;
        &mut self.buffer[start..end]
    }

    /// Hands what waits to the socket; `false` when it takes nothing.
    pub(super) fn flush(&mut self, io: &mut impl Transport) -> io::Result<bool> {
        match io.send(&self.buffer[self.sent..self.used]) {
            Ok(sent) => {
                self.sent += sent;
                self.gate.counters.bytes_sent.add(sent as u64);
                Ok(sent > 0)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts a message behind what waits, as one masked frame.
    pub(super) fn gather(&mut self, random: u64, payload: &[u8]) {
        let room = self.room(client_frame_len(payload.len()));
        write_client_frame(room, Opcode::Binary, payload, key(random));
    }

    /// Takes the frame at the present position and moves on; frames acked before this connection
    /// are passed over. `false` when the outbox is full of what must go first.
    fn take(
        &mut self,
        talk: &mut Conversation,
        (random, now): (u64, u64),
        payload: &[u8],
        dictionary: &Dictionary,
    ) -> Result<bool, Unsent> {
        let fsn = self.position.fsn;
        if fsn >= talk.window.sent() {
            assert_eq!(fsn, talk.window.sent(), "frames are sent in order");
            // Of a divided frame maybe nothing is left that would bring its symbols.
            let brings = talk
                .split_of(fsn)
                .is_none_or(|split| split.due().next().is_some());
            if !self.catch_up(talk, random, (payload, brings), dictionary)? {
                return Ok(false);
            }
            if let Some(cap) = self
                .batch_bytes_max
                .filter(|cap| payload.len() as u64 > *cap)
            {
                self.gate.counters.blocked_by_cap.add(1);
                let bytes = payload.len();
                return Err(Unsent::Blocked(format!(
                    "frame {fsn} of {bytes} bytes exceeds the server's cap {cap}"
                )));
            }
            if is_deferred(payload) {
                talk.window.defers();
            }
            if talk.split_of(fsn).is_some() {
                self.gather_parts(talk, (random, now), (fsn, payload))?;
            } else {
                self.gather(random, payload);
                talk.sent_frame(now);
            }
            self.count_sent(fsn, fsn.plus(1));
        }
        self.position.offset += FRAME_HEADER_BYTES + payload.len() as u64;
        self.position.fsn = fsn.plus(1);
        Ok(true)
    }
}

impl Link {
    /// Fills the outbox and hands it to the socket. `true` if anything moved.
    pub(super) fn send(&mut self, io: &mut impl Io, journal: &mut Journal, now: u64) -> bool {
        let mut moved = false;
        let mut budget = TURN_BYTES_MAX;
        loop {
            if !self.out.pending() {
                (self.out.sent, self.out.used) = (0, 0);
                let before = self.out.position;
                let filled = self.fill_outbox(io, journal, now);
                // Frames passed over are progress too: the shard must not go to sleep over them.
                moved |= self.out.position != before;
                if let Err(reason) = filled {
                    match reason {
                        Unsent::Later(reason) => self.failed(io, &reason, now),
                        Unsent::Blocked(reason) => {
                            self.over(io, End::Blocked, Failure::Transport, reason, now);
                        }
                        Unsent::Never(reason) => self.damaged(io, reason, now),
                    }
                    return true;
                }
                if !self.out.pending() {
                    return moved;
                }
            }
            budget = budget.saturating_sub(self.out.used - self.out.sent);
            match self.out.flush(io) {
                Ok(true) => {
                    fault::pass(Place::Deliver);
                    moved = true;
                }
                Ok(false) => return moved,
                Err(error) => {
                    self.broken(io, journal, &format!("send: {error}"), now);
                    return true;
                }
            }
            let more = self.talk.window.sent() < self.limit(journal);
            if self.out.pending() || !more || budget == 0 {
                return moved;
            }
        }
    }

    fn fill_outbox(&mut self, io: &mut impl Io, journal: &Journal, now: u64) -> Result<(), Unsent> {
        let limit = self.limit(journal);
        let mut skips = SKIPS_MAX;
        while self.out.used < OUTBOX_BYTES / 2 && skips > 0 {
            if self.out.position.fsn < self.talk.window.sent() {
                skips -= 1;
            }
            if self.out.position.fsn >= limit || journal.read_at(&mut self.out.position).is_none() {
                break;
            }
            let talk = &mut self.talk;
            if self.out.take_usual(io, talk, journal, (limit, now)) > 0 {
                self.replay.leave(io);
                continue;
            }
            let position = self.out.position;
            let random = io.random();
            let payload = match journal.in_memory(position) {
                Some(payload) => {
                    self.replay.leave(io);
                    payload
                }
                None => match self.replay.frame(io, journal, position) {
                    Fetch::Ready(payload) => payload,
                    Fetch::Pending => break,
                    Fetch::Failed(reason) => return Err(Unsent::Later(reason)),
                    Fetch::Corrupt(reason) => return Err(Unsent::Never(reason)),
                },
            };
            let (talk, dictionary) = (&mut self.talk, &journal.dictionary);
            if let Some(keeper) = &mut self.keeper
                && talk.split_of(position.fsn).is_some()
            {
                let server = self.endpoints.name();
                let frame = (position.fsn, payload);
                if !keeper.keep(io, talk, frame, dictionary, &server)? {
                    break;
                }
            }
            if !self.out.take(talk, (random, now), payload, dictionary)? {
                break;
            }
        }
        Ok(())
    }

    /// First frame that is not to be sent now.
    pub(super) fn limit(&self, journal: &Journal) -> Fsn {
        journal.published().min(self.out.gate.fence())
    }

    /// Queues a control frame behind what waits.
    pub(super) fn say(&mut self, io: &mut impl Io, opcode: Opcode, payload: &[u8]) {
        if opcode == Opcode::Pong && self.out.used - self.out.sent > PONG_BACKLOG_MAX {
            return; // the server asks without reading: it gets no more answers
        }
        let mut frame = Vec::with_capacity(HEADER_BYTES_MAX + payload.len());
        append_client_frame(&mut frame, opcode, payload, key(io.random()));
        self.out.room(frame.len()).copy_from_slice(&frame);
    }

    /// Sends CLOSE with `code` as far as the socket takes it at once (unless a frame is half sent).
    pub(super) fn say_goodbye(&mut self, io: &mut impl Io, code: u16) {
        if !matches!(self.state, State::Open | State::Parting(_)) || self.out.said_goodbye {
            return;
        }
        if self.out.pending() {
            // A courtesy: the connection is dropped whether or not it arrives.
            let _ = self.out.flush(io);
        }
        if !self.out.pending() {
            (self.out.sent, self.out.used) = (0, 0);
            self.say(io, Opcode::Close, &close::payload(code, ""));
            let _ = self.out.flush(io);
            self.out.said_goodbye = true;
        }
    }

    /// The engine closes: an orderly end of the conversation.
    pub(crate) fn stop(&mut self, io: &mut impl Io) {
        self.say_goodbye(io, close::NORMAL);
        io.hang_up();
        self.state = State::Stopped;
    }
}

/// Whether a message leaves its rows uncommitted: only foreign clients write such frames.
fn is_deferred(payload: &[u8]) -> bool {
    Header::parse(payload).is_ok_and(|header| header.flags.contains(Flags::DEFER_COMMIT))
}

#[inline]
pub(super) fn key(random: u64) -> [u8; 4] {
    let [a, b, c, d, ..] = random.to_le_bytes();
    [a, b, c, d]
}
