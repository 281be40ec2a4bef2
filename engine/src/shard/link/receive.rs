//! What the server says: acknowledgements, refusals, control frames.

use std::io;

use forebay_wire::response::{self, Response, Status};
use forebay_wire::upgrade::DurableTier;
use forebay_wire::ws::{self, Event, Opcode, close};

use super::{Link, RESPONSE_BYTES_MAX, State};
use crate::delivery::{End, Failure};
use crate::io::Io;
use crate::observe::{Policy, SenderError};
use crate::shard::journal::Journal;

/// What a message of the server leads to.
enum Verdict {
    /// Nothing further.
    Go,
    /// Answer with these bytes.
    Answer(Opcode, Vec<u8>),
    /// The connection is over; a CLOSE of the server is answered with the code.
    Over {
        end: End,
        failure: Failure,
        reason: String,
        echo: Option<u16>,
    },
    /// What was put off until nothing more comes is due.
    Parted,
    /// The sender is over.
    Terminal(SenderError, String),
}

/// Looks at the socket at most before it is dropped.
const LAST_LOOKS_MAX: u32 = 64;

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
        if matches!(outcome, Ok(got) if got > 0) {
            self.talk.heard(now);
        }
        // What arrived before the end of the stream still counts.
        if !self.read_inbox(io, journal, now) {
            return true;
        }
        match outcome {
            Ok(got) => got > 0,
            Err(reason) => {
                if matches!(self.state, State::Parting(_)) {
                    self.finish_parting(io, now);
                } else {
                    self.failed(io, &reason, now);
                }
                true
            }
        }
    }

    /// The socket takes nothing any more: what it still holds for us is read, then it is dropped.
    pub(super) fn broken(
        &mut self,
        io: &mut impl Io,
        journal: &mut Journal,
        reason: &str,
        now: u64,
    ) {
        for _ in 0..LAST_LOOKS_MAX {
            if !matches!(self.state, State::Open) || !self.receive(io, journal, now) {
                break;
            }
        }
        if matches!(self.state, State::Open) {
            self.failed(io, reason, now);
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
                Err(violation) => self.violated(format!("protocol violation: {violation}")),
                Ok(step) => {
                    start += step.consumed;
                    match step.event {
                        None => break,
                        Some(event) => self.heard(event, journal, now),
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

    fn heard(&mut self, event: Event<'_>, journal: &mut Journal, now: u64) -> Verdict {
        match event {
            Event::Binary(bytes) => {
                let local = matches!(
                    self.durable,
                    Some(DurableTier::Local | DurableTier::LocalAndReplicated)
                );
                match response::parse_with(bytes, local) {
                    Ok(answer) => self.answered(answer, journal, now),
                    Err(_) if self.talk.is_silenced() => Verdict::Go,
                    Err(error) => self.violated(format!("malformed answer: {error}")),
                }
            }
            Event::Ping(payload) => Verdict::Answer(Opcode::Pong, payload.to_vec()),
            Event::Pong(_) => Verdict::Go,
            Event::Close { .. } if self.talk.is_silenced() => Verdict::Parted,
            Event::Close { code, reason } => Verdict::Over {
                end: self.talk.closed(code),
                failure: Failure::Transport,
                reason: match code {
                    Some(code) => format!("the server closed with code {code} {reason}"),
                    None => "the server closed without a code".to_owned(),
                },
                echo: Some(close::reply_code(code)),
            },
        }
    }

    /// Something that no server should say.
    fn violated(&self, reason: String) -> Verdict {
        if self.talk.is_silenced() {
            return Verdict::Parted;
        }
        Verdict::Over {
            end: self.talk.blamed(),
            failure: Failure::Transport,
            reason,
            echo: None,
        }
    }

    fn answered(&mut self, answer: Response<'_>, journal: &mut Journal, now: u64) -> Verdict {
        match answer {
            Response::Ok { seq, tables } => {
                self.gate.counters.oks_received.add(1);
                self.talk.ok(seq, &tables, now);
            }
            Response::DurableAck { tables } if self.durable != Some(DurableTier::Local) => {
                self.gate.counters.durable_acks_received.add(1);
                self.talk.durable_ack(&tables, now);
            }
            Response::LocalDurableAck { tables } if self.durable == Some(DurableTier::Local) => {
                self.gate.counters.durable_acks_received.add(1);
                self.talk.durable_ack(&tables, now);
            }
            // Progress towards a stronger tier, or never asked for: informational.
            Response::DurableAck { .. } | Response::LocalDurableAck { .. } => {}
            Response::Error { .. } if self.talk.is_silenced() => {}
            Response::Error {
                status,
                seq,
                message,
            } => return self.refused(status, seq, message),
        }
        journal.acknowledge(self.talk.acked());
        Verdict::Go
    }

    fn refused(&mut self, status: Status, seq: i64, message: &str) -> Verdict {
        self.gate.counters.server_errors.add(1);
        let refusal = self.talk.refused(status, seq);
        let frame = refusal
            .frame
            .map_or_else(|| "no frame".to_owned(), |frame| format!("frame {frame}"));
        let reason = format!("{status} for {frame}: {message}");
        let error = self.error_of(&refusal, status, seq, message);
        if refusal.policy == Policy::Terminal && !refusal.stale {
            return Verdict::Terminal(error, reason);
        }
        if refusal.policy == Policy::Abandoned
            && !refusal.stale
            && let Some(frame) = refusal.frame
        {
            // Told of when the culprit is known and kept.
            self.talk.divide(frame, refusal.table, message.to_owned());
        } else {
            self.gate.tell(error);
        }
        let failure = if refusal.policy == Policy::RetriableOther {
            Failure::Role { soon: false }
        } else {
            Failure::Transport
        };
        Verdict::Over {
            end: self.talk.end_of(&refusal),
            failure,
            reason,
            echo: None,
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
            Verdict::Over {
                end,
                failure,
                reason,
                echo,
            } => {
                if let Some(code) = echo {
                    self.say_goodbye(io, code);
                }
                self.over(io, end, failure, reason, now);
                // A parting reads on.
                return matches!(self.state, State::Parting(_));
            }
            Verdict::Parted => self.finish_parting(io, now),
            Verdict::Terminal(error, reason) => self.rejected(io, error, reason, now),
        }
        false
    }
}
