//! An event descriptor: the doorbell's bell.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::check;

/// An `eventfd` whose reads wait.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    /// Creates one with count 0. Reads wait for the next ring.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds one; wakes whoever waits.
    pub(crate) fn ring(&self) {
        let one = 1u64;
        // SAFETY: writes 8 bytes from a live u64. The counter would wait at 2^64-2, never reached.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Waits for a ring, `limit` at most, and takes the count back to 0.
    pub(crate) fn wait(&self, limit: Duration) {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout = libc::timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        // SAFETY: one pollfd and one timespec, both live for the call; no signal mask.
        let ready = unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) };
        if ready > 0 && poll.revents & libc::POLLIN != 0 {
            let mut count = 0u64;
            // SAFETY: reads 8 bytes into a live u64; the count is not 0, so it does not wait.
            unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
        }
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
