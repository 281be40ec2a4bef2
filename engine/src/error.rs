//! The one error of this crate, grouped by whose fault it is.
//!
//! Every variant says what happened, the values, the limit and the key or command that helps.
//! Variants a caller may meet on the row path carry no heap data of their own.

use std::io;
use std::path::{Path, PathBuf};

/// Which of the two states a full engine is in (operations.md O11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// The server acknowledges, but slower than the producers publish.
    Publishing,
    /// A disk operation failed: nothing is taken until the journal is repaired
    /// (`Status::reasons`, `Engine::recent_errors` say which).
    Repairing,
    /// The shard panicked and is started again after a pause (`Status::reasons` says why): what
    /// was accepted is kept.
    Restarting,
    /// No server is connected; `attempts` connection attempts failed since `outage_millis` ago.
    Reconnecting {
        /// Connection attempts since the outage began.
        attempts: u64,
        /// Age of the outage in milliseconds.
        outage_millis: u64,
    },
}

impl Pressure {
    fn way_out(self) -> &'static str {
        match self {
            Self::Publishing | Self::Reconnecting { .. } => {
                "Raise sf_max_total_bytes, or find out why the server does not acknowledge"
            }
            Self::Restarting => {
                "Try again after steward_respawn_backoff_millis, and report the bug: \
                 Engine::recent_errors has what the panic said"
            }
            Self::Repairing => "Look at the disk: Engine::last_failure names the operation",
        }
    }
}

/// Everything that can go wrong, sorted by cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The engine is full and the wait limit passed; nothing of the batch was accepted, unless it
    /// is larger than the intake ring: then `rows_accepted` tells.
    #[error(
        "back-pressure ({pressure:?}): no room for {batch_bytes} bytes after {waited_millis} ms \
         (sf_append_deadline_millis); {}. {}",
        kept(*rows_accepted),
        pressure.way_out()
    )]
    Backpressure {
        /// What the engine is waiting for.
        pressure: Pressure,
        /// Room in the ring that the refused batch needs, in bytes.
        batch_bytes: u64,
        /// How long the call waited, in milliseconds.
        waited_millis: u64,
        /// Rows that were accepted and left the producer: the first ones, table by table in the
        /// order in which the tables were first used. 0 unless the batch exceeds seven eighths of
        /// `intake_ring_bytes`.
        rows_accepted: u64,
        /// First and last position that were refused, of [`Producer::flush_at`] and
        /// [`Producer::try_flush_at`].
        ///
        /// [`Producer::flush_at`]: crate::Producer::flush_at
        /// [`Producer::try_flush_at`]: crate::Producer::try_flush_at
        positions: Option<(u64, u64)>,
    },
    /// A batch can never fit; the rows stay with the producer.
    #[error(
        "a batch of up to {batch_bytes} bytes exceeds the limit of {limit_bytes} bytes set by {limit}; \
         the rows stay with the producer: flush more often or raise that limit"
    )]
    BatchTooLarge {
        /// Size of the batch as one message, in bytes.
        batch_bytes: u64,
        /// The limit in bytes.
        limit_bytes: u64,
        /// The key or property that sets the limit.
        limit: &'static str,
        /// First and last position that were refused, as in [`Error::Backpressure`].
        positions: Option<(u64, u64)>,
    },
    /// The connect string or environment is wrong.
    #[error("configuration: {key}: {reason}")]
    Config {
        /// The key at fault, or `connect string` when there is none.
        key: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The caller broke the contract of a call.
    #[error("misuse: {0}")]
    Misuse(&'static str),
    /// A row cannot be sent as it is; it was left out and the batch is unchanged otherwise.
    #[error("table {table:?}, column {column:?}: {reason}")]
    Row {
        /// Table of the row.
        table: String,
        /// Column at fault; empty where the row as a whole is.
        column: String,
        /// What is wrong.
        reason: String,
    },
    /// The slot has as many symbols as it may have, and this value is new to the producer; the row
    /// was left out. It may be sent again later: new symbols are taken once everything is acked.
    #[error(
        "table {table:?}, column {column:?}: the slot has {symbols_max} symbols, the most it may \
         have (symbol_dict_max); the row was left out. Values that this producer sent before are \
         still taken, new ones once everything is acked. Find out why the server does not \
         acknowledge, or send fewer distinct symbols (VARCHAR takes any)"
    )]
    SymbolsFull {
        /// Table of the row.
        table: String,
        /// Column of the symbol.
        column: String,
        /// Most symbols of the slot.
        symbols_max: u32,
    },
    /// The server, or the way to it, refused or failed.
    #[error("server {endpoint}: {reason}")]
    Peer {
        /// `host:port` of the server.
        endpoint: String,
        /// What happened.
        reason: String,
        /// Whether trying again can help.
        retryable: bool,
    },
    /// A disk operation failed; nothing on disk was given up.
    #[error("{op} {path:?} at offset {offset}: {source}{}", hint(source))]
    Disk {
        /// File or directory.
        path: PathBuf,
        /// Operation that failed.
        op: &'static str,
        /// Byte offset, 0 where it has no meaning.
        offset: u64,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The slot is damaged and could not be set aside: nothing was touched. A damaged slot that
    /// could is no error, but [`Engine::set_aside`](crate::Engine::set_aside).
    #[error("{path:?} at offset {offset}: {reason}")]
    Corrupt {
        /// File at fault.
        path: PathBuf,
        /// Byte offset of the damage.
        offset: u64,
        /// What was expected and what was found.
        reason: String,
    },
    /// A write or sync of the slot failed earlier: frames go on being delivered from memory, but
    /// no further stage is reported.
    #[error("the slot takes no more rows: {cause}")]
    Poisoned {
        /// First failure.
        cause: String,
    },
    /// Another process (or another engine of this one) holds the slot.
    #[error(
        "slot {slot:?} is locked, holder={holder}; waited {waited_millis} ms (lock_retry_millis). \
         Stop the holder or use another sender_id. If that process is dead, I/O of the killed \
         process is still in flight: try again"
    )]
    Locked {
        /// Slot directory.
        slot: PathBuf,
        /// PID read from `.lock.pid`, or `unknown`.
        holder: String,
        /// How long opening waited, in milliseconds.
        waited_millis: u64,
    },
    /// This machine or its configuration cannot run the engine.
    #[error("{what}: {reason}. {remedy}")]
    Unsupported {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        reason: String,
        /// What to change.
        remedy: &'static str,
    },
    /// A wait ended by its time limit; the batch is still on its way.
    #[error("not {stage} within {waited_millis} ms; the batch is still on its way")]
    Timeout {
        /// Stage that was waited for.
        stage: &'static str,
        /// How long the call waited, in milliseconds.
        waited_millis: u64,
    },
    /// `close` ran out of time; with `sf_dir` the rest stays on disk for the next start.
    #[error(
        "closed after {waited_millis} ms with {frames} frames ({bytes} bytes) not acknowledged \
         (close_flush_timeout_millis){}",
        lost(*untaken)
    )]
    NotDrained {
        /// Frames without acknowledgement.
        frames: u64,
        /// Their bytes.
        bytes: u64,
        /// Batches that were accepted and could not be journaled: they stay in the intake, and are
        /// lost with `intake=memory`.
        untaken: u64,
        /// How long close waited, in milliseconds.
        waited_millis: u64,
    },
    /// The engine was closed.
    #[error("the engine is closed")]
    Closed,
    /// A bug in this crate.
    #[error("internal error: {0}")]
    Internal(String),
}

fn kept(rows_accepted: u64) -> String {
    match rows_accepted {
        0 => "the rows stay with the producer".to_owned(),
        rows => format!("the first {rows} rows were accepted, the others stay with the producer"),
    }
}

fn lost(untaken: u64) -> String {
    if untaken == 0 {
        return String::new();
    }
    format!(
        "; {untaken} accepted batches could not be journaled: they stay in the intake for the next \
         start, and are lost with intake=memory"
    )
}

fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENOSPC) => " (no space left: free some or lower sf_max_total_bytes)",
        Some(libc::EMFILE) => " (descriptor limit: raise ulimit -n)",
        Some(libc::EACCES | libc::EPERM) => " (check owner and mode of the directory)",
        _ => "",
    }
}

impl Error {
    /// A disk error with its place.
    pub(crate) fn disk(op: &'static str, path: &Path, offset: u64, source: io::Error) -> Self {
        Self::Disk {
            path: path.to_path_buf(),
            op,
            offset,
            source,
        }
    }

    /// The same after a part of the batch was accepted.
    pub(crate) fn with_rows_accepted(mut self, rows: usize) -> Self {
        if let Self::Backpressure { rows_accepted, .. } = &mut self {
            *rows_accepted = rows as u64;
        }
        self
    }

    /// The same about these positions, where it is a refusal.
    pub(crate) fn with_positions(mut self, span: (u64, u64)) -> Self {
        if let Self::Backpressure { positions, .. } | Self::BatchTooLarge { positions, .. } =
            &mut self
        {
            *positions = Some(span);
        }
        self
    }

    /// A configuration error.
    pub(crate) fn config(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Config {
            key: key.into(),
            reason: reason.into(),
        }
    }

    /// A number for this kind of error, the same in every version: for a C ABI, for logs, for
    /// alerts. docs/errors.md lists them. 0 is never used.
    pub fn code(&self) -> u32 {
        match self {
            Self::Backpressure {
                pressure: Pressure::Publishing,
                ..
            } => 1,
            Self::Backpressure {
                pressure: Pressure::Reconnecting { .. },
                ..
            } => 2,
            Self::BatchTooLarge { .. } => 3,
            Self::Timeout { .. } => 4,
            Self::NotDrained { .. } => 5,
            Self::Closed => 6,
            Self::Backpressure {
                pressure: Pressure::Repairing,
                ..
            } => 7,
            Self::Backpressure {
                pressure: Pressure::Restarting,
                ..
            } => 8,
            Self::Misuse(_) => 10,
            Self::Row { .. } => 11,
            Self::Config { .. } => 12,
            Self::SymbolsFull { .. } => 13,
            Self::Peer {
                retryable: true, ..
            } => 20,
            Self::Peer {
                retryable: false, ..
            } => 21,
            Self::Disk { .. } => 30,
            Self::Corrupt { .. } => 31,
            Self::Poisoned { .. } => 32,
            Self::Locked { .. } => 33,
            Self::Unsupported { .. } => 40,
            Self::Internal(_) => 50,
        }
    }

    /// Whether the same call may succeed later without a change of data or configuration.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Backpressure { .. }
            | Self::SymbolsFull { .. }
            | Self::Disk { .. }
            | Self::Locked { .. }
            | Self::Timeout { .. } => true,
            Self::Peer { retryable, .. } => *retryable,
            _ => false,
        }
    }

    /// Whether the slot can take no further rows until it is reopened.
    pub fn is_fatal_for_slot(&self) -> bool {
        matches!(
            self,
            Self::Poisoned { .. } | Self::Corrupt { .. } | Self::Closed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind, in the order of the table.
    fn all() -> Vec<Error> {
        let text = String::new;
        let full = |pressure| Error::Backpressure {
            pressure,
            batch_bytes: 0,
            waited_millis: 0,
            rows_accepted: 0,
            positions: None,
        };
        let outage = Pressure::Reconnecting {
            attempts: 1,
            outage_millis: 1,
        };
        let peer = |retryable| Error::Peer {
            endpoint: text(),
            reason: text(),
            retryable,
        };
        vec![
            full(Pressure::Publishing),
            full(outage),
            Error::BatchTooLarge {
                batch_bytes: 0,
                limit_bytes: 0,
                limit: "",
                positions: None,
            },
            Error::Timeout {
                stage: "",
                waited_millis: 0,
            },
            Error::NotDrained {
                frames: 0,
                bytes: 0,
                untaken: 0,
                waited_millis: 0,
            },
            Error::Closed,
            full(Pressure::Repairing),
            full(Pressure::Restarting),
            Error::Misuse(""),
            Error::Row {
                table: text(),
                column: text(),
                reason: text(),
            },
            Error::config("", ""),
            Error::SymbolsFull {
                table: text(),
                column: text(),
                symbols_max: 0,
            },
            peer(true),
            peer(false),
            Error::disk("", Path::new(""), 0, io::Error::other("")),
            Error::Corrupt {
                path: PathBuf::new(),
                offset: 0,
                reason: text(),
            },
            Error::Poisoned { cause: text() },
            Error::Locked {
                slot: PathBuf::new(),
                holder: text(),
                waited_millis: 0,
            },
            Error::Unsupported {
                what: text(),
                reason: text(),
                remedy: "",
            },
            Error::Internal(text()),
        ]
    }

    /// The table of docs/errors.md: code, variant, whether trying again helps.
    #[test]
    fn every_code_has_its_row_and_stays_what_it_is() {
        let table = include_str!("../../docs/errors.md");
        let rows = table.lines().filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let code: u32 = cells[0].parse().ok()?;
            let variant = cells[1].split('`').nth(1)?.to_owned();
            Some((code, variant, cells[2] == "yes"))
        });
        let listed: Vec<_> = rows.collect();
        let actual: Vec<_> = all()
            .iter()
            .map(|error| {
                let variant = format!("{error:?}");
                let end = variant.find(|c: char| !c.is_alphanumeric());
                let variant = variant[..end.unwrap_or(variant.len())].to_owned();
                (error.code(), variant, error.is_retryable())
            })
            .collect();
        assert_eq!(listed, actual);
        let mut codes: Vec<_> = actual.iter().map(|row| row.0).collect();
        codes.dedup();
        assert_eq!(codes.len(), actual.len(), "no code twice");
    }
}
