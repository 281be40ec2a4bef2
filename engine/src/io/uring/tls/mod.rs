//! TLS over a shard's socket: rustls between the transport's calls and the bytes on the wire.
//!
//! Runs on the shard's thread and never waits. What rustls holds back is bounded
//! ([`HELD_BYTES_MAX`]), and [`Session::holds`] tells the host that a shard about to sleep still
//! has bytes for the socket. Authorities are read before the shard starts ([`client`]).

mod fault;
mod trust;

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

pub(crate) use trust::client;

use crate::io::sys::Socket;

/// Encrypted bytes that may wait for the socket.
const HELD_BYTES_MAX: usize = 256 << 10;

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Received {
    /// Bytes in the caller's buffer; 0 is the end of the stream.
    pub(super) bytes: usize,
    /// The socket was not read to its end, or its end or an error is still to be told.
    pub(super) more: bool,
}

/// One connection's encryption.
#[derive(Debug)]
pub(super) struct Session {
    tls: ClientConnection,
    /// An error that came behind bytes that were still good.
    failure: Option<io::Error>,
}

impl Session {
    /// A session with the server `host`, a name or an address literal. Nothing is sent yet.
    pub(super) fn new(config: Arc<ClientConfig>, host: &str) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::new(ErrorKind::InvalidInput, "not a name for TLS"))?;
        let mut tls = ClientConnection::new(config, name).map_err(|e| fault::explained(&e))?;
        tls.set_buffer_limit(Some(HELD_BYTES_MAX));
        Ok(Self { tls, failure: None })
    }

    /// Goes on with the handshake as far as the socket allows; `true` when it is complete.
    /// Without `readable` nothing is read.
    pub(super) fn shake(&mut self, socket: &Socket, readable: bool) -> io::Result<bool> {
        self.flush(socket)?;
        while readable && self.tls.is_handshaking() {
            match self.tls.read_tls(&mut Wire(socket)) {
                Ok(0) => {
                    let reason = "the server closed the connection during the TLS handshake";
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, reason));
                }
                Ok(_) => self.decrypt(socket)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            self.flush(socket)?;
        }
        Ok(!self.tls.is_handshaking())
    }

    /// Encrypts and sends a prefix of `bytes`; `WouldBlock` when the socket takes nothing.
    pub(super) fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        let mut taken = 0;
        while taken < bytes.len() && !self.holds() {
            let accepted = self.tls.writer().write(&bytes[taken..])?;
            if accepted == 0 {
                // Nothing is held back and nothing is taken: this side has ended the session.
                return Err(ErrorKind::BrokenPipe.into());
            }
            taken += accepted;
            self.flush(socket)?;
        }
        if taken == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }

    /// Receives and decrypts into `bytes`, which is not empty. A stream that ends without a
    /// `close_notify` ends all the same: messages have lengths of their own.
    pub(super) fn recv(&mut self, socket: &Socket, bytes: &mut [u8]) -> io::Result<Received> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let mut used = 0;
        let error = loop {
            match self.tls.reader().read(&mut bytes[used..]) {
                Ok(0) => break None,
                Ok(got) => {
                    used += got;
                    if used == bytes.len() {
                        break None;
                    }
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break None,
                Err(error) => break Some(error),
            }
            match self.tls.read_tls(&mut Wire(socket)) {
                Ok(0) => break None,
                Ok(_) => {
                    if let Err(error) = self.decrypt(socket) {
                        break Some(error);
                    }
                }
                Err(error) => break Some(error),
            }
        };
        let waits = matches!(&error, Some(error) if error.kind() == ErrorKind::WouldBlock);
        match error {
            Some(error) if used == 0 => Err(error),
            error => {
                self.failure = error.filter(|_| !waits);
                let more = !waits;
                Ok(Received { bytes: used, more })
            }
        }
    }

    /// Takes in what was read; a fatal error is told to the server as far as it can be.
    fn decrypt(&mut self, socket: &Socket) -> io::Result<()> {
        let outcome = self.tls.process_new_packets();
        outcome.map(drop).map_err(|error| {
            let _ = self.flush(socket);
            fault::explained(&error)
        })
    }

    /// Sends what is held back, as far as the socket takes it.
    pub(super) fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Wire(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether encrypted bytes wait for the socket.
    pub(super) fn holds(&self) -> bool {
        self.tls.wants_write()
    }

    /// Says goodbye, as far as the socket takes it at once.
    pub(super) fn hang_up(&mut self, socket: &Socket) {
        self.tls.send_close_notify();
        // A courtesy: the connection is dropped whether or not it arrives.
        let _ = self.flush(socket);
    }
}

/// The socket as rustls wants it.
struct Wire<'a>(&'a Socket);

impl Read for Wire<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.recv(bytes)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
