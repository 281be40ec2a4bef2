//! The conversation's state machine as `tests/tests/delivery_model.rs` drives it.

use forebay_wire::response::{Response, Status, TableAcks, parse, write_durable_ack, write_ok};

use super::{Conversation, Due, End, Then};
use crate::config::Config;
use crate::fsn::Fsn;
use crate::observe::Policy;

/// How a connection ends in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// End of stream, reset, an orderly CLOSE, or silence.
    Lost,
    /// A message above the server's cap.
    Blocked,
    /// A CLOSE with this code, or without one.
    Close(Option<u16>),
    /// An answer that is none.
    Malformed,
    /// An error answer: status byte and message number.
    Refused(u8, i64),
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The next attempt, after so many nanoseconds.
    Pause(u64),
    /// Terminal: this frame was refused so often.
    Escalate(u64, u32),
    /// Terminal: the server's status is.
    Terminal,
}

/// A conversation without a socket. Times in nanoseconds; cursors are the first frame that is not.
#[derive(Debug)]
pub struct Talk(Conversation);

impl Talk {
    /// As configured by a connect string; everything below `acked` is confirmed.
    pub fn new(connect_string: &str, acked: u64) -> Self {
        let config = Config::parse(connect_string).expect("a script's connect string");
        Self(Conversation::new(&config, Fsn(acked)))
    }

    /// A server took the connection.
    pub fn opened(&mut self, now: u64) {
        self.0.opened(now);
    }

    /// Catch-up was sent.
    pub fn sent_catch_up(&mut self) {
        self.0.sent_catch_up();
    }

    /// The next frame was sent; its FSN.
    pub fn sent_frame(&mut self, now: u64) -> u64 {
        self.0.sent_frame(now);
        self.0.window.sent().0 - 1
    }

    /// An OK arrived.
    pub fn ok(&mut self, seq: i64, tables: &[(String, i64)], now: u64) {
        let mut bytes = Vec::new();
        write_ok(&mut bytes, seq, entries(tables));
        self.0.heard(now);
        let Ok(Response::Ok { tables, .. }) = parse(&bytes) else {
            unreachable!("an OK was written");
        };
        self.0.ok(seq, &tables, now);
    }

    /// A durable acknowledgement arrived.
    pub fn durable_ack(&mut self, tables: &[(String, i64)], now: u64) {
        let mut bytes = Vec::new();
        write_durable_ack(&mut bytes, entries(tables));
        self.0.heard(now);
        let Ok(Response::DurableAck { tables }) = parse(&bytes) else {
            unreachable!("a durable acknowledgement was written");
        };
        let tables: TableAcks<'_> = tables;
        self.0.durable_ack(&tables, now);
    }

    /// The connection ends like this.
    pub fn ended(&mut self, cut: Cut, random: u64, now: u64) -> Next {
        let end = match cut {
            Cut::Lost => End::Lost,
            Cut::Blocked => End::Blocked,
            Cut::Close(code) => self.0.closed(code),
            Cut::Malformed => self.0.blamed(),
            Cut::Refused(status, seq) => {
                let refusal = self.0.refused(Status::from_code(status), seq);
                if refusal.policy == Policy::Terminal && !refusal.stale {
                    return Next::Terminal;
                }
                self.0.end_of(&refusal)
            }
        };
        match self.0.ended(end, random, now) {
            Then::Pause(pause) => Next::Pause(pause),
            Then::Escalate { frame, strikes } => Next::Escalate(frame.0, strikes),
        }
    }

    /// Every server was tried in vain: the pause.
    pub fn round_failed(&mut self, by_role: bool, random: u64) -> u64 {
        self.0.round_failed(by_role, random)
    }

    /// What time asks for: 'p' for a PING, 's' for silence, 't' for a stall.
    pub fn check(&mut self, now: u64) -> Option<char> {
        match self.0.check(now) {
            Due::Nothing => None,
            Due::Ping => Some('p'),
            Due::Silence => Some('s'),
            Due::Stall => Some('t'),
        }
    }

    /// First frame without the acknowledgement that was asked for.
    pub fn acked(&self) -> u64 {
        self.0.acked().0
    }

    /// First frame that no OK covered.
    pub fn okayed(&self) -> u64 {
        self.0.okayed().0
    }

    /// Whether frames are with the server without an OK.
    pub fn is_outstanding(&self) -> bool {
        self.0.is_outstanding()
    }
}

fn entries(tables: &[(String, i64)]) -> impl Iterator<Item = (&str, i64)> {
    tables.iter().map(|(name, txn)| (name.as_str(), *txn))
}
