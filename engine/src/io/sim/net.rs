//! The simulated network: one connection at a time, bytes in pieces that arrive late, dials that
//! fail or hang, resets, and a server that goes away and comes back.

use std::io;

use forebay_wire::server::Ending;

use super::clock::SimClock;
use super::connection::{Connection, Dial, Pipe};
use super::random::Rng;
use super::server::{Peer, ServerManners, SharedLedger};

/// Bytes on their way to the server at most: what a socket buffer takes.
const UP_BYTES_MAX: usize = 192 << 10;

/// How the network behaves. Durations in nanoseconds, chances of 100.
#[derive(Debug, Clone)]
pub(crate) struct NetManners {
    /// Longest usual delay of a piece.
    pub(crate) delay_nanos: u64,
    /// Dials that hang for ever.
    pub(crate) hang_percent: u64,
    /// Connections that break by themselves.
    pub(crate) break_percent: u64,
    /// Of those, the ones that vanish without a word: bytes are taken, nothing ever comes.
    pub(crate) vanish_percent: u64,
    /// They break within this time.
    pub(crate) break_nanos: u64,
    /// Longest time up and longest time down; `None` stays up.
    pub(crate) outages: Option<(u64, u64)>,
    /// The server behind it.
    pub(crate) server: ServerManners,
}

/// The network, and the server at its other end.
#[derive(Debug)]
pub(crate) struct Net {
    clock: SimClock,
    rng: Rng,
    manners: NetManners,
    ledger: SharedLedger,
    connection: Option<Connection>,
    server_up: bool,
    turns_at: u64,
    /// Connections that spoke with the server.
    pub(crate) dials: u64,
    /// Connections that vanished.
    pub(crate) vanished: u64,
}

impl Net {
    pub(crate) fn new(
        clock: SimClock,
        rng: Rng,
        manners: NetManners,
        ledger: SharedLedger,
    ) -> Self {
        let mut net = Self {
            clock,
            rng,
            manners,
            ledger,
            connection: None,
            server_up: true,
            turns_at: u64::MAX,
            dials: 0,
            vanished: 0,
        };
        net.plan_turn();
        net
    }

    /// Other manners from now on; with an end of outages the server is back.
    pub(crate) fn behave(&mut self, manners: NetManners) {
        self.manners = manners;
        self.server_up = true;
        self.plan_turn();
    }

    /// Chance starts anew.
    pub(super) fn reseed(&mut self, rng: Rng) {
        self.rng = rng;
    }

    /// The server goes, for good or until [`behave`](Self::behave).
    pub(crate) fn take_server_down(&mut self) {
        self.server_up = false;
        self.turns_at = u64::MAX;
        self.lose_connection();
    }

    fn plan_turn(&mut self) {
        self.turns_at = match self.manners.outages {
            None => u64::MAX,
            Some((up, down)) => {
                let longest = if self.server_up { up } else { down };
                self.clock.now() + self.rng.between(1, longest)
            }
        };
    }

    /// When something happens that the client can see.
    pub(crate) fn next_visible(&self) -> u64 {
        let connects = |connection: &&Connection| connection.dial == Dial::Connects;
        let Some(connection) = self.connection.as_ref().filter(connects) else {
            return u64::MAX;
        };
        let end = connection.ended.map_or(u64::MAX, |(at, _)| at);
        connection.down.next_at().min(end).max(connection.dialed_at)
    }

    /// When something happens at the server.
    pub(crate) fn next_hidden(&self) -> u64 {
        let Some(connection) = &self.connection else {
            return self.turns_at;
        };
        let times = [
            connection.up.next_at(),
            connection.peer.next_at(),
            connection.breaks_at,
        ];
        times.into_iter().fold(self.turns_at, u64::min)
    }

    /// Lets happen at the server what is due.
    pub(crate) fn pump(&mut self) {
        let now = self.clock.now();
        while self.next_hidden() <= now {
            if self.turns_at <= now {
                self.server_up = !self.server_up;
                if !self.server_up {
                    self.lose_connection();
                    if self.ledger.borrow().is_durable && self.rng.percent(30) {
                        self.ledger.borrow_mut().durable_until(now);
                        self.ledger.borrow_mut().server_lost();
                    }
                }
                self.plan_turn();
                continue;
            }
            let Some(connection) = &mut self.connection else {
                return;
            };
            if connection.breaks_at <= now {
                if self.rng.percent(self.manners.vanish_percent) {
                    connection.vanish();
                    self.vanished += 1;
                } else {
                    self.lose_connection();
                }
                continue;
            }
            let mut out = Vec::new();
            let mut ending = None;
            if connection.up.next_at() <= now {
                let piece = connection.up.pop().expect("a piece is due");
                ending = connection.peer.arrive(&piece, now, &mut out);
            } else {
                connection.peer.acknowledge(&mut out);
            }
            self.answer(&out, ending);
        }
    }

    /// Sends the server's bytes on their way, in pieces, and ends the connection if it says so.
    fn answer(&mut self, mut out: &[u8], ending: Option<Ending>) {
        let now = self.clock.now();
        let Some(connection) = &mut self.connection else {
            return;
        };
        while !out.is_empty() {
            let len = if self.rng.percent(70) {
                out.len()
            } else {
                1 + self.rng.index(out.len())
            };
            connection.down.push(
                &out[..len],
                now + self.rng.between(1, self.manners.delay_nanos),
            );
            out = &out[len..];
        }
        if let Some(ending) = ending {
            connection.end(now, ending == Ending::Drop);
        }
    }

    /// The connection breaks: of what was on its way to the server, a part still arrives.
    fn lose_connection(&mut self) {
        let now = self.clock.now();
        let reset = self.rng.percent(50);
        if let Some(connection) = &mut self.connection {
            connection.deliver_some(&mut self.rng, now);
            connection.end(now, reset);
        }
    }

    /// The client's end is gone, closed or killed.
    pub(crate) fn hang_up(&mut self) {
        self.pump();
        if let Some(mut connection) = self.connection.take() {
            connection.deliver_some(&mut self.rng, self.clock.now());
        }
    }

    pub(super) fn dial(&mut self) {
        self.hang_up();
        let now = self.clock.now();
        let dial = if self.rng.percent(self.manners.hang_percent) {
            Dial::Hangs
        } else if self.server_up {
            Dial::Connects
        } else {
            Dial::Refused
        };
        let breaks = self.rng.percent(self.manners.break_percent);
        let breaks_at = if breaks {
            now + self.rng.below(self.manners.break_nanos)
        } else {
            u64::MAX
        };
        let peer = Peer::new(&self.ledger, self.manners.server.clone(), self.rng.fork());
        self.dials += u64::from(dial == Dial::Connects);
        self.connection = Some(Connection {
            dial,
            dialed_at: now + self.rng.between(1, self.manners.delay_nanos),
            up: Pipe::default(),
            down: Pipe::default(),
            peer,
            breaks_at,
            ended: None,
            vanished: false,
        });
    }

    pub(super) fn dialed(&mut self) -> Option<io::Result<()>> {
        self.pump();
        let connection = self.connection.as_ref()?;
        if connection.dialed_at > self.clock.now() {
            return None;
        }
        match connection.dial {
            Dial::Hangs => None,
            Dial::Refused => Some(Err(io::ErrorKind::ConnectionRefused.into())),
            Dial::Connects => Some(Ok(())),
        }
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pump();
        let now = self.clock.now();
        let connection = self
            .connection
            .as_mut()
            .ok_or(io::ErrorKind::NotConnected)?;
        if connection.ended.is_some_and(|(at, _)| at <= now) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = UP_BYTES_MAX
            .saturating_sub(connection.up.bytes)
            .min(bytes.len());
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = if self.rng.percent(60) {
            room
        } else {
            1 + self.rng.index(room)
        };
        let due = now + self.rng.between(1, self.manners.delay_nanos);
        if connection.vanished {
            connection.up.bytes += len; // a socket's buffer that nobody empties
        } else if connection.ended.is_none() {
            connection.up.push(&bytes[..len], due);
        }
        Ok(len)
    }

    pub(super) fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.pump();
        let now = self.clock.now();
        let connection = self
            .connection
            .as_mut()
            .ok_or(io::ErrorKind::NotConnected)?;
        if connection.down.next_at() <= now {
            let piece = connection.down.pop().expect("a piece is due");
            let len = piece.len().min(into.len());
            into[..len].copy_from_slice(&piece[..len]);
            if len < piece.len() {
                connection.down.bytes += piece.len() - len;
                connection
                    .down
                    .pieces
                    .push_front((now, piece[len..].to_vec()));
            }
            return Ok(len);
        }
        match connection.ended {
            Some((at, reset)) if at <= now && connection.down.pieces.is_empty() => {
                if reset {
                    Err(io::ErrorKind::ConnectionReset.into())
                } else {
                    Ok(0)
                }
            }
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}
