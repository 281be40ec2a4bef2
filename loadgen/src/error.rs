//! Everything that can stop `replay` or `run`, sorted by whose fault it is.

use std::io;
use std::path::{Path, PathBuf};

/// Why a replay or a run ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option of the command does not fit the others or the input.
    #[error("{option}: {reason}")]
    Config {
        /// The option as it is written on the command line.
        option: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A cell, or a whole row, of the CSV file cannot be sent as it is; nothing of its batch was.
    #[error("{}: line {line}, column {column:?}: {reason}", path.display())]
    Csv {
        /// The file.
        path: PathBuf,
        /// Line on which the row starts, counted from 1 (the header).
        line: u64,
        /// Name of the column in the header; `(row)` where the row as a whole is at fault.
        column: String,
        /// What was found and what is expected.
        reason: String,
    },
    /// A file could not be opened, read or written.
    #[error("{op} {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        op: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(#[from] forebay::Error),
    /// The embedded server could not be started or failed.
    #[error("embedded sink: {0}")]
    Sink(String),
    /// A bug in this crate.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// An option that does not fit.
    pub(crate) fn config(option: &'static str, reason: impl Into<String>) -> Self {
        Self::Config {
            option,
            reason: reason.into(),
        }
    }

    /// A failed file operation with its place.
    pub(crate) fn io(op: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_path_buf(),
            op,
            source,
        }
    }
}
