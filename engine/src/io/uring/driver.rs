//! [`Storage`](crate::io::Storage), [`Steward`](crate::io::Steward) and
//! [`Clock`](crate::io::Clock) of a shard, on one ring; its socket is in [`transport`](super).
//!
//! The ring has neither `DEFER_TASKRUN` nor `COOP_TASKRUN`: completions appear in the shared queue
//! without a system call, so a spinning shard sees them by reading memory.

use std::cell::Cell;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustls::ClientConfig;

use super::fault::Throttle;
use super::transport::Line;
use crate::io::sys::{EventFd, Registered, monotonic_nanos, random_u64};
use crate::io::{
    Clock, DiskOp, Done, File, Pinned, Reply, Request, Steward, Storage, Token, Transport,
};
use crate::router::gate::Gate;
use crate::steward::StewardHandle;

const ENTRIES: u32 = 64;
/// Completions that belong to the socket's poll carry this bit and the connection's number.
pub(super) const POLL_BIT: u64 = 1 << 63;
/// Set beside [`POLL_BIT`] for the one-shot poll that waits for room to send.
pub(super) const ROOM_BIT: u64 = 1 << 62;
/// Completions nobody waits for.
pub(super) const IGNORED: u64 = u64::MAX;
const EMPTY: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// An operation with the kernel, with everything it uses.
struct InFlight {
    token: Token,
    _file: File,
    _parts: [Option<Pinned>; 2],
}

/// Sees every piece of bytes that the shard receives: for measuring.
pub(crate) type Tap = Box<dyn FnMut(&[u8]) + Send>;

/// The real world of one shard.
pub(crate) struct UringIo {
    /// The ring's descriptor: children close it, or the lock registered in it would be theirs too.
    _registered: Registered,
    ring: IoUring,
    slots: Vec<Option<InFlight>>,
    /// Two per slot, for vectored writes; never moved.
    iovecs: Box<[[libc::iovec; 2]]>,
    free: Vec<usize>,
    done: std::collections::VecDeque<Done>,
    pub(super) line: Line,
    /// The settings of TLS connections, if the schema is `wss`.
    pub(super) tls: Option<Arc<ClientConfig>>,
    steward: StewardHandle,
    gate: Arc<Gate>,
    random: u64,
    /// The time as last asked for, at the begin of the turn.
    pub(super) clock: Cell<u64>,
    throttle: Throttle,
    pub(super) tap: Option<Tap>,
}

// SAFETY: the raw pointers in `iovecs` point into memory kept alive by `slots` and are used by
// the kernel only; the ring is used by whichever single thread owns this value.
unsafe impl Send for UringIo {}

impl UringIo {
    /// Sets up the ring; `lock` is registered in it, so that the slot's flock outlives a killed
    /// process until its last operation has landed.
    pub(crate) fn new(
        gate: Arc<Gate>,
        steward: StewardHandle,
        lock: Option<&File>,
        tap: Option<Tap>,
    ) -> io::Result<Self> {
        let ring = IoUring::builder()
            .dontfork()
            .setup_cqsize(ENTRIES * 4)
            .build(ENTRIES)?;
        if let Some(lock) = lock {
            ring.submitter().register_files(&[lock.raw()])?;
        }
        Ok(Self {
            _registered: Registered::new(ring.as_raw_fd()),
            ring,
            slots: (0..ENTRIES).map(|_| None).collect(),
            iovecs: vec![[EMPTY; 2]; ENTRIES as usize].into(),
            free: (0..ENTRIES as usize).rev().collect(),
            done: std::collections::VecDeque::with_capacity(ENTRIES as usize),
            line: Line::default(),
            tls: None,
            steward,
            gate,
            random: random_u64(),
            clock: Cell::new(0),
            throttle: Throttle::from_env(),
            tap,
        })
    }

    /// Connections may be made under TLS with these settings.
    pub(crate) fn with_tls(mut self, tls: Option<Arc<ClientConfig>>) -> Self {
        self.tls = tls;
        self
    }

    /// Completions ring `bell` from now on (the shard is about to sleep); so does room to send,
    /// which a shard that is awake finds out by trying.
    pub(crate) fn arm(&mut self, bell: &EventFd) -> io::Result<()> {
        if self.line.room_wanted {
            self.await_room();
            self.kick();
        }
        self.ring.submitter().register_eventfd(bell.as_raw_fd())
    }

    /// Between two turns of a shard that spins: a worker of the kernel that an operation waits for
    /// may wait for this very core.
    pub(crate) fn lend_core(&self) {
        if self.free.len() < self.slots.len() {
            std::thread::yield_now();
        }
    }

    /// Completions are silent again.
    pub(crate) fn disarm(&mut self) {
        let _ = self.ring.submitter().unregister_eventfd();
    }

    /// Whether a completion or an answer waits.
    pub(crate) fn has_input(&mut self) -> bool {
        !self.done.is_empty()
            || self.line.readable
            || !self.ring.completion().is_empty()
            || self.steward.has_reply()
    }

    pub(super) fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: whatever the entry points to is owned by `slots` (or by nothing, for polls)
        // until its completion was reaped.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    fn reap(&mut self) {
        loop {
            let entry = self.ring.completion().next();
            let Some(entry) = entry else { return };
            self.reaped(&entry);
        }
    }

    fn reaped(&mut self, entry: &cqueue::Entry) {
        let data = entry.user_data();
        if data == IGNORED {
            return;
        }
        if data & POLL_BIT != 0 {
            if data == POLL_BIT | ROOM_BIT | self.line.number {
                self.line.room_awaited = false;
            }
            // A connection that was dropped meanwhile has nothing to read: nobody would ever look,
            // and the shard would not sleep over it.
            if data == POLL_BIT | self.line.number && self.line.socket.is_some() {
                self.line.readable = true;
                if !cqueue::more(entry.flags()) {
                    self.poll_socket();
                }
            }
            return;
        }
        let index = usize::try_from(data).expect("slot indices fit");
        let slot = self.slots[index]
            .take()
            .expect("one completion per operation");
        self.free.push(index);
        let result = match entry.result() {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            got => Ok(got.cast_unsigned()),
        };
        self.done.push_back(Done {
            token: slot.token,
            result,
        });
    }

    /// Begins again for another shard: waits for everything in flight, and forgets what the last
    /// one would have been told.
    pub(crate) fn begin_again(&mut self) {
        self.drain();
        self.done.clear();
        self.steward.forget();
    }

    /// Waits for everything in flight; the memory it uses is free afterwards.
    pub(crate) fn drain(&mut self) {
        self.hang_up();
        while self.free.len() < self.slots.len() {
            if self.ring.submit_and_wait(1).is_err() {
                std::thread::yield_now();
            }
            self.reap();
        }
    }
}

impl Drop for UringIo {
    fn drop(&mut self) {
        self.drain();
    }
}

impl std::fmt::Debug for UringIo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "UringIo({} in flight)",
            self.slots.len() - self.free.len()
        )
    }
}

impl Storage for UringIo {
    fn submit(&mut self, token: Token, op: DiskOp) -> Result<(), DiskOp> {
        if self.throttle.holds() {
            return Err(op);
        }
        if self.ring.submission().is_full() {
            self.kick();
            if self.ring.submission().is_full() {
                return Err(op);
            }
        }
        let Some(index) = self.free.pop() else {
            return Err(op);
        };
        let iovec = |p: &Pinned| libc::iovec {
            iov_base: p.address().cast(),
            iov_len: p.bytes(),
        };
        let (file, parts, entry) = match op {
            DiskOp::Write {
                file,
                offset,
                bytes,
                tail: None,
            } => {
                let fd = types::Fd(file.raw());
                let length = u32::try_from(bytes.bytes()).expect("writes are below 4 GiB");
                let entry = opcode::Write::new(fd, bytes.address(), length)
                    .offset(offset)
                    .build();
                (file, [Some(bytes), None], entry)
            }
            DiskOp::Write {
                file,
                offset,
                bytes,
                tail: Some(tail),
            } => {
                self.iovecs[index] = [iovec(&bytes), iovec(&tail)];
                let (fd, iovecs) = (types::Fd(file.raw()), self.iovecs[index].as_ptr());
                let entry = opcode::Writev::new(fd, iovecs, 2).offset(offset).build();
                (file, [Some(bytes), Some(tail)], entry)
            }
            DiskOp::Sync { file } => {
                let fd = types::Fd(file.raw());
                let flags = types::FsyncFlags::DATASYNC;
                let entry = opcode::Fsync::new(fd).flags(flags).build();
                (file, [None, None], entry)
            }
            DiskOp::Read { file, offset, into } => {
                let fd = types::Fd(file.raw());
                let length = u32::try_from(into.bytes()).expect("reads are below 4 GiB");
                let entry = opcode::Read::new(fd, into.address(), length)
                    .offset(offset)
                    .build();
                // By a worker of the kernel: what lies in the page cache would be copied here and
                // now, a tenth of a millisecond or two for each MiB.
                let entry = entry.flags(squeue::Flags::ASYNC);
                (file, [Some(into), None], entry)
            }
        };
        let entry = entry.user_data(index as u64);
        self.slots[index] = Some(InFlight {
            token,
            _file: file,
            _parts: parts,
        });
        assert!(self.push(&entry), "the submission queue has room");
        Ok(())
    }

    fn kick(&mut self) {
        let queue = self.ring.submission();
        // Completions that found their queue full wait in the kernel, and come with a submission.
        if !queue.is_empty() || queue.cq_overflow() {
            drop(queue);
            // An error (EBUSY, EINTR) leaves entries queued: submitted with the next kick.
            let _ = self.ring.submit();
        }
    }

    fn complete(&mut self) -> Option<Done> {
        if self.done.is_empty() {
            self.reap();
        }
        self.done.pop_front()
    }
}

impl Steward for UringIo {
    fn request(&mut self, request: Request) -> Result<(), Request> {
        self.steward.request(request)
    }

    fn reply(&mut self) -> Option<Reply> {
        self.steward.reply()
    }
}

impl Clock for UringIo {
    fn now(&self) -> u64 {
        let now = monotonic_nanos();
        self.clock.set(now);
        now
    }

    /// `SplitMix64` seeded by the kernel: masks hide nothing from anybody here (protocol.md
    /// section 3.1), they only must differ from frame to frame.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl UringIo {
    /// The gate this world belongs to.
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }
}

#[cfg(test)]
mod tests;
