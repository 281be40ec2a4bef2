//! [`Transport`] of a shard: one non-blocking socket, plain or under TLS, with its polls on the
//! shard's ring.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{opcode, types};

use super::driver::{IGNORED, POLL_BIT, ROOM_BIT, UringIo};
use super::tls::Session;
use crate::io::sys::Socket;
use crate::io::{Dialed, Storage, Transport};

const POLLOUT: u32 = libc::POLLOUT as u32;
/// A poll that was missed is made good after this long (nanoseconds).
const RECV_ANYWAY: u64 = 1_000_000;

/// The shard's connection and what is known about it.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one socket"
)]
pub(super) struct Line {
    pub(super) socket: Option<Socket>,
    /// The encryption of this connection, if it has one.
    tls: Option<Box<Session>>,
    /// Tells the polls of this connection from those of earlier ones.
    pub(super) number: u64,
    /// TCP has connected.
    connected: bool,
    pub(super) readable: bool,
    /// The socket took less than it was given, or is connecting.
    pub(super) room_wanted: bool,
    /// A poll for room to send is armed.
    pub(super) room_awaited: bool,
    last_recv: u64,
}

impl Line {
    /// Whether a look at the socket is due: something arrived, or a while has passed.
    fn look(&mut self, now: u64) -> bool {
        if !self.readable {
            if now < self.last_recv + RECV_ANYWAY {
                return false;
            }
            self.last_recv = now;
        }
        true
    }

    /// Goes on sending what the encryption holds back. When all of it is out the shard gets
    /// another turn: bytes of its own may wait for the same room.
    fn flush_held(&mut self) -> io::Result<()> {
        if let (Some(socket), Some(tls)) = (&self.socket, &mut self.tls)
            && tls.holds()
        {
            tls.flush(socket)?;
            self.room_wanted = tls.holds();
            self.readable |= !self.room_wanted;
        }
        Ok(())
    }

    /// One step of the handshake.
    fn secure(&mut self, now: u64) -> Dialed {
        let readable = self.look(now);
        let (Some(socket), Some(tls)) = (&self.socket, &mut self.tls) else {
            return Dialed::Ready;
        };
        let outcome = tls.shake(socket, readable);
        self.room_wanted = tls.holds();
        match outcome {
            // The server's first words may have come with the last of the handshake.
            Ok(true) => {
                self.readable = true;
                Dialed::Ready
            }
            Ok(false) => {
                self.readable = false;
                Dialed::Securing
            }
            Err(error) => Dialed::Failed(error),
        }
    }
}

impl UringIo {
    /// Arms a poll that reports every arrival on the socket.
    pub(super) fn poll_socket(&mut self) {
        let Some(socket) = &self.line.socket else {
            return;
        };
        let events = (libc::POLLIN | libc::POLLRDHUP) as u32;
        let entry = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), events)
            .multi(true)
            .build()
            .user_data(POLL_BIT | self.line.number);
        // A full queue leaves the timed look at the socket.
        self.push(&entry);
    }

    /// Arms a poll that completes when the socket takes bytes (or has connected): it wakes a
    /// parked shard.
    pub(super) fn await_room(&mut self) {
        let Some(socket) = &self.line.socket else {
            return;
        };
        if self.line.room_awaited {
            return;
        }
        let entry = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), POLLOUT)
            .build()
            .user_data(POLL_BIT | ROOM_BIT | self.line.number);
        self.line.room_awaited = self.push(&entry);
    }
}

impl Transport for UringIo {
    fn dial(&mut self, address: SocketAddr, secure: Option<&str>) -> io::Result<()> {
        self.hang_up();
        self.line.number += 1;
        if let Some(host) = secure {
            let config = self.tls.as_ref().ok_or(io::ErrorKind::Unsupported)?;
            self.line.tls = Some(Box::new(Session::new(Arc::clone(config), host)?));
        }
        self.line.socket = Some(Socket::dial(address)?);
        self.line.room_wanted = true;
        Ok(())
    }

    fn dialed(&mut self) -> Dialed {
        if !self.line.connected {
            let outcome = self.line.socket.as_ref().and_then(Socket::connected);
            match outcome {
                None => return Dialed::Connecting,
                Some(Err(error)) => return Dialed::Failed(error),
                Some(Ok(())) => {
                    self.line.connected = true;
                    self.line.readable = true;
                    self.poll_socket();
                }
            }
        }
        self.line.secure(self.clock.get())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = &mut self.line;
        let socket = line.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        if let Some(tls) = &mut line.tls {
            let sent = tls.send(socket, bytes);
            line.room_wanted = tls.holds();
            return sent;
        }
        let sent = socket.send(bytes);
        line.room_wanted = match &sent {
            Ok(sent) => *sent < bytes.len(),
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        sent
    }

    fn recv(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let line = &mut self.line;
        line.flush_held()?;
        if !line.look(self.clock.get()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // Cleared first: what arrives after the call raises it again.
        line.readable = false;
        let wanted = bytes.len();
        let socket = line.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let got = match &mut line.tls {
            None => {
                let got = socket.recv(bytes);
                line.readable = matches!(got, Ok(n) if n == wanted);
                got
            }
            Some(tls) => {
                let got = tls.recv(socket, bytes);
                line.readable = matches!(got, Ok(received) if received.more);
                line.room_wanted |= tls.holds();
                got.map(|received| received.bytes)
            }
        };
        if let (Some(tap), Ok(got)) = (&mut self.tap, &got) {
            tap(&bytes[..*got]);
        }
        got
    }

    fn hang_up(&mut self) {
        let tls = self.line.tls.take();
        if let Some(socket) = self.line.socket.take() {
            if let Some(mut tls) = tls {
                tls.hang_up(&socket);
            }
            let remove = opcode::PollRemove::new(POLL_BIT | self.line.number).build();
            self.push(&remove.user_data(IGNORED));
            socket.shut_down();
            self.kick();
        }
        self.line = Line {
            number: self.line.number,
            last_recv: self.line.last_recv,
            ..Line::default()
        };
    }
}
