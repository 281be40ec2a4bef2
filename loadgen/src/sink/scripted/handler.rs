//! A message's way through the script to the applier, and what actions change on a connection.

use std::time::{Duration, Instant};

use forebay_wire::decode::{Message, Mode};
use forebay_wire::response::{self, Status};
use forebay_wire::server::{Commits, MessageHandler, Outcome, Refusal};
use forebay_wire::ws::{self, Opcode, close};

use super::durable::DurableQueue;
use super::ends::sleep;
use super::limits::Limits;
use crate::sink::apply::Applier;
use crate::sink::records::Fate;
use crate::sink::script::{Action, Malformed, When, ok};
use crate::sink::server::Shared;

/// What is written at the end of a pass, behind the session's answers.
pub(super) enum Injected {
    DuplicateOk,
    Bytes(Vec<u8>),
}

/// One connection as the script sees it.
pub(super) struct Scripted<'s> {
    pub(super) applier: Applier<'s>,
    pub(super) limits: Limits,
    pub(super) durable: DurableQueue,
    pub(super) injected: Vec<Injected>,
    /// The ending that a rule wants.
    pub(super) end: Option<Action>,
    /// From now on by how much answers are late.
    pub(super) delay: Duration,
    /// Bytes of a read, and the time between reads.
    pub(super) slow: Option<(usize, Duration)>,
    shared: &'s Shared,
    id: u64,
    granted_durable: bool,
    answers_pings: bool,
    answers_closes: bool,
    /// Tables made anew that this connection knows of.
    recreated_seen: usize,
    /// Of those, the ones that the session has not forgotten yet.
    pub(super) to_forget: Vec<std::sync::Arc<str>>,
}

impl<'s> Scripted<'s> {
    pub(super) fn new(shared: &'s Shared, id: u64, granted_durable: bool) -> Self {
        Self {
            applier: Applier::new(shared),
            limits: Limits::default(),
            durable: DurableQueue::default(),
            injected: Vec::new(),
            end: None,
            delay: shared.config.ack_delay,
            slow: None,
            shared,
            id,
            granted_durable,
            answers_pings: true,
            answers_closes: true,
            recreated_seen: shared.live.recreated_since(0).len(),
            to_forget: Vec::new(),
        }
    }

    /// Learns of tables that were made anew.
    pub(super) fn see_recreated(&mut self) {
        let tables = self.shared.live.recreated_since(self.recreated_seen);
        self.recreated_seen += tables.len();
        for table in &tables {
            self.durable.forget(table);
        }
        self.to_forget.extend(tables);
    }

    /// Does an action. `next` is the first message that it is about, `newest` the one that an
    /// answer names.
    pub(super) fn perform(&mut self, action: &Action, next: u64, newest: u64) {
        match action {
            ending if ending.is_ending() => self.end = Some(ending.clone()),
            of_sink if of_sink.is_of_sink() => {
                self.shared.live.perform(of_sink, &self.shared.counters);
                self.see_recreated();
            }
            Action::Hold(time) => self.limits.hold(next, Instant::now() + *time),
            Action::Skip(count) => self.limits.skip(next, next.saturating_add(*count)),
            Action::Delay(time) => self.delay = *time,
            Action::Pause(time) => sleep(*time, self.shared),
            Action::SlowRead { bytes, period } => self.slow = Some(((*bytes).max(1), *period)),
            Action::DuplicateOk => self.injected.push(Injected::DuplicateOk),
            Action::OkAhead(count) => {
                self.limits.skip(next, next.saturating_add(1));
                self.inject_frame(Opcode::Binary, &ok(newest.saturating_add(*count)));
            }
            Action::Answer(payload) => self.inject_frame(Opcode::Binary, payload),
            Action::Raw(bytes) => self.injected.push(Injected::Bytes(bytes.clone())),
            Action::Malformed(kind) => {
                match kind {
                    Malformed::Fragmented => self.limits.skip(next, next.saturating_add(1)),
                    _ => self.limits.stick(next),
                }
                self.injected.push(Injected::Bytes(kind.bytes(newest)));
            }
            Action::Ping => self.inject_frame(Opcode::Ping, b"sink"),
            Action::NoPongs => self.answers_pings = false,
            Action::NoCloseEcho => self.answers_closes = false,
            Action::Nack { status, text } => {
                let mut payload = Vec::new();
                let status = Status::from_code(*status);
                response::write_error(&mut payload, status, newest.cast_signed(), text);
                self.inject_frame(Opcode::Binary, &payload);
            }
            _ => {}
        }
    }

    fn inject_frame(&mut self, opcode: Opcode, payload: &[u8]) {
        let mut bytes = Vec::new();
        ws::append_server_frame(&mut bytes, opcode, payload);
        self.injected.push(Injected::Bytes(bytes));
    }

    /// Rules of a message before it is applied; a refusal, if one wants it.
    fn before(&mut self, message: &[u8], seq: u64) -> Option<Refusal> {
        self.enact(seq, |when| match when {
            When::Message(numbers) => numbers.contains(seq),
            When::Table(name) => names_table(message, name),
            _ => false,
        })
    }

    /// Rules of a message that was applied.
    fn after(&mut self, seq: u64) -> Option<Refusal> {
        self.enact(
            seq,
            |when| matches!(when, When::Applied(numbers) if numbers.contains(seq)),
        )
    }

    /// Does what the rules want whose moment it is.
    fn enact(&mut self, seq: u64, is_due: impl Fn(&When) -> bool) -> Option<Refusal> {
        let script = self.shared.live.script();
        let mut refusal = None;
        for (at, rule) in script.rules.iter().enumerate() {
            if !is_due(&rule.when) || !rule.conn.contains(self.id) || !script.fire(at) {
                continue;
            }
            if let Action::Nack { status, text } = &rule.action {
                refusal = Some(Refusal::new(Status::from_code(*status), text.clone()));
            } else {
                self.perform(&rule.action, seq, seq);
            }
        }
        refusal
    }

    /// The message with everything the script wants of it, and its fate.
    fn judge(
        &mut self,
        message: &[u8],
        seq: u64,
        commits: &mut Commits,
    ) -> (Result<Outcome, Refusal>, Fate) {
        self.limits.arrive(seq);
        let refused = |refusal: Refusal| {
            let fate = Fate::Refused(refusal.status.code());
            (Err(refusal), fate)
        };
        if let Some(refusal) = self.before(message, seq) {
            self.applier.count_refused();
            return refused(refusal);
        }
        if self.end.is_some() {
            return (Ok(Outcome::Drop), Fate::Cut);
        }
        if self.shared.live.refuses_writes() {
            return (Ok(Outcome::RoleChange), Fate::Cut);
        }
        if self.granted_durable {
            // Before the message's own commits join the queue.
            self.see_recreated();
        }
        let outcome = match self.applier.message(message, seq, commits) {
            Ok(Outcome::Drop) => return (Ok(Outcome::Drop), Fate::Cut),
            Ok(outcome) => outcome,
            Err(refusal) => return refused(refusal),
        };
        if self.granted_durable {
            let now = Instant::now();
            for (table, txn) in commits.iter() {
                self.durable.push(table, txn, now);
            }
        }
        let refusal = self.after(seq);
        if self.end.is_none() && refusal.is_none() {
            let deferred = outcome == Outcome::Deferred;
            return (
                Ok(outcome),
                if deferred {
                    Fate::Deferred
                } else {
                    Fate::Applied
                },
            );
        }
        // Stored, though no OK will say so.
        if let Err(e) = self.applier.settle() {
            return refused(e);
        }
        match refusal {
            Some(refusal) => (Err(refusal), Fate::AppliedAndCut),
            None => (Ok(Outcome::Drop), Fate::AppliedAndCut),
        }
    }
}

impl MessageHandler for Scripted<'_> {
    fn message(
        &mut self,
        message: &[u8],
        seq: u64,
        commits: &mut Commits,
    ) -> Result<Outcome, Refusal> {
        let (outcome, fate) = self.judge(message, seq, commits);
        if let Some(log) = &self.shared.log {
            log.message(self.id, seq, message, fate);
        }
        outcome
    }

    fn settle(&mut self) -> Result<(), Refusal> {
        self.applier.settle()
    }

    fn control_frame(&mut self, opcode: Opcode, payload: &[u8]) -> bool {
        if let Some(log) = &self.shared.log {
            log.event(self.id, |conn, at| match opcode {
                Opcode::Ping => conn.pings.push((at, payload.to_vec())),
                Opcode::Close => conn.closes.push((at, close::split_payload(payload).0)),
                _ => conn.pongs.push((at, payload.to_vec())),
            });
        }
        match opcode {
            Opcode::Ping => self.answers_pings,
            Opcode::Close => self.answers_closes,
            _ => true,
        }
    }

    fn silenced(&mut self, message: &[u8], seq: u64) {
        if let Some(log) = &self.shared.log {
            log.message(self.id, seq, message, Fate::Silenced);
        }
    }

    fn ok_limit(&self) -> u64 {
        self.limits.limit()
    }
}

/// Whether a block of the message is for the table.
fn names_table(message: &[u8], name: &str) -> bool {
    Message::parse(message, Mode::Genuine).is_ok_and(|message| {
        message
            .tables()
            .map_while(Result::ok)
            .any(|table| table.name() == name)
    })
}
