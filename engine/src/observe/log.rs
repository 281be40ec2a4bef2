//! The default handler: one log line an event, with the ids that docs/operations.md lists.

use super::event::{
    Category, ConnectionChange, ConnectionEvent, DrainerEvent, Policy, SenderError,
};

/// Logs an error; `repeats` more of its kind were counted since the last line.
pub(super) fn error(error: &SenderError, repeats: u64) {
    let SenderError {
        shard,
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
            shard,
            repeats,
            "FB-P001 producer dropped with unpublished rows: {message}"
        );
        return;
    }
    match policy {
        Policy::Retriable if *category == Category::Disk => {
            tracing::error!(shard, repeats, "FB-J001 the disk failed: {message}");
        }
        Policy::Terminal => tracing::error!(
            shard,
            ?category,
            status,
            endpoint,
            wire_seq,
            from,
            to,
            "FB-E001 the engine takes no more rows: {message}"
        ),
        Policy::Abandoned => tracing::error!(
            shard,
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
            shard,
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
pub(super) fn connection(event: &ConnectionEvent, repeats: u64) {
    let shard = event.shard;
    match &event.change {
        ConnectionChange::Connected { endpoint } => {
            tracing::info!(shard, endpoint, "FB-N001 connected");
        }
        ConnectionChange::Reconnected { endpoint } => {
            tracing::info!(shard, endpoint, repeats, "FB-N002 connected again");
        }
        ConnectionChange::FailedOver { from, to } => {
            tracing::info!(
                shard,
                from,
                to,
                repeats,
                "FB-N003 connected to another server"
            );
        }
        ConnectionChange::Disconnected { endpoint, cause } => {
            tracing::info!(shard, endpoint, repeats, "FB-N004 disconnected: {cause}");
        }
        ConnectionChange::AttemptFailed {
            endpoint,
            attempt,
            cause,
        } => {
            tracing::info!(
                shard,
                endpoint,
                attempt,
                repeats,
                "FB-N005 no connection: {cause}"
            );
        }
        ConnectionChange::AllUnreachable { rounds, cause } => {
            tracing::warn!(
                shard,
                rounds,
                repeats,
                "FB-N006 no server can be reached: {cause}"
            );
        }
        ConnectionChange::AuthFailed { endpoint, cause } => {
            tracing::warn!(
                shard,
                endpoint,
                repeats,
                "FB-N007 credentials refused: {cause}"
            );
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
        DrainerEvent::EraDrained { slot, acked } => tracing::info!(
            slot,
            acked,
            "FB-O017 orphaned slot drained up to another number of shards"
        ),
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
        shard,
        category,
        policy,
        status,
        endpoint,
        ..
    } = error;
    Some(format!(
        "{shard} {category:?} {policy:?} {status:?} {endpoint}"
    ))
}

/// What makes two changes of the connection repeats of each other.
pub(super) fn connection_kind(event: &ConnectionEvent) -> String {
    let kind = match &event.change {
        ConnectionChange::Connected { endpoint } => format!("connected {endpoint}"),
        ConnectionChange::Reconnected { endpoint } => format!("reconnected {endpoint}"),
        ConnectionChange::FailedOver { from, to } => format!("over {from} {to}"),
        ConnectionChange::Disconnected { endpoint, .. } => format!("disconnected {endpoint}"),
        ConnectionChange::AttemptFailed { endpoint, .. } => format!("attempt {endpoint}"),
        ConnectionChange::AllUnreachable { .. } => "unreachable".to_owned(),
        ConnectionChange::AuthFailed { endpoint, .. } => format!("auth {endpoint}"),
    };
    format!("{} {kind}", event.shard)
}
