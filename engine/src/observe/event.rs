//! What happens to an engine, as data: pushed by shards, drained by the notifier.

use crate::fsn::Fsn;

/// What an error is about (protocol.md sections 10.2 and 18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Category {
    /// Status 03: the table's schema refuses the rows.
    SchemaMismatch,
    /// Status 05: the server cannot read a message.
    ParseError,
    /// Status 06.
    InternalError,
    /// Status 08, or an upgrade refused with 401 or 403.
    SecurityError,
    /// Status 09.
    WriteError,
    /// Status 0C: the server takes no writes now.
    NotWritable,
    /// Status 0D: the server misses symbols that a message builds on.
    DictionaryGap,
    /// A status that this version does not know.
    Unknown,
    /// The conversation broke its rules, or a frame was refused too often.
    ProtocolViolation,
    /// Rows that were accepted will not be delivered by this engine.
    DataLoss,
    /// A disk operation failed.
    Disk,
    /// The engine itself failed: a thread that panicked, a limit of the slot.
    Fault,
    /// Rows of a dropped producer that were never accepted.
    Unflushed,
}

/// What the engine does about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// The same bytes are sent again after a pause.
    Retriable,
    /// The same, to another server.
    RetriableOther,
    /// The engine takes no more rows; what it has stays on disk.
    Terminal,
    /// The rows are given up (their bytes are kept aside); the engine goes on.
    Abandoned,
}

/// An error of the delivery or of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderError {
    /// Number of the shard that it happened to, from 0.
    pub shard: u32,
    /// What it is about.
    pub category: Category,
    /// What the engine does about it.
    pub policy: Policy,
    /// Status byte of the server's answer, if there was one.
    pub status: Option<u8>,
    /// The server's text, or ours.
    pub message: String,
    /// `host:port` of the server; empty where the cause is local.
    pub endpoint: String,
    /// Number of the refused message on its connection.
    pub wire_seq: Option<u64>,
    /// Frames concerned, first and last; `None` if none is.
    pub frames: Option<(u64, u64)>,
}

impl SenderError {
    /// An error about no particular message.
    pub(crate) fn new(category: Category, policy: Policy, message: String) -> Self {
        Self {
            shard: 0,
            category,
            policy,
            status: None,
            message,
            endpoint: String::new(),
            wire_seq: None,
            frames: None,
        }
    }

    /// The same, about the frames `from..to`.
    pub(crate) fn of_frames(mut self, from: Fsn, to: Fsn) -> Self {
        self.frames = (to > from).then(|| (from.0, to.0 - 1));
        self
    }
}

/// A change of a shard's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionEvent {
    /// Number of the shard that has the connection, from 0.
    pub shard: u32,
    /// What became of it.
    pub change: ConnectionChange,
}

/// What became of a connection (protocol.md section 18).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionChange {
    /// The first connection of this shard.
    Connected {
        /// `host:port`.
        endpoint: String,
    },
    /// A connection to the same server as before.
    Reconnected {
        /// `host:port`.
        endpoint: String,
    },
    /// A connection to another server than before.
    FailedOver {
        /// The server before.
        from: String,
        /// The server now.
        to: String,
    },
    /// The connection ended.
    Disconnected {
        /// `host:port`.
        endpoint: String,
        /// Why.
        cause: String,
    },
    /// An attempt at one server failed.
    AttemptFailed {
        /// `host:port`.
        endpoint: String,
        /// Attempts since the outage began.
        attempt: u64,
        /// Why.
        cause: String,
    },
    /// Every server was tried in vain; a pause follows.
    AllUnreachable {
        /// Rounds since the outage began.
        rounds: u64,
        /// The last cause.
        cause: String,
    },
    /// A server refused the credentials.
    AuthFailed {
        /// `host:port`.
        endpoint: String,
        /// The server's words.
        cause: String,
    },
}

/// A step of a background drainer. Slots are named by their directory below `sf_dir`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DrainerEvent {
    /// The slot was taken over; its frames are on their way.
    Started {
        /// Name of the slot.
        slot: String,
        /// Frames to deliver.
        frames: u64,
        /// Their bytes, about.
        bytes: u64,
    },
    /// Frames were confirmed: about once a second.
    Progress {
        /// Name of the slot.
        slot: String,
        /// Frames confirmed by this drainer.
        acked: u64,
        /// Frames still to deliver.
        left: u64,
    },
    /// No server grants the durable acknowledgement that is asked for; tried again.
    DurableMismatch {
        /// Name of the slot.
        slot: String,
        /// The last cause.
        cause: String,
    },
    /// Everything was confirmed; the slot is empty.
    Drained {
        /// Name of the slot.
        slot: String,
        /// Frames confirmed by this drainer.
        acked: u64,
    },
    /// What the slot holds of one number of shards was confirmed; frames of the next number follow
    /// when that is so in all slots of their sender.
    EraDrained {
        /// Name of the slot.
        slot: String,
        /// Frames confirmed by this drainer.
        acked: u64,
    },
    /// The slot can not be delivered and waits for an operator.
    Failed {
        /// Name of the slot.
        slot: String,
        /// Why: what `.failed` says.
        reason: String,
        /// Why `.failed` could not be written; the slot is then left alone until this process
        /// ends, and told once.
        unmarked: Option<String>,
    },
    /// The slot stays as it is and is tried again: a passing error, or the engine closes.
    Postponed {
        /// Name of the slot.
        slot: String,
        /// Why.
        cause: String,
    },
}

impl DrainerEvent {
    /// Name of the slot.
    pub fn slot(&self) -> &str {
        match self {
            Self::Started { slot, .. }
            | Self::Progress { slot, .. }
            | Self::DurableMismatch { slot, .. }
            | Self::Drained { slot, .. }
            | Self::EraDrained { slot, .. }
            | Self::Failed { slot, .. }
            | Self::Postponed { slot, .. } => slot,
        }
    }
}

/// How far an engine has come: frames by their FSN, which a slot counts from 0 over all starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// First FSN that was not given out yet.
    pub published: u64,
    /// First FSN that the server has not confirmed.
    pub acked: u64,
}

/// Anything that the notifier reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An error.
    Error(SenderError),
    /// A change of a shard's connection.
    Connection(ConnectionEvent),
    /// What became of a slot that another sender left.
    Drainer(DrainerEvent),
}
