//! The conversation with one server after the other: what was sent and confirmed, whose fault the
//! end of a connection is, and how long to wait before the next.
//!
//! Pure: the shard's link tells what it sent and heard, with the time, and does what it is told.
//! `tests/tests/delivery_model.rs` compares this with a naive model.

use forebay_wire::response::{Status, TableAcks};
use forebay_wire::ws::close;

use super::durable::Durable;
use super::liveness::{Due, Limits, Liveness};
use super::policy::{category, policy};
use super::{Pace, Poison, Split, Window};
use crate::config::{Config, Policies};
use crate::fsn::Fsn;
use crate::observe::{Category, Policy};
use crate::units::nanos;

/// How a connection ended, or should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Nobody's fault: it broke, or the server goes in order (CLOSE 1000, 1001).
    Lost,
    /// The server refused what was sent: frame `suspect`, or the oldest unconfirmed one.
    Struck {
        /// The frame that the strike is for.
        suspect: Fsn,
    },
    /// A message is above this server's cap.
    Blocked,
    /// The server refused a frame that is taken apart, or a table of one.
    Divided,
}

/// What follows the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The next attempt, after so many nanoseconds.
    Pause(u64),
    /// No further attempt: `frame` was refused `strikes` times.
    Escalate {
        /// The frame.
        frame: Fsn,
        /// Strikes without progress.
        strikes: u32,
    },
}

/// An error answer, judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What it is about.
    pub(crate) category: Category,
    /// What is done about it.
    pub(crate) policy: Policy,
    /// The frame it names; `None` for a message without one (catch-up).
    pub(crate) frame: Option<Fsn>,
    /// The table, where the message was a part of a frame.
    pub(crate) table: Option<usize>,
    /// It names a frame that was confirmed before: no strike, and nothing is latched.
    pub(crate) stale: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Conversation {
    policies: Policies,
    poison: Poison,
    pace: Pace,
    alive: Liveness,
    /// `None`: an OK is enough.
    durable: Option<Durable>,
    pub(crate) window: Window,
    /// First frame without the acknowledgement that was asked for.
    acked: Fsn,
    /// First frame that no OK covered, on any connection.
    okayed: Fsn,
    /// First frame that no OK covered on this connection.
    okayed_here: Fsn,
    /// Something was confirmed on this connection that was not before.
    progressed: bool,
    /// The server refused: what else it says here means nothing (protocol.md section 12.3).
    silenced: bool,
    /// Frames that are sent table by table, in order.
    splits: Vec<Split>,
}

impl Conversation {
    /// Before the first connection; everything below `acked` is confirmed.
    pub(crate) fn new(config: &Config, acked: Fsn) -> Self {
        let keys = &config.delivery;
        let limits = Limits {
            ping: keys.ping_interval.map_or(0, nanos),
            ack: keys.ack_progress_timeout.map_or(0, nanos),
            keepalive: keys.durable_keepalive.map_or(0, nanos),
        };
        Self {
            policies: keys.policies,
            poison: Poison::new(config.max_frame_rejections, nanos(config.poison_window)),
            pace: Pace::new(config.backoff_initial, config.backoff_max),
            alive: Liveness::new(limits),
            durable: keys.durable_ack.map(|_| Durable::default()),
            window: Window::new(acked),
            acked,
            okayed: acked,
            okayed_here: acked,
            progressed: false,
            silenced: false,
            splits: Vec::new(),
        }
    }

    /// A server took the connection: everything that is not acked will be sent on it.
    pub(crate) fn opened(&mut self, now: u64) {
        self.window = Window::new(self.acked);
        self.okayed_here = self.acked;
        (self.progressed, self.silenced) = (false, false);
        self.alive.opened(now);
        self.pace.connected();
        if let Some(durable) = &mut self.durable {
            durable.reset();
        }
    }

    /// First frame without the acknowledgement that was asked for: what may be trimmed ends here.
    pub(crate) fn acked(&self) -> Fsn {
        self.acked
    }

    /// First frame that the server has not committed, as far as it told.
    pub(crate) fn okayed(&self) -> Fsn {
        self.okayed
    }

    /// Whether frames are with the server on this connection, without an OK.
    pub(crate) fn is_outstanding(&self) -> bool {
        self.okayed_here < self.window.sent()
    }

    /// Whether OKs wait for durable acknowledgements.
    pub(crate) fn awaits_durable(&self) -> bool {
        self.durable.as_ref().is_some_and(Durable::waits)
    }

    /// Catch-up was handed to the socket.
    pub(crate) fn sent_catch_up(&mut self) {
        self.window.sent_catch_up();
    }

    /// The next frame was handed to the socket.
    pub(crate) fn sent_frame(&mut self, now: u64) {
        self.sent_frames(1, now);
    }

    /// The next `count` frames were, at least one.
    pub(crate) fn sent_frames(&mut self, count: u64, now: u64) {
        self.window.sent_frames(count);
        self.alive.sent(now);
    }

    /// Bytes arrived.
    pub(crate) fn heard(&mut self, now: u64) {
        self.alive.heard(now);
    }

    /// Everything up to message `seq` is committed.
    pub(crate) fn ok(&mut self, seq: i64, tables: &TableAcks<'_>, now: u64) {
        if !self.splits.is_empty() && !self.silenced && self.durable.is_none() {
            for (frame, table) in self.window.parts_within(seq) {
                let mut splits = self.splits.iter_mut();
                if let Some(split) = splits.find(|split| split.frame() == frame) {
                    split.okay(table);
                }
            }
        }
        let confirmed = self.window.confirmed(seq);
        if let Some(end) = confirmed.filter(|end| !self.silenced && *end > self.okayed_here) {
            self.okayed_here = end;
            if end > self.okayed {
                let fresh = self.okayed..end;
                let split = self.splits.iter().filter(|s| fresh.contains(&s.frame()));
                if end.since(self.okayed) > split.count() as u64 {
                    self.pace.undivided();
                }
                self.okayed = end;
                self.progress();
            }
            self.poison.accepted(end);
            let more = self.is_outstanding();
            self.alive.okayed(more, now);
            match &mut self.durable {
                None => self.acked = self.acked.max(end),
                Some(durable) => durable.okayed(end, tables),
            }
            self.settle(now);
            self.retire_splits();
        }
    }

    /// Transactions of these tables are durable, in the tier that was asked for.
    pub(crate) fn durable_ack(&mut self, tables: &TableAcks<'_>, now: u64) {
        if let Some(durable) = &mut self.durable {
            durable.acknowledged(tables);
            self.settle(now);
            self.retire_splits();
        }
    }

    fn settle(&mut self, now: u64) {
        let Some(durable) = &mut self.durable else {
            return;
        };
        let taken = durable.take();
        self.alive.durable_waits(durable.waits(), now);
        if let Some(end) = taken.filter(|end| *end > self.acked) {
            self.acked = end;
            self.progress();
        }
    }

    fn progress(&mut self) {
        self.progressed = true;
        self.pace.progressed();
    }

    /// The server refused message `seq`.
    pub(crate) fn refused(&mut self, status: Status, seq: i64) -> Refusal {
        let category = category(status);
        let part = self.window.part(seq);
        let frame = part.map(|(frame, _)| frame).or(self.window.named(seq));
        let stale = frame.is_some_and(|frame| frame < self.okayed_here);
        self.silenced = true;
        Refusal {
            category,
            policy: policy(self.policies, category),
            frame,
            table: part.map(|(_, table)| table),
            stale,
        }
    }

    /// The refused frame, or its refused table, is set apart: `reason` is the server's text.
    pub(crate) fn divide(&mut self, frame: Fsn, table: Option<usize>, reason: String) {
        match (self.split_of(frame), table) {
            (Some(split), Some(table)) => split.refuse(table, reason),
            (None, _) => {
                let at = self.splits.partition_point(|split| split.frame() < frame);
                self.splits.insert(at, Split::new(frame, reason));
            }
            // Refused as a whole once more: it was met before its parts were known.
            (Some(_), None) => {}
        }
    }

    /// How a refused frame stands, if `frame` is one.
    pub(crate) fn split_of(&mut self, frame: Fsn) -> Option<&mut Split> {
        self.splits.iter_mut().find(|split| split.frame() == frame)
    }

    /// Whether some frame is sent table by table.
    pub(crate) fn is_dividing(&self) -> bool {
        !self.splits.is_empty()
    }

    fn retire_splits(&mut self) {
        if !self.splits.is_empty() {
            let acked = self.acked;
            self.splits.retain(|split| split.frame() >= acked);
        }
    }

    /// A table of the next frame was handed to the socket.
    pub(crate) fn sent_part(&mut self, table: usize, last: bool, now: u64) {
        self.window.sent_part(table, last);
        self.alive.sent(now);
    }

    /// Whether the server refused something: only durable acknowledgements still count.
    pub(crate) fn is_silenced(&self) -> bool {
        self.silenced
    }

    /// The end that a refusal leads to, unless its policy is terminal.
    pub(crate) fn end_of(&self, refusal: &Refusal) -> End {
        match refusal.policy {
            _ if refusal.stale => return End::Lost,
            Policy::RetriableOther => return End::Lost,
            Policy::Abandoned if refusal.frame.is_some() => return End::Divided,
            _ => {}
        }
        End::Struck {
            suspect: refusal.frame.unwrap_or(self.okayed_here),
        }
    }

    /// The end that the server's CLOSE is.
    pub(crate) fn closed(&self, code: Option<u16>) -> End {
        match code {
            Some(code) if close::is_orderly(code) => End::Lost,
            _ => self.blamed(),
        }
    }

    /// The end by an answer that is none: blamed on the oldest unconfirmed frame, if any was sent.
    pub(crate) fn blamed(&self) -> End {
        if self.window.is_used() {
            End::Struck {
                suspect: self.okayed_here,
            }
        } else {
            End::Lost
        }
    }

    /// The connection is over.
    pub(crate) fn ended(&mut self, end: End, random: u64, now: u64) -> Then {
        match end {
            End::Lost => Then::Pause(self.pace.recycled(self.progressed, random)),
            End::Blocked => Then::Pause(self.pace.blocked(random)),
            End::Divided => Then::Pause(self.pace.divided(random)),
            End::Struck { suspect } => {
                if self.poison.strike(suspect, now) {
                    return Then::Escalate {
                        frame: self.poison.suspect(),
                        strikes: self.poison.strikes(),
                    };
                }
                Then::Pause(self.pace.struck(self.poison.strikes(), random))
            }
        }
    }

    /// Every server was tried in vain: the pause before the next round.
    pub(crate) fn round_failed(&mut self, by_role: bool, random: u64) -> u64 {
        self.pace.round_failed(by_role, random)
    }

    /// What time asks for.
    pub(crate) fn check(&mut self, now: u64) -> Due {
        self.alive.check(now)
    }

    /// When [`check`](Self::check) has something to say at the latest.
    pub(crate) fn deadline(&self) -> u64 {
        self.alive.deadline()
    }
}
