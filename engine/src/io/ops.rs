//! What a shard can ask of the disk and of the steward, as plain data.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::{File, Pinned, Region};
use crate::config::Secret;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::intake::RingFile;
use crate::slot::{OpenedSlot, Renewal};
use crate::steward::{Incarnation, Rebuild, Rebuilt, Rejected};

/// Names an operation in flight; chosen by the shard, returned with the completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token(pub u64);

/// An operation on an open file.
#[derive(Debug)]
pub(crate) enum DiskOp {
    /// Writes `bytes`, then `tail` (may be empty) right behind, starting at `offset`. The memory
    /// must not change until completion. On a direct file everything is block-aligned.
    Write {
        /// Target.
        file: File,
        /// Where in the file.
        offset: u64,
        /// First part.
        bytes: Pinned,
        /// Second part, directly behind the first in the file.
        tail: Option<Pinned>,
    },
    /// fdatasync: covers every write that completed before it was submitted.
    Sync {
        /// Target.
        file: File,
    },
    /// Fills `into` from `offset`. The memory must not be touched until completion.
    Read {
        /// Source.
        file: File,
        /// Where in the file.
        offset: u64,
        /// Destination.
        into: Pinned,
    },
}

/// A completed operation.
#[derive(Debug)]
pub(crate) struct Done {
    /// The token it was submitted with.
    pub token: Token,
    /// Bytes moved (0 for a sync), or the kernel's error.
    pub result: io::Result<u32>,
}

/// A request to the steward or the resolver. Requests are data, never decisions.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    /// Create `sf-<generation>.sfa` of `bytes`: reserved, header written and synced, directory
    /// synced (slot-format.md section 7, Spare).
    MakeSpare {
        /// Slot directory.
        dir: PathBuf,
        /// Names the file.
        generation: Generation,
        /// File size.
        bytes: u64,
        /// The next FSN; the spare's provisional base lies behind it.
        next: Fsn,
        /// Whether it is written over with zeros.
        fill: bool,
        /// What must be left of the filesystem, in bytes.
        keep_free: u64,
        /// Whose slot it is.
        incarnation: Incarnation,
    },
    /// Memory for a segment, all of its pages brought in: where a hypervisor has to find them that
    /// takes milliseconds a MiB.
    Memory {
        /// How much.
        bytes: usize,
    },
    /// Unlink these files in order, then sync the directory.
    Remove {
        /// Slot directory.
        dir: PathBuf,
        /// The files.
        files: Vec<Doomed>,
        /// Whose slot it is.
        incarnation: Incarnation,
    },
    /// Write files anew that a failed operation may have spoilt.
    Rebuild(Arc<Rebuild>),
    /// Open a segment for direct reading.
    Open {
        /// The file.
        path: PathBuf,
        /// Names the request in the answer.
        key: u64,
    },
    /// Keep a table that the server refused.
    Keep {
        /// Directory of such files.
        dir: PathBuf,
        /// The table.
        rejected: Box<Rejected>,
        /// Most bytes of such files in the directory.
        limit: u64,
    },
    /// Close a file: the last close of one that was removed meanwhile is slow.
    Close {
        /// The last handle.
        file: File,
    },
    /// Remove the file of an intake ring that holds nothing more.
    RemoveRing(RingFile),
    /// Empty a drained slot and begin it again: a new dictionary epoch.
    Renew {
        /// The slot.
        renewal: Box<Renewal>,
        /// Whose slot it is.
        incarnation: Incarnation,
    },
    /// Resolve a host name and read a secret.
    Resolve(Asked),
}

/// What a connection attempt has to know first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Number of the attempt.
    pub attempt: u64,
    /// Host name or address literal.
    pub host: String,
    /// Port.
    pub port: u16,
    /// A password or token file to read.
    pub secret: Option<PathBuf>,
}

/// The answer to [`Asked`].
#[derive(Debug)]
pub(crate) struct Found {
    /// The question.
    pub asked: Asked,
    /// Addresses in resolver order, not empty.
    pub addresses: io::Result<Vec<SocketAddr>>,
    /// Text of the secret file, if one was asked for.
    pub secret: Option<io::Result<Secret>>,
}

/// A fresh, empty segment file.
#[derive(Debug)]
pub(crate) struct SpareFile {
    /// File name.
    pub name: String,
    /// Its generation.
    pub generation: Generation,
    /// Opened for direct I/O.
    pub file: File,
    /// Size in bytes.
    pub bytes: u64,
    /// `createdMicros` of its header, kept when the header is rewritten at promotion.
    pub created_micros: u64,
}

/// A file to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doomed {
    /// Its name.
    pub name: String,
    /// What it takes on the disk.
    pub bytes: u64,
}

/// What became of files to be removed.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    /// Bytes of those that are gone.
    pub freed: u64,
    /// Those that are not: asked for again, or dropped by the next recovery as "below head".
    pub left: Vec<Doomed>,
    /// The first error, of a removal or of the directory sync.
    pub error: Option<io::Error>,
}

/// An answer of the steward or the resolver.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Answer to [`Request::MakeSpare`].
    Spare(io::Result<SpareFile>),
    /// Answer to [`Request::Memory`].
    Memory(io::Result<Region>),
    /// Answer to [`Request::Remove`].
    Removed(Removal),
    /// Answer to [`Request::Rebuild`].
    Rebuilt(io::Result<Rebuilt>),
    /// Answer to [`Request::Open`].
    Opened {
        /// As in the request.
        key: u64,
        /// The file.
        answer: io::Result<File>,
    },
    /// Answer to [`Request::Keep`].
    Kept(io::Result<()>),
    /// Answer to [`Request::Close`] and [`Request::RemoveRing`].
    Closed,
    /// Answer to [`Request::Renew`].
    Renewed(Result<Box<OpenedSlot>, Error>),
    /// Answer to [`Request::Resolve`].
    Resolved(Found),
}
