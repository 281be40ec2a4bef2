//! Why a command could not do its work. Damage of a slot is a finding, not a failure.

use std::io;
use std::path::{Path, PathBuf};

/// Everything that ends a command with exit status 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A file or directory could not be read.
    #[error("{op} {}: {source}", path.display())]
    Read {
        /// What was tried.
        op: &'static str,
        /// On what.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The engine's reader gave up.
    #[error(transparent)]
    Engine(#[from] forebay::Error),
    /// The directory is no slot.
    #[error("{}: {reason}", path.display())]
    NoSlot {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        reason: &'static str,
    },
    /// The result could not be written.
    #[error("write output: {0}")]
    Output(io::Error),
    /// An option has a value that cannot be used.
    #[error("{option}: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
}

impl Failure {
    /// A failed read with its place.
    pub(crate) fn read(op: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Read {
            op,
            path: path.to_path_buf(),
            source,
        }
    }

    /// Whether a file that was there is gone: a running engine removed it.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Read { source, .. } | Self::Engine(forebay::Error::Disk { source, .. }) => {
                source.kind() == io::ErrorKind::NotFound
            }
            _ => false,
        }
    }
}
