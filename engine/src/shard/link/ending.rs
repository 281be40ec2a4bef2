//! How attempts and connections end, what follows, and what is told about it.

use forebay_wire::response::Status;

use super::{Link, State};
use crate::delivery::{End, Failure, Refusal, RoundEnd, Then};
use crate::fsn::Fsn;
use crate::io::Io;
use crate::observe::{Category, ConnectionChange, Policy, SenderError};
use crate::router::gate::Terminal;
use crate::shard::journal::Journal;

/// How long a server that refused may go on with durable acknowledgements for what it took before.
const PARTING_LIMIT: u64 = 500_000_000;

/// The end of a connection, put off for durable acknowledgements that are on their way.
#[derive(Debug)]
pub(super) struct Parting {
    pub(super) until: u64,
    end: End,
    failure: Failure,
    reason: String,
}

impl Link {
    /// Ends the attempt or the connection without blame for any frame.
    pub(super) fn failed(&mut self, io: &mut impl Io, cause: &str, now: u64) {
        if matches!(self.state, State::Open | State::Parting(_)) {
            self.finish(io, End::Lost, Failure::Transport, cause, now);
        } else {
            self.attempt_failed(io, Failure::Transport, cause, now);
        }
    }

    /// No connection: the next server, after a pause when all were tried.
    pub(super) fn attempt_failed(
        &mut self,
        io: &mut impl Io,
        failure: Failure,
        cause: &str,
        now: u64,
    ) {
        io.hang_up();
        self.gate.connection(false, now);
        self.attempts += 1;
        let endpoint = self.endpoints.name();
        let text = format!("{endpoint}: {cause}");
        self.tell(ConnectionChange::AttemptFailed {
            endpoint,
            attempt: self.attempts,
            cause: cause.to_owned(),
        });
        let round = self.endpoints.failed(failure);
        let by_role = round == Some(RoundEnd::Role);
        let pause = match round {
            None => 0,
            Some(RoundEnd::AllMismatched) => {
                self.gate.lacks_durable();
                return self.terminal(io, Category::ProtocolViolation, cause.to_owned(), now);
            }
            Some(_) => {
                self.rounds += 1;
                self.tell(ConnectionChange::AllUnreachable {
                    rounds: self.rounds,
                    cause: text.clone(),
                });
                self.talk.round_failed(by_role, io.random())
            }
        };
        self.state = State::Waiting { until: now + pause };
        self.gate.failed(&text, round.is_some());
    }

    /// The open connection is over, by the server's word. After a refusal durable acknowledgements
    /// for frames before it may still be on their way: they spare sending those again.
    pub(super) fn over(
        &mut self,
        io: &mut impl Io,
        end: End,
        failure: Failure,
        reason: String,
        now: u64,
    ) {
        if self.talk.is_silenced() && self.talk.awaits_durable() {
            self.say(io, forebay_wire::ws::Opcode::Ping, &[]);
            self.state = State::Parting(Parting {
                until: now + PARTING_LIMIT,
                end,
                failure,
                reason,
            });
        } else {
            self.finish(io, end, failure, &reason, now);
        }
    }

    /// One round of a parting.
    pub(super) fn part(&mut self, io: &mut impl Io, journal: &mut Journal, now: u64) -> bool {
        let mut moved = self.out.pending() && self.out.flush(io).unwrap_or(false);
        moved |= self.receive(io, journal, now);
        let State::Parting(parting) = &self.state else {
            return true;
        };
        if self.talk.awaits_durable() && now < parting.until {
            return moved;
        }
        self.finish_parting(io, now);
        true
    }

    /// Nothing more comes: what was put off follows now.
    pub(super) fn finish_parting(&mut self, io: &mut impl Io, now: u64) {
        let waiting = State::Waiting { until: now };
        match std::mem::replace(&mut self.state, waiting) {
            State::Parting(parting) => {
                self.state = State::Open;
                let Parting {
                    end,
                    failure,
                    reason,
                    ..
                } = parting;
                self.finish(io, end, failure, &reason, now);
            }
            other => self.state = other,
        }
    }

    /// The connection ends now.
    fn finish(&mut self, io: &mut impl Io, end: End, failure: Failure, cause: &str, now: u64) {
        self.say_goodbye(io, 1000);
        io.hang_up();
        self.gate.connection(false, now);
        let endpoint = self.endpoints.name();
        self.gate.failed(&format!("{endpoint}: {cause}"), false);
        self.tell(ConnectionChange::Disconnected {
            endpoint,
            cause: cause.to_owned(),
        });
        match self.talk.ended(end, io.random(), now) {
            Then::Pause(pause) => {
                self.endpoints.lost(failure);
                self.state = State::Waiting { until: now + pause };
            }
            Then::Escalate { frame, strikes } => {
                let reason = format!(
                    "frame {frame} was refused {strikes} times without progress \
                     (max_frame_rejections, poison_min_escalation_window_millis), last: {cause}"
                );
                self.terminal(io, Category::ProtocolViolation, reason, now);
            }
        }
    }

    /// The server ends the sender: nothing is sent any more.
    pub(super) fn terminal(
        &mut self,
        io: &mut impl Io,
        category: Category,
        reason: String,
        now: u64,
    ) {
        let endpoint = self.endpoints.name();
        let mut error = SenderError::new(category, Policy::Terminal, reason.clone());
        error.endpoint.clone_from(&endpoint);
        error = error.of_frames(self.talk.acked(), self.published);
        self.latch(io, Terminal { endpoint, reason }, error, now);
    }

    /// The server refused a frame for good.
    pub(super) fn rejected(
        &mut self,
        io: &mut impl Io,
        error: SenderError,
        reason: String,
        now: u64,
    ) {
        let endpoint = error.endpoint.clone();
        self.latch(io, Terminal { endpoint, reason }, error, now);
    }

    /// A fault of the slot itself ends the sender: sending again cannot mend it.
    pub(super) fn damaged(&mut self, io: &mut impl Io, reason: String, now: u64) {
        let error = SenderError::new(Category::DataLoss, Policy::Terminal, reason.clone());
        let error = error.of_frames(self.talk.acked(), self.published);
        self.latch(io, Terminal::local(reason), error, now);
    }

    fn latch(&mut self, io: &mut impl Io, terminal: Terminal, error: SenderError, now: u64) {
        self.say_goodbye(io, 1000);
        io.hang_up();
        self.gate.failed(&terminal.reason, false);
        self.gate.fail_with(terminal, error);
        self.gate.connection(false, now);
        self.state = State::Stopped;
    }

    /// An error answer as the events tell it.
    pub(super) fn error_of(
        &self,
        refusal: &Refusal,
        status: Status,
        seq: i64,
        message: &str,
    ) -> SenderError {
        let mut error = SenderError::new(refusal.category, refusal.policy, message.to_owned());
        error.status = Some(status.code());
        error.endpoint = self.endpoints.name();
        error.wire_seq = u64::try_from(seq).ok();
        let (from, to): (Fsn, Fsn) = match refusal.frame {
            Some(frame) => (frame, frame.plus(1)),
            None => (self.talk.acked(), self.published),
        };
        error.of_frames(from, to)
    }

    pub(super) fn tell(&self, event: ConnectionChange) {
        self.gate.tell_change(event);
    }
}
