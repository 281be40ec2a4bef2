//! The receive pass: what the socket had goes in, answers come out (protocol.md 11.1).

use std::sync::Arc;

use super::input::{Front, Input};
use super::talk::Talk;
use super::{MessageHandler, SessionConfig};
use crate::ws::{self, Opcode, close};

/// What the caller does after a pass, once the answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Read on.
    Continue,
    /// Stop reading; the connection ends as told. Later passes answer the same and nothing else.
    Close(Ending),
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// An illegal frame header, or the handler wants it: drop TCP at once, no CLOSE was written.
    Drop,
    /// The client's CLOSE was answered: half-close, discard at most 256 KiB, close.
    Answered,
    /// The server's CLOSE was written (also for a role change): half-close, discard what comes
    /// for at most 5 s so that no RST overtakes the CLOSE, close.
    Initiated,
}

/// The conversation of one connection from the upgrade on.
///
/// ```
/// use forebay_wire::server::{Commits, MessageHandler, Outcome, Refusal, Session, SessionConfig};
/// use forebay_wire::ws::{Opcode, append_client_frame};
///
/// struct AcceptAll;
/// impl MessageHandler for AcceptAll {
///     fn message(&mut self, _: &[u8], _: u64, _: &mut Commits) -> Result<Outcome, Refusal> {
///         Ok(Outcome::Committed)
///     }
/// }
/// let mut session = Session::new(SessionConfig::default());
/// let (mut received, mut answers) = (Vec::new(), Vec::new());
/// append_client_frame(&mut received, Opcode::Binary, b"QWP1", [1, 2, 3, 4]);
/// session.on_bytes(&received, &mut AcceptAll, &mut answers);
/// assert_eq!(answers, [0x82, 0x0B, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // OK for message 0
/// ```
#[derive(Debug)]
pub struct Session {
    input: Input,
    talk: Talk,
}

impl Session {
    /// A session that starts right after the 101 response.
    pub fn new(config: SessionConfig) -> Self {
        let input = Input::new(config.recv_buffer_bytes, config.recv_buffer_bytes_at_start);
        Self {
            input,
            talk: Talk::new(config),
        }
    }

    /// Where the socket's next bytes go. Empty only once the session has ended.
    pub fn spare(&mut self) -> &mut [u8] {
        self.input.spare()
    }

    /// One receive pass over the `count` bytes that were written into [`Session::spare`].
    /// Answers are appended to `out`.
    pub fn received(
        &mut self,
        count: usize,
        handler: &mut impl MessageHandler,
        out: &mut Vec<u8>,
    ) -> Flow {
        self.input.received(count);
        self.frames(handler, out);
        self.end_pass(handler, out)
    }

    /// One receive pass over bytes that lie elsewhere; they are copied. For simulators.
    pub fn on_bytes(
        &mut self,
        mut bytes: &[u8],
        handler: &mut impl MessageHandler,
        out: &mut Vec<u8>,
    ) -> Flow {
        while !bytes.is_empty() && self.talk.ended.is_none() {
            let spare = self.input.spare();
            let (now, later) = bytes.split_at(bytes.len().min(spare.len()));
            spare[..now.len()].copy_from_slice(now);
            self.input.received(now.len());
            self.frames(handler, out);
            bytes = later;
        }
        self.end_pass(handler, out)
    }

    /// Lets OKs be sent up to message `seq`, and sends what that makes due. Only of use without
    /// [`SessionConfig::auto_ack`]; messages that are not done are still not acknowledged.
    pub fn ack_up_to(&mut self, seq: u64, out: &mut Vec<u8>) {
        self.talk.ledger.allow(seq);
        if self.talk.ended.is_none() {
            self.talk.write_ok(u64::MAX, out);
        }
    }

    /// Tells that a table's transactions up to `seq_txn` reached the object store. The client
    /// hears of it at the next pass, if durable acknowledgements were granted.
    pub fn advance_durable(&mut self, table: &Arc<str>, seq_txn: i64) {
        self.talk.durable.advance(table, seq_txn);
    }

    /// Like [`Session::advance_durable`] for the server's own disk, the `local` tier.
    pub fn advance_local_durable(&mut self, table: &Arc<str>, seq_txn: i64) {
        self.talk.local_durable.advance(table, seq_txn);
    }

    /// Forgets what is durable of a table, as when it was dropped and made anew.
    pub fn forget_durable(&mut self, table: &str) {
        self.talk.durable.forget(table);
        self.talk.local_durable.forget(table);
    }

    /// Sends the OK that is due although nothing was received. The genuine server never does; it
    /// is for OKs that [`MessageHandler::ok_limit`] held back.
    pub fn flush(&mut self, handler: &mut impl MessageHandler, out: &mut Vec<u8>) {
        if self.talk.ended.is_none() {
            self.talk.flush(handler, out);
        }
    }

    /// Ends the conversation from the server's side, as a role change (1000) or drain does: what
    /// is done is acknowledged first.
    pub fn close(&mut self, code: u16, reason: &str, out: &mut Vec<u8>) -> Flow {
        if self.talk.ended.is_none() {
            self.talk.write_ok(u64::MAX, out);
            self.talk.write_durable(out);
            self.talk.write_close(code, reason, out);
            self.input.clear();
        }
        self.flow()
    }

    /// Sends a response of the caller's own making, well-formed or not. For fault injection.
    pub fn inject(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        ws::append_server_frame(out, Opcode::Binary, payload);
    }

    /// Messages received so far, which is the sequence number of the next.
    pub fn messages_received(&self) -> u64 {
        self.talk.ledger.received()
    }

    /// Messages confirmed by an OK so far.
    pub fn messages_acked(&self) -> u64 {
        self.talk.ledger.acked()
    }

    /// Whether a refusal has silenced the connection.
    pub fn is_broken(&self) -> bool {
        self.talk.broken
    }

    fn flow(&self) -> Flow {
        self.talk.ended.map_or(Flow::Continue, Flow::Close)
    }

    fn frames(&mut self, handler: &mut impl MessageHandler, out: &mut Vec<u8>) {
        while self.talk.ended.is_none() {
            match self.input.next_frame() {
                Ok(Front::Incomplete) => break,
                Ok(Front::Frame(frame, payload)) => self.talk.frame(frame, payload, handler, out),
                Ok(Front::TooLarge { payload_exceeds }) => {
                    let reason = if payload_exceeds {
                        "frame payload exceeds maximum size"
                    } else {
                        "frame payload exceeds receive buffer capacity"
                    };
                    self.talk.fatal(close::TOO_BIG, reason, handler, out);
                }
                Err(_) => self.talk.ended = Some(Ending::Drop),
            }
        }
        self.input.compact();
    }

    fn end_pass(&mut self, handler: &mut impl MessageHandler, out: &mut Vec<u8>) -> Flow {
        if self.talk.ended.is_some() {
            self.input.clear();
        } else {
            self.talk.flush(handler, out);
        }
        self.talk.handled = false;
        self.flow()
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
