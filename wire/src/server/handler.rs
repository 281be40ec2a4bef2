//! The seam between the conversation and the code that applies messages.

use std::sync::Arc;

use crate::response::Status;
use crate::ws::Opcode;

/// Applies messages. One per connection, called on the connection's thread in order of arrival.
pub trait MessageHandler {
    /// Applies one whole message, or none of it.
    ///
    /// `message` is unmasked and as received: nothing of it has been checked, and it is empty for
    /// an empty frame, which commits what is deferred. `seq` counts the connection's messages
    /// from 0. Every table that this message commits goes into `commits`.
    fn message(
        &mut self,
        message: &[u8],
        seq: u64,
        commits: &mut Commits,
    ) -> Result<Outcome, Refusal>;

    /// Makes what was applied so far as lasting as an OK promises. Called before the OK for it is
    /// written, at most once per OK; a refusal is answered for the oldest message without an OK.
    fn settle(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Sees a PING, PONG or CLOSE before it is answered; `false` leaves the answer out. For
    /// records and fault injection.
    fn control_frame(&mut self, _opcode: Opcode, _payload: &[u8]) -> bool {
        true
    }

    /// Sees a message that is consumed in silence because an earlier one was refused.
    fn silenced(&mut self, _message: &[u8], _seq: u64) {}

    /// Messages that an OK may cover at most, as a count from the connection's start. Asked
    /// before each OK. For fault injection.
    fn ok_limit(&self) -> u64 {
        u64::MAX
    }
}

/// What became of a message that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Applied, and nothing of the connection is left uncommitted.
    Committed,
    /// Its rows, or those of earlier messages, wait for a later message to commit them: no OK may
    /// cover it yet.
    Deferred,
    /// The node stopped taking writes: the message is neither applied nor answered, and the
    /// connection ends with CLOSE 1000.
    RoleChange,
    /// Not applied; the connection ends without an answer to it. Messages before it that are done
    /// get their OK. For fault injection.
    Drop,
}

/// A message that was not applied, as the server tells the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status byte.
    pub status: Status,
    /// The text, cut at 1,024 bytes on the wire.
    pub text: String,
}

impl Refusal {
    /// A refusal with a text for people.
    pub fn new(status: Status, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }
}

/// A table and the number of its transaction.
pub(super) type TableCommit = (Arc<str>, i64);

/// Tables committed by a message, each with the number of its transaction.
#[derive(Debug, Default)]
pub struct Commits {
    pub(super) tables: Vec<TableCommit>,
}

impl Commits {
    /// Adds a table. `seq_txn` must not fall from one commit of a table to the next.
    pub fn push(&mut self, table: Arc<str>, seq_txn: i64) {
        self.tables.push((table, seq_txn));
    }

    /// What was added for the message at hand.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i64)> {
        self.tables.iter().map(|(table, seq_txn)| (table, *seq_txn))
    }
}
