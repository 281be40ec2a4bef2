//! Plain TCP or TLS, read with a time limit. One thread reads and writes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConnection, StreamOwned};

use crate::sink::tls::TlsIdentity;

pub(super) enum Transport<'s> {
    Plain(&'s TcpStream),
    Tls {
        stream: &'s TcpStream,
        tls: Box<StreamOwned<ServerConnection, &'s TcpStream>>,
    },
}

impl<'s> Transport<'s> {
    pub(super) fn new(stream: &'s TcpStream, tls: Option<&TlsIdentity>) -> io::Result<Self> {
        let Some(identity) = tls else {
            return Ok(Self::Plain(stream));
        };
        let connection =
            ServerConnection::new(Arc::clone(&identity.config)).map_err(io::Error::other)?;
        let tls = Box::new(StreamOwned::new(connection, stream));
        Ok(Self::Tls { stream, tls })
    }

    pub(super) fn socket(&self) -> &'s TcpStream {
        match self {
            Self::Plain(stream) | Self::Tls { stream, .. } => stream,
        }
    }

    /// Reads what comes within `wait`: `None` when nothing does, 0 at the stream's end.
    pub(super) fn read_within(
        &mut self,
        into: &mut [u8],
        wait: Duration,
    ) -> io::Result<Option<usize>> {
        // Zero would mean without limit.
        let wait = wait.max(Duration::from_micros(50));
        self.socket().set_read_timeout(Some(wait))?;
        loop {
            let result = match self {
                Self::Plain(stream) => stream.read(into),
                Self::Tls { tls, .. } => tls.read(into),
            };
            return match result {
                Ok(count) => Ok(Some(count)),
                Err(e) => match e.kind() {
                    io::ErrorKind::Interrupted => continue,
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(None),
                    // A TLS peer that leaves without close_notify.
                    io::ErrorKind::UnexpectedEof => Ok(Some(0)),
                    _ => Err(e),
                },
            };
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.write_all(bytes),
            Self::Tls { tls, .. } => {
                tls.write_all(bytes)?;
                tls.flush()
            }
        }
    }

    /// Ends the stream in this direction.
    pub(super) fn half_close(&mut self) -> io::Result<()> {
        if let Self::Tls { tls, .. } = self {
            tls.conn.send_close_notify();
            tls.flush()?;
        }
        self.socket().shutdown(Shutdown::Write)
    }
}
