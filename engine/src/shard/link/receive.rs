//! What the server says: acknowledgements, refusals, control frames.

use std::io;

use forebay_wire::response::{self, Response, Status};
use forebay_wire::ws::{self, Event, Opcode};

use super::{Link, RESPONSE_BYTES_MAX};
use crate::delivery::{Policy, policy};
use crate::io::Io;
use crate::shard::journal::Journal;

/// What a message of the server leads to.
enum Verdict {
    /// Nothing further.
    Go,
    /// Answer with these bytes.
    Answer(Opcode, Vec<u8>),
    /// The connection is over, nobody's fault.
    Reconnect(String),
    /// The connection is over because of what we sent.
    Strike(String),
    /// The sender is over.
    Terminal(String),
}

impl Link {
    /// Receives into the inbox; returns the bytes received, 0 when nothing is there.
    pub(super) fn fill_inbox(&mut self, io: &mut impl Io) -> Result<usize, String> {
        if self.inbox_used == self.inbox.len() {
            if self.inbox.len() > RESPONSE_BYTES_MAX {
                return Err(format!("a message exceeds {RESPONSE_BYTES_MAX} bytes"));
            }
            self.inbox.resize(self.inbox.len() * 2, 0);
        }
        match io.recv(&mut self.inbox[self.inbox_used..]) {
            Ok(0) => Err("the server closed the connection".to_owned()),
            Ok(got) => {
                self.inbox_used += got;
                Ok(got)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) fn receive(&mut self, io: &mut impl Io, journal: &mut Journal, now: u64) -> bool {
        let outcome = self.fill_inbox(io);
        let nothing = matches!(outcome, Ok(0)) && self.inbox_used == 0;
        if nothing {
            return false;
        }
        // What arrived before the end of the stream still counts.
        if !self.read_inbox(io, journal, now) {
            return true;
        }
        match outcome {
            Ok(got) => got > 0,
            Err(reason) => {
                self.failed(io, &reason, now);
                true
            }
        }
    }

    /// Handles every complete message; `false` when the connection ended.
    fn read_inbox(&mut self, io: &mut impl Io, journal: &mut Journal, now: u64) -> bool {
        let mut start = 0;
        let inbox = std::mem::take(&mut self.inbox);
        let mut reader = std::mem::replace(&mut self.reader, ws::Reader::new(0));
        let mut open = true;
        while open {
            let verdict = match reader.next(&inbox[start..self.inbox_used]) {
                Err(violation) => Verdict::Strike(format!("protocol violation: {violation}")),
                Ok(step) => {
                    start += step.consumed;
                    match step.event {
                        None => break,
                        Some(event) => self.heard(event, journal),
                    }
                }
            };
            open = self.follow(io, verdict, now);
        }
        self.inbox = inbox;
        self.reader = reader;
        if open {
            self.inbox.copy_within(start..self.inbox_used, 0);
            self.inbox_used -= start;
        } else {
            self.inbox_used = 0;
        }
        open
    }

    fn heard(&mut self, event: Event<'_>, journal: &mut Journal) -> Verdict {
        match event {
            Event::Binary(bytes) => match response::parse(bytes) {
                Ok(answer) => self.answered(answer, journal),
                Err(error) => Verdict::Strike(format!("malformed answer: {error}")),
            },
            Event::Ping(payload) => Verdict::Answer(Opcode::Pong, payload.to_vec()),
            Event::Pong(_) => Verdict::Go,
            Event::Close { code, reason } => {
                let text = format!("the server closed: code {code:?} {reason}");
                match code {
                    Some(1000 | 1001) => Verdict::Reconnect(text),
                    _ if self.out.window.is_used() => Verdict::Strike(text),
                    _ => Verdict::Reconnect(text),
                }
            }
        }
    }

    fn answered(&mut self, answer: Response<'_>, journal: &mut Journal) -> Verdict {
        match answer {
            Response::Ok { seq, .. } => {
                self.gate.counters.oks_received.add(1);
                if let Some(acked) = self.out.window.confirmed(seq)
                    && acked > journal.acked()
                {
                    journal.acknowledge(acked);
                    self.progressed = true;
                    self.poison.clear();
                    self.backoff.reset();
                }
                Verdict::Go
            }
            // Never asked for in this version: informational.
            Response::DurableAck { .. } | Response::LocalDurableAck { .. } => Verdict::Go,
            Response::Error {
                status,
                seq,
                message,
            } => {
                self.gate.counters.server_errors.add(1);
                self.refused(status, seq, message)
            }
        }
    }

    fn refused(&self, status: Status, seq: i64, message: &str) -> Verdict {
        let frame = self
            .out
            .window
            .named(seq)
            .map_or_else(|| "none".to_owned(), |f| f.to_string());
        let text = format!("{status} for frame {frame}: {message}");
        match policy(status) {
            Policy::Terminal => Verdict::Terminal(text),
            Policy::Retriable => Verdict::Strike(text),
            Policy::RetriableOther => Verdict::Reconnect(text),
        }
    }

    /// Acts on a verdict; `false` when the connection ended.
    fn follow(&mut self, io: &mut impl Io, verdict: Verdict, now: u64) -> bool {
        match verdict {
            Verdict::Go => return true,
            Verdict::Answer(opcode, payload) => {
                self.say(io, opcode, &payload);
                return true;
            }
            Verdict::Reconnect(reason) => {
                self.say_goodbye(io);
                self.failed(io, &reason, now);
            }
            Verdict::Strike(reason) => {
                self.say_goodbye(io);
                self.struck(io, &reason, now);
            }
            Verdict::Terminal(reason) => {
                self.say_goodbye(io);
                self.terminal(io, reason, now);
            }
        }
        false
    }
}
