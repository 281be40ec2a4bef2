//! A world without a network, whose disk is written by plain calls that wait: for moving an intake
//! into segments where no engine runs (`forebay settle`).

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use super::sys::{RealFs, monotonic_nanos, random_u64, read_pinned, write_pinned};
use super::{Clock, Dialed, DiskOp, Done, Fs, Reply, Request, Steward, Storage, Token, Transport};
use crate::io::Found;
use crate::steward::perform;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct OfflineIo {
    done: VecDeque<Done>,
    replies: VecDeque<Reply>,
}

fn offline() -> io::Error {
    io::Error::new(
        io::ErrorKind::NetworkUnreachable,
        "settling is done offline",
    )
}

impl Storage for OfflineIo {
    fn submit(&mut self, token: Token, op: DiskOp) -> Result<(), DiskOp> {
        let result = match op {
            DiskOp::Write {
                file,
                offset,
                bytes,
                tail,
            } => {
                let first = write_pinned(&file, &bytes, offset);
                match tail {
                    None => first,
                    Some(tail) => first.and_then(|len| {
                        let behind = offset + bytes.bytes() as u64;
                        write_pinned(&file, &tail, behind).map(|more| len + more)
                    }),
                }
            }
            DiskOp::Sync { file } => RealFs.sync(&file).map(|()| 0),
            DiskOp::Read { file, offset, into } => read_pinned(&file, &into, offset),
        };
        self.done.push_back(Done { token, result });
        Ok(())
    }

    fn kick(&mut self) {}

    fn complete(&mut self) -> Option<Done> {
        self.done.pop_front()
    }
}

impl Steward for OfflineIo {
    fn request(&mut self, request: Request) -> Result<(), Request> {
        self.replies.push_back(match request {
            Request::Resolve(asked) => Reply::Resolved(Found {
                asked,
                addresses: Err(offline()),
                secret: None,
            }),
            request => perform(&RealFs, request, false, &mut || Ok(())),
        });
        Ok(())
    }

    fn reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }
}

impl Transport for OfflineIo {
    fn dial(&mut self, _address: SocketAddr, _secure: Option<&str>) -> io::Result<()> {
        Err(offline())
    }

    fn dialed(&mut self) -> Dialed {
        Dialed::Failed(offline())
    }

    fn send(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(offline())
    }

    fn recv(&mut self, _bytes: &mut [u8]) -> io::Result<usize> {
        Err(offline())
    }

    fn hang_up(&mut self) {}
}

impl Clock for OfflineIo {
    fn now(&self) -> u64 {
        monotonic_nanos()
    }

    fn random(&mut self) -> u64 {
        random_u64()
    }
}
