//! From the upgrade's answer to an open connection.

use forebay_wire::upgrade::{UpgradeError, UpgradeReply};
use forebay_wire::ws::Reader;

use super::{Link, RESPONSE_BYTES_MAX, State};
use crate::delivery::Failure;
use crate::io::Io;
use crate::observe::ConnectionChange;
use crate::shard::fault::{self, Place};
use crate::shard::journal::Journal;

impl Link {
    pub(super) fn upgrading(&mut self, io: &mut impl Io, journal: &Journal, now: u64) -> bool {
        let State::Upgrading { deadline, .. } = self.state else {
            return false;
        };
        fault::pass(Place::Connect);
        let mut happened = false;
        if self.out.pending() {
            match self.out.flush(io) {
                Ok(moved) => happened |= moved,
                Err(error) => {
                    self.failed(io, &format!("upgrade: {error}"), now);
                    return true;
                }
            }
        }
        match self.fill_inbox(io) {
            Ok(0) => {}
            Ok(_) => {
                self.judge_upgrade(io, journal, now);
                return true;
            }
            Err(reason) => {
                self.failed(io, &format!("upgrade: {reason}"), now);
                return true;
            }
        }
        if now >= deadline {
            self.failed(io, "no answer to the upgrade (auth_timeout_ms)", now);
            return true;
        }
        happened
    }

    fn judge_upgrade(&mut self, io: &mut impl Io, journal: &Journal, now: u64) {
        let State::Upgrading { expected, .. } = &self.state else {
            return;
        };
        match UpgradeReply::parse(&self.inbox[..self.inbox_used], expected) {
            Ok(None) => {}
            Ok(Some(upgraded)) => {
                self.inbox
                    .copy_within(upgraded.consumed..self.inbox_used, 0);
                self.inbox_used -= upgraded.consumed;
                self.out.batch_bytes_max = upgraded.max_batch_size.filter(|bytes| *bytes > 0);
                self.gate
                    .set_server_cap(self.out.batch_bytes_max.unwrap_or(0));
                self.opened(journal, now);
            }
            Err(error) => self.upgrade_failed(io, &error, now),
        }
    }

    /// The server speaks QWP: everything of a connection starts afresh.
    fn opened(&mut self, journal: &Journal, now: u64) {
        self.endpoints.succeeded();
        let endpoint = self.endpoints.name();
        let before = self.connected_to.replace(endpoint.clone());
        if before.is_some() {
            self.gate.counters.reconnects_succeeded.add(1);
        }
        self.tell(match before {
            None => ConnectionChange::Connected { endpoint },
            Some(from) if from == endpoint => ConnectionChange::Reconnected { endpoint },
            Some(from) => ConnectionChange::FailedOver { from, to: endpoint },
        });
        (self.attempts, self.rounds) = (0, 0);
        self.reader = Reader::new(RESPONSE_BYTES_MAX);
        self.talk.opened(now);
        self.out.restart(journal);
        self.replay.reset();
        self.state = State::Open;
        self.gate.connection(true, now);
    }

    fn upgrade_failed(&mut self, io: &mut impl Io, error: &UpgradeError, now: u64) {
        let cause = error.to_string();
        let failure = match error {
            UpgradeError::Auth { .. } => {
                self.tell(ConnectionChange::AuthFailed {
                    endpoint: self.endpoints.name(),
                    cause: cause.clone(),
                });
                return self.auth_refused(io, cause, now);
            }
            UpgradeError::RoleReject { transient, .. } => Failure::Role { soon: *transient },
            UpgradeError::DurableMismatch { .. } => Failure::DurableMismatch,
            _ => Failure::Transport,
        };
        self.attempt_failed(io, failure, &cause, now);
    }
}
