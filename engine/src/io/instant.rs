//! A world in which everything succeeds at once: for microbenchmarks and instruction counts.
//!
//! The disk completes every operation in the next turn and keeps nothing (files are created and
//! removed for real, by the shard's own thread); the server accepts the
//! upgrade and answers every write to the socket with one OK. What remains is the cost of the
//! shard itself.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use forebay_wire::response::write_ok;
use forebay_wire::upgrade::{Answer, UpgradePolicy, answer};
use forebay_wire::ws::{ClientFrame, Opcode, append_server_frame, mask};

use super::sys::{EventFd, RealFs};
use super::{Clock, Dialed, DiskOp, Done, Reply, Request, Steward, Storage, Token, Transport};
use crate::config::Config;
use crate::engine::{new_producer, open_slot};
use crate::error::Error;
use crate::observe::Stats;
use crate::producer::Producer;
use crate::router::gate::Gate;
use crate::shard::Shard;
use crate::steward::perform;

/// A shard in the instant world, turned by the caller.
#[derive(Debug)]
pub struct InstantLoop {
    io: InstantIo,
    gate: Arc<Gate>,
    config: Config,
    shard: Shard,
}

impl InstantLoop {
    /// Opens what the connect string says; the server's address is never used.
    pub fn open(connect_string: &str) -> Result<Self, Error> {
        let config = Config::parse(connect_string)?;
        let bell = EventFd::new().map_err(|error| Error::Internal(error.to_string()))?;
        let gate = Arc::new(Gate::new(bell));
        let handover = open_slot(&RealFs, &config)?;
        let shard = Shard::new(&config, Arc::clone(&gate), handover)?;
        Ok(Self {
            io: InstantIo::default(),
            gate,
            config,
            shard,
        })
    }

    /// A producer of this shard.
    pub fn producer(&self) -> Result<Producer, Error> {
        new_producer(&self.config, &[(&self.gate, None)])
    }

    /// One turn.
    pub fn turn(&mut self) {
        self.io.now += 1000;
        self.shard.turn(&mut self.io);
    }

    /// Whether messages that the shard sends from now on are kept for
    /// [`take_messages`](Self::take_messages). Off at first, so that benches do not pay for it.
    pub fn record_messages(&mut self, on: bool) {
        self.io.recorded = on.then(Vec::new);
    }

    /// The messages recorded since the last call: unmasked payloads in the order of sending.
    pub fn take_messages(&mut self) -> Vec<Vec<u8>> {
        self.io
            .recorded
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        self.gate.counters.stats()
    }
}

/// See the module documentation.
#[derive(Debug, Default)]
struct InstantIo {
    done: VecDeque<Done>,
    replies: VecDeque<Reply>,
    upgraded: bool,
    dialed: bool,
    messages: u64,
    /// Payloads of binary frames, while they are asked for.
    recorded: Option<Vec<Vec<u8>>>,
    answers: Vec<u8>,
    payload: Vec<u8>,
    now: u64,
    random: u64,
}

impl Storage for InstantIo {
    fn submit(&mut self, token: Token, op: DiskOp) -> Result<(), DiskOp> {
        let bytes = match op {
            DiskOp::Write { bytes, tail, .. } => bytes.bytes() + tail.map_or(0, |t| t.bytes()),
            DiskOp::Sync { .. } => 0,
            DiskOp::Read { into, .. } => into.bytes(),
        };
        let bytes = u32::try_from(bytes).expect("operations are below 4 GiB");
        self.done.push_back(Done {
            token,
            result: Ok(bytes),
        });
        Ok(())
    }

    fn kick(&mut self) {}

    fn complete(&mut self) -> Option<Done> {
        self.done.pop_front()
    }
}

impl Steward for InstantIo {
    fn request(&mut self, request: Request) -> Result<(), Request> {
        self.replies
            .push_back(perform(&RealFs, request, false, &mut || Ok(())));
        Ok(())
    }

    fn reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }
}

impl Transport for InstantIo {
    fn dial(&mut self, _address: SocketAddr, _secure: Option<&str>) -> io::Result<()> {
        self.dialed = true;
        Ok(())
    }

    fn dialed(&mut self) -> Dialed {
        if self.dialed {
            Dialed::Ready
        } else {
            Dialed::Connecting
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.upgraded {
            if let Some(Answer::Accept(accepted)) = answer(bytes, &UpgradePolicy::default()) {
                self.answers.extend_from_slice(&accepted.response);
                self.upgraded = true;
            }
            return Ok(bytes.len());
        }
        let mut rest = bytes;
        while let Ok(Some(frame)) = ClientFrame::parse(rest) {
            let payload = usize::try_from(frame.payload_bytes).unwrap_or(usize::MAX);
            let frame_bytes = frame.header_bytes.saturating_add(payload).min(rest.len());
            let (whole, behind) = rest.split_at(frame_bytes);
            rest = behind;
            if frame.opcode == Opcode::Binary {
                self.messages += 1;
                if let Some(recorded) = &mut self.recorded {
                    let mut message = whole[frame.header_bytes..].to_vec();
                    mask::apply(&mut message, frame.mask_key, 0);
                    recorded.push(message);
                }
            }
        }
        if self.messages > 0 {
            self.payload.clear();
            let seq = i64::try_from(self.messages - 1).unwrap_or(i64::MAX);
            write_ok(&mut self.payload, seq, std::iter::empty::<(&str, i64)>());
            append_server_frame(&mut self.answers, Opcode::Binary, &self.payload);
        }
        Ok(bytes.len())
    }

    fn recv(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.answers.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let got = self.answers.len().min(bytes.len());
        bytes[..got].copy_from_slice(&self.answers[..got]);
        self.answers.drain(..got);
        Ok(got)
    }

    fn hang_up(&mut self) {
        (self.dialed, self.upgraded, self.messages) = (false, false, 0);
    }
}

impl Clock for InstantIo {
    fn now(&self) -> u64 {
        self.now
    }

    fn random(&mut self) -> u64 {
        self.now += 1000;
        self.random = self
            .random
            .wrapping_mul(0x5851_F42D_4C95_7F2D)
            .wrapping_add(1);
        self.random
    }
}
