//! [`Storage`](crate::io::Storage), [`Transport`](crate::io::Transport) and
//! [`Clock`](crate::io::Clock) of a shard, on one ring.
//!
//! The ring has neither `DEFER_TASKRUN` nor `COOP_TASKRUN`: completions appear in the shared queue
//! without a system call, so a spinning shard sees them by reading memory.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::io::sys::{EventFd, Socket, monotonic_nanos, random_u64};
use crate::io::{
    Clock, DiskOp, Done, File, Pinned, Reply, Request, Steward, Storage, Token, Transport,
};
use crate::router::gate::Gate;
use crate::steward::StewardHandle;

const ENTRIES: u32 = 64;
/// Completions that belong to the socket's poll carry this bit and the connection's number.
const POLL_BIT: u64 = 1 << 63;
/// Set beside [`POLL_BIT`] for the one-shot poll that waits for room to send.
const ROOM_BIT: u64 = 1 << 62;
/// Completions nobody waits for.
const IGNORED: u64 = u64::MAX;
const POLLOUT: u32 = libc::POLLOUT as u32;
const EMPTY: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};
/// A poll that was missed is made good after this long (nanoseconds).
const RECV_ANYWAY: u64 = 1_000_000;

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
    ring: IoUring,
    slots: Vec<Option<InFlight>>,
    /// Two per slot, for vectored writes; never moved.
    iovecs: Box<[[libc::iovec; 2]]>,
    free: Vec<usize>,
    done: std::collections::VecDeque<Done>,
    socket: Option<Socket>,
    connection: u64,
    readable: bool,
    /// The socket took less than it was given, or is connecting.
    room_wanted: bool,
    /// A poll for room to send is armed.
    room_awaited: bool,
    last_recv: u64,
    steward: StewardHandle,
    gate: Arc<Gate>,
    random: u64,
    tap: Option<Tap>,
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
            ring,
            slots: (0..ENTRIES).map(|_| None).collect(),
            iovecs: vec![[EMPTY; 2]; ENTRIES as usize].into(),
            free: (0..ENTRIES as usize).rev().collect(),
            done: std::collections::VecDeque::with_capacity(ENTRIES as usize),
            socket: None,
            connection: 0,
            readable: false,
            room_wanted: false,
            room_awaited: false,
            last_recv: 0,
            steward,
            gate,
            random: random_u64(),
            tap,
        })
    }

    /// Completions ring `bell` from now on (the shard is about to sleep); so does room to send,
    /// which a shard that is awake finds out by trying.
    pub(crate) fn arm(&mut self, bell: &EventFd) -> io::Result<()> {
        if self.room_wanted {
            self.await_room();
            self.kick();
        }
        self.ring.submitter().register_eventfd(bell.as_raw_fd())
    }

    /// Completions are silent again.
    pub(crate) fn disarm(&mut self) {
        let _ = self.ring.submitter().unregister_eventfd();
    }

    /// Whether a completion or an answer waits.
    pub(crate) fn has_input(&mut self) -> bool {
        !self.done.is_empty()
            || self.readable
            || !self.ring.completion().is_empty()
            || self.steward.has_reply()
    }

    fn push(&mut self, entry: &squeue::Entry) -> bool {
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
            if data == POLL_BIT | ROOM_BIT | self.connection {
                self.room_awaited = false;
            }
            if data == POLL_BIT | self.connection {
                self.readable = true;
                if !cqueue::more(entry.flags()) && self.socket.is_some() {
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

    /// Arms a poll that reports every arrival on the socket.
    fn poll_socket(&mut self) {
        let Some(socket) = &self.socket else { return };
        let events = (libc::POLLIN | libc::POLLRDHUP) as u32;
        let entry = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), events)
            .multi(true)
            .build()
            .user_data(POLL_BIT | self.connection);
        // A full queue leaves the timed look at the socket.
        self.push(&entry);
    }

    /// Arms a poll that completes when the socket takes bytes (or has connected): it wakes a
    /// parked shard.
    fn await_room(&mut self) {
        let Some(socket) = &self.socket else { return };
        if self.room_awaited {
            return;
        }
        let entry = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), POLLOUT)
            .build()
            .user_data(POLL_BIT | ROOM_BIT | self.connection);
        self.room_awaited = self.push(&entry);
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
        if !self.ring.submission().is_empty() {
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

impl Transport for UringIo {
    fn dial(&mut self, address: SocketAddr) -> io::Result<()> {
        self.hang_up();
        self.connection += 1;
        self.socket = Some(Socket::dial(address)?);
        self.room_wanted = true;
        Ok(())
    }

    fn dialed(&mut self) -> Option<io::Result<()>> {
        let outcome = self.socket.as_ref()?.connected()?;
        if outcome.is_ok() {
            self.readable = true;
            self.poll_socket();
        }
        Some(outcome)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let sent = socket.send(bytes);
        self.room_wanted = match &sent {
            Ok(sent) => *sent < bytes.len(),
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        sent
    }

    fn recv(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if !self.readable {
            let now = monotonic_nanos();
            if now < self.last_recv + RECV_ANYWAY {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.last_recv = now;
        }
        // Cleared first: what arrives after the call raises it again.
        self.readable = false;
        let wanted = bytes.len();
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let got = socket.recv(bytes);
        self.readable = matches!(got, Ok(n) if n == wanted);
        if let (Some(tap), Ok(got)) = (&mut self.tap, &got) {
            tap(&bytes[..*got]);
        }
        got
    }

    fn hang_up(&mut self) {
        if let Some(socket) = self.socket.take() {
            let remove = opcode::PollRemove::new(POLL_BIT | self.connection).build();
            self.push(&remove.user_data(IGNORED));
            socket.shut_down();
            self.kick();
        }
        self.readable = false;
        self.room_wanted = false;
        self.room_awaited = false;
    }
}

impl Clock for UringIo {
    fn now(&self) -> u64 {
        monotonic_nanos()
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
