//! What a rule can do.

use std::time::Duration;

use super::{Malformed, When};

/// What a rule does. Actions of [`Phase::Upgrade`] go with [`When::Upgrade`] only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Answers the upgrade with this status and these headers, then closes.
    Http {
        /// HTTP status.
        status: u16,
        /// Further headers, name and value.
        headers: Vec<(String, String)>,
    },
    /// Sets a header of the 101, or takes it out.
    Header {
        /// Its name.
        name: String,
        /// The new value; `None` takes the header out.
        value: Option<String>,
    },
    /// Advertises this batch size and enforces it; `None` advertises nothing.
    Cap(Option<u64>),
    /// Writes the first half of the 101 and then nothing more, the connection stays open.
    HalfResponse,

    /// Ends with CLOSE of this code, after the OK for what was done before.
    Close {
        /// Close code, legal or not.
        code: u16,
        /// Reason, at most 123 bytes.
        reason: String,
    },
    /// Ends with a TCP reset.
    Rst,
    /// Ends with the end of the stream, without a CLOSE.
    Eof,
    /// Neither reads nor writes any more and keeps the connection open.
    HalfOpen,

    /// Refuses the message with this status byte. At other moments the newest message is named.
    Nack {
        /// The status byte, known or not.
        status: u8,
        /// Text for people.
        text: String,
    },
    /// No OK for this message and later ones until the time has passed.
    Hold(Duration),
    /// No OK for this message and `n - 1` later ones; the next OK covers them.
    Skip(u64),
    /// From now on every answer is written so much later.
    Delay(Duration),
    /// Does nothing at all for so long, reading included; once.
    Pause(Duration),
    /// From now on at most `bytes` are read in each `period`.
    SlowRead {
        /// Bytes of a read.
        bytes: usize,
        /// Time from one read to the next.
        period: Duration,
    },
    /// Writes the last OK once more.
    DuplicateOk,
    /// Writes an OK for a message that is `n` after the newest one, in place of its own.
    OkAhead(u64),
    /// Writes this answer as a well-formed frame.
    Answer(Vec<u8>),
    /// Writes these bytes as they are.
    Raw(Vec<u8>),
    /// Writes something that is wrong in place of the OK; no OK comes after it.
    Malformed(Malformed),
    /// Sends a PING.
    Ping,
    /// PINGs are not answered from now on.
    NoPongs,
    /// A CLOSE of the client is not answered, the connection just ends.
    NoCloseEcho,

    /// How durable acknowledgements come from now on, on the whole sink.
    Durable(DurableManners),
    /// Drops the table and makes it anew: its transactions and watermark start at 1 again.
    RecreateTable(String),
    /// The node changes its role: connections end with CLOSE 1000 and upgrades are refused with
    /// 421 while the role is `REPLICA` or `PRIMARY_CATCHUP`.
    Role(Option<String>),
    /// Stops listening for so long; the kernel refuses connects meanwhile.
    StopListening(Duration),
    /// The `Authorization` value that clients must send from now on; `None` wants none.
    Authorization(Option<String>),
}

/// How a sink gives durable acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurableManners {
    /// Time from a commit until it is durable.
    pub delay: Duration,
    /// Transactions of each table that are not durable yet, the newest ones.
    pub lag: u64,
    /// Nothing becomes durable.
    pub never: bool,
}

/// Where in a connection's life an action has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// At the upgrade only.
    Upgrade,
    /// After it only.
    Conversation,
    /// At any moment.
    Any,
}

impl Action {
    /// Where the action has a meaning.
    pub fn phase(&self) -> Phase {
        match self {
            Self::Http { .. } | Self::Header { .. } | Self::Cap(_) | Self::HalfResponse => {
                Phase::Upgrade
            }
            Self::Rst
            | Self::Eof
            | Self::HalfOpen
            | Self::Pause(_)
            | Self::Raw(_)
            | Self::Durable(_)
            | Self::RecreateTable(_)
            | Self::Role(_)
            | Self::StopListening(_)
            | Self::Authorization(_) => Phase::Any,
            _ => Phase::Conversation,
        }
    }

    /// Whether the action can happen at that moment.
    pub fn fits(&self, when: &When) -> bool {
        match self.phase() {
            Phase::Upgrade => *when == When::Upgrade,
            Phase::Conversation => *when != When::Upgrade,
            Phase::Any => true,
        }
    }

    /// Whether the connection ends with it.
    pub(in crate::sink) fn is_ending(&self) -> bool {
        matches!(
            self,
            Self::Close { .. } | Self::Rst | Self::Eof | Self::HalfOpen
        )
    }

    /// Whether it is about the sink and not about a connection.
    pub(in crate::sink) fn is_of_sink(&self) -> bool {
        matches!(
            self,
            Self::Durable(_)
                | Self::RecreateTable(_)
                | Self::Role(_)
                | Self::StopListening(_)
                | Self::Authorization(_)
        )
    }
}
