//! What an error answer means for the sender (protocol.md section 10.2).

use forebay_wire::response::Status;

/// How to go on after an error answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Latch the error; nothing is sent any more; bytes stay on disk.
    Terminal,
    /// Reconnect after a pause and replay.
    Retriable,
    /// Reconnect to another server and replay.
    RetriableOther,
}

/// The policy of a status.
pub(crate) fn policy(status: Status) -> Policy {
    match status {
        Status::SchemaMismatch | Status::ParseError | Status::SecurityError => Policy::Terminal,
        Status::NotWritable => Policy::RetriableOther,
        _ => Policy::Retriable,
    }
}
