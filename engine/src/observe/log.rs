//! The default handler: one log line an event, with the ids that docs/operations.md lists.

use super::event::{Category, ConnectionEvent, DrainerEvent, Policy, SenderError};

/// Logs an error; `repeats` more of its kind were counted since the last line.
pub(super) fn error(error: &SenderError, repeats: u64) {
    let SenderError {
        category,
        policy,
        message,
        endpoint,
        ..
    } = error;
    let status = error.status.map(|status| format!("0x{status:02X}"));
    let (status, wire_seq) = (status.as_deref().unwrap_or("none"), error.wire_seq);
    let (from, to) = error.frames.unzip();
    if *category == Category::Unflushed {
        tracing::warn!(
            repeats,
            "FB-P001 producer dropped with unpublished rows: {message}"
        );
        return;
    }
    match policy {
        Policy::Terminal => tracing::error!(
            ?category,
            status,
            endpoint,
            wire_seq,
            from,
            to,
            "FB-E001 the engine takes no more rows: {message}"
        ),
        Policy::Abandoned => tracing::error!(
            ?category,
            status,
            endpoint,
            wire_seq,
            from,
            to,
            repeats,
            "FB-E002 DATA_LOSS: rows given up: {message}"
        ),
        Policy::Retriable | Policy::RetriableOther => tracing::warn!(
            ?category,
            status,
            endpoint,
            wire_seq,
            from,
            to,
            repeats,
            "FB-E003 refused, sent again after a pause: {message}"
        ),
    }
}

/// Logs a change of the connection.
pub(super) fn connection(change: &ConnectionEvent, repeats: u64) {
    match change {
        ConnectionEvent::Connected { endpoint } => {
            tracing::info!(endpoint, "FB-N001 connected");
        }
        ConnectionEvent::Reconnected { endpoint } => {
            tracing::info!(endpoint, repeats, "FB-N002 connected again");
        }
        ConnectionEvent::FailedOver { from, to } => {
            tracing::info!(from, to, repeats, "FB-N003 connected to another server");
        }
        ConnectionEvent::Disconnected { endpoint, cause } => {
            tracing::info!(endpoint, repeats, "FB-N004 disconnected: {cause}");
        }
        ConnectionEvent::AttemptFailed {
            endpoint,
            attempt,
            cause,
        } => {
            tracing::info!(endpoint, attempt, repeats, "FB-N005 no connection: {cause}");
        }
        ConnectionEvent::AllUnreachable { rounds, cause } => {
            tracing::warn!(rounds, repeats, "FB-N006 no server can be reached: {cause}");
        }
        ConnectionEvent::AuthFailed { endpoint, cause } => {
            tracing::warn!(endpoint, repeats, "FB-N007 credentials refused: {cause}");
        }
    }
}

/// Logs a step of a drainer.
pub(super) fn drainer(step: &DrainerEvent) {
    match step {
        DrainerEvent::Started {
            slot,
            frames,
            bytes,
        } => tracing::info!(slot, frames, bytes, "FB-O010 draining an orphaned slot"),
        DrainerEvent::Progress { slot, acked, left } => {
            tracing::debug!(slot, acked, left, "FB-O011 draining");
        }
        DrainerEvent::DurableMismatch { slot, cause } => tracing::warn!(
            slot,
            "FB-O012 no server grants the durable acknowledgement that is asked for: {cause}"
        ),
        DrainerEvent::Drained { slot, acked } => {
            tracing::info!(slot, acked, "FB-O013 orphaned slot drained");
        }
        DrainerEvent::Failed {
            slot,
            reason,
            unmarked: None,
        } => tracing::error!(
            slot,
            "FB-O014 orphaned slot given up and marked .failed: {reason}"
        ),
        DrainerEvent::Failed {
            slot,
            reason,
            unmarked: Some(error),
        } => tracing::error!(
            slot,
            error,
            "FB-O015 orphaned slot given up, and .failed cannot be written: left alone until this \
             process ends: {reason}"
        ),
        DrainerEvent::Postponed { slot, cause } => tracing::warn!(
            slot,
            "FB-O016 orphaned slot not drained, tried again at the next look: {cause}"
        ),
    }
}

/// What makes two errors repeats of each other; `None` for those that are always told.
pub(super) fn error_kind(error: &SenderError) -> Option<String> {
    if error.policy == Policy::Terminal {
        return None;
    }
    let SenderError {
        category,
        policy,
        status,
        endpoint,
        ..
    } = error;
    Some(format!("{category:?} {policy:?} {status:?} {endpoint}"))
}

/// What makes two changes of the connection repeats of each other.
pub(super) fn connection_kind(change: &ConnectionEvent) -> String {
    match change {
        ConnectionEvent::Connected { endpoint } => format!("connected {endpoint}"),
        ConnectionEvent::Reconnected { endpoint } => format!("reconnected {endpoint}"),
        ConnectionEvent::FailedOver { from, to } => format!("over {from} {to}"),
        ConnectionEvent::Disconnected { endpoint, .. } => format!("disconnected {endpoint}"),
        ConnectionEvent::AttemptFailed { endpoint, .. } => format!("attempt {endpoint}"),
        ConnectionEvent::AllUnreachable { .. } => "unreachable".to_owned(),
        ConnectionEvent::AuthFailed { endpoint, .. } => format!("auth {endpoint}"),
    }
}
