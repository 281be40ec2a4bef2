//! The seam: the only door to disk, network and time.
//!
//! The shard's code is written against the traits of this module and runs unchanged on two
//! implementations: [`uring`] (the kernel) and [`sim`] (a virtual disk, network and clock driven by
//! a seed). Two kinds of disk access exist, because two kinds of thread need them:
//!
//! * [`Fs`]: blocking calls, for opening, recovery, close and the steward. Never on a shard.
//! * [`Storage`]: operations that are submitted and complete later, for the shard alone.
//!
//! All `unsafe` code of the engine lives below this module (and in the ring's region).

mod file;
mod fs;
#[cfg(all(feature = "uring", any(test, feature = "internals")))]
pub(crate) mod instant;
#[cfg(all(feature = "uring", any(test, feature = "internals")))]
pub(crate) mod offline;
mod ops;
#[cfg(any(test, feature = "internals"))]
pub(crate) mod sim;
pub(crate) mod sys;
#[cfg(feature = "uring")]
pub(crate) mod uring;

use std::io;
use std::net::SocketAddr;

pub(crate) use file::{File, FileOwner};
pub(crate) use fs::{Between, Entry, EntryKind, Fs, Machine, OpenMode};
pub(crate) use ops::{
    Asked, DiskOp, Done, Doomed, Found, Removal, Reply, Request, SpareFile, Token,
};
pub(crate) use sys::{BLOCK, HUGE, Pinned, Region};

/// Disk access of a shard: submitted now, completed in a later turn.
///
/// Operations may complete in any order. Nothing is dropped in flight: a driver that is shut down
/// drains first.
pub(crate) trait Storage {
    /// Queues an operation. A full queue gives it back: try again next turn.
    fn submit(&mut self, token: Token, op: DiskOp) -> Result<(), DiskOp>;
    /// Hands everything queued to the kernel.
    fn kick(&mut self);
    /// The next completed operation, if any. Never blocks.
    fn complete(&mut self) -> Option<Done>;
}

/// What may block is asked of the steward and answered later.
pub(crate) trait Steward {
    /// Queues a request. A full queue gives it back: try again next turn.
    fn request(&mut self, request: Request) -> Result<(), Request>;
    /// The next answer, if any. Never blocks.
    fn reply(&mut self) -> Option<Reply>;
}

/// The shard's one socket. All calls return at once; `WouldBlock` means "not yet".
pub(crate) trait Transport {
    /// Starts connecting; an earlier connection is dropped first. With `secure`, the name that the
    /// server's certificate must have, everything runs through TLS.
    fn dial(&mut self, address: SocketAddr, secure: Option<&str>) -> io::Result<()>;
    /// How far [`dial`](Self::dial) has come.
    fn dialed(&mut self) -> Dialed;
    /// Takes a prefix of `bytes` and returns its length. What was taken goes out without further
    /// calls of this one: with those of [`recv`](Self::recv).
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Receives into `bytes`; `Ok(0)` is the end of the stream.
    fn recv(&mut self, bytes: &mut [u8]) -> io::Result<usize>;
    /// Drops the connection.
    fn hang_up(&mut self);
}

/// The stages of a connection on its way.
#[derive(Debug)]
pub(crate) enum Dialed {
    /// TCP connects.
    Connecting,
    /// TCP has connected, the TLS handshake runs.
    Securing,
    /// Bytes can be sent and received.
    Ready,
    /// There will be no connection.
    Failed(io::Error),
}

/// Time and chance.
pub(crate) trait Clock {
    /// Monotonic time in nanoseconds.
    fn now(&self) -> u64;
    /// A uniformly random number: masks, nonces, jitter.
    fn random(&mut self) -> u64;
}

/// Everything a shard asks of the world.
pub(crate) trait Io: Storage + Steward + Transport + Clock {}
impl<T: Storage + Steward + Transport + Clock> Io for T {}
