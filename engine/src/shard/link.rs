//! The connection to the server: dial, upgrade, catch-up, replay, send, acknowledgements, and what
//! follows when it breaks. Reconnects for ever; only a terminal answer stops it.

mod dial;
mod open;
mod receive;
mod send;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use forebay_wire::upgrade::{Expected, UpgradeError};
use forebay_wire::ws::Reader;

use self::dial::authorization;
use self::send::Outgoing;
use super::journal::{Journal, Position};
use super::replay::Replay;
use crate::config::Config;
use crate::delivery::{Backoff, Endpoints, Poison};
use crate::error::Error;
use crate::io::Io;
use crate::router::gate::{Gate, Terminal};

/// Largest message of a server that is accepted: acknowledgements of 10,000 tables fit.
const RESPONSE_BYTES_MAX: usize = 4 << 20;
/// How long a server may leave sent frames without any sign of life (protocol.md section 13.7).
const SILENCE_LIMIT: u64 = 30_000_000_000;

/// Where the connection stands.
#[derive(Debug)]
enum State {
    /// Down until then.
    Waiting { until: u64 },
    /// The resolver was asked.
    Resolving { deadline: u64 },
    /// TCP connect under way.
    Dialing { deadline: u64 },
    /// The upgrade request is on its way.
    Upgrading { deadline: u64, expected: Expected },
    /// Frames flow.
    Open,
    /// A terminal error was latched, or the engine closes.
    Stopped,
}

/// The sender of one slot.
#[derive(Debug)]
pub(crate) struct Link {
    state: State,
    gate: Arc<Gate>,
    tls: bool,
    authorization: Option<String>,
    connect_limit: u64,
    upgrade_limit: u64,
    endpoints: Endpoints,
    addresses: VecDeque<SocketAddr>,
    backoff: Backoff,
    poison: Poison,
    out: Outgoing,
    replay: Replay,
    /// Acknowledgements advanced on this connection.
    progressed: bool,
    ever_connected: bool,
    /// While frames are with the server: when it was last heard, or they were first sent.
    silent_since: Option<u64>,
    reader: Reader,
    inbox: Vec<u8>,
    inbox_used: usize,
}

impl Link {
    /// A link that starts connecting in the first turn.
    pub(crate) fn new(config: &Config, gate: Arc<Gate>, journal: &Journal) -> Result<Self, Error> {
        let nanos = |d: std::time::Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let replay = Replay::new().map_err(|source| Error::Unsupported {
            what: "mapping replay buffers".to_owned(),
            reason: source.to_string(),
            remedy: "Raise the process's address-space limit",
        })?;
        Ok(Self {
            state: State::Waiting { until: 0 },
            tls: config.tls,
            authorization: authorization(&config.auth),
            connect_limit: nanos(config.connect_timeout),
            upgrade_limit: nanos(config.auth_timeout),
            endpoints: Endpoints::new(config.endpoints.clone()),
            addresses: VecDeque::new(),
            backoff: Backoff::new(config.backoff_initial, config.backoff_max),
            poison: Poison::new(config.max_frame_rejections, nanos(config.poison_window)),
            out: Outgoing::new(journal, Arc::clone(&gate)),
            replay,
            progressed: false,
            ever_connected: false,
            silent_since: None,
            reader: Reader::new(RESPONSE_BYTES_MAX),
            inbox: vec![0; 64 << 10],
            inbox_used: 0,
            gate,
        })
    }

    /// Where the sender stands in the chain.
    pub(crate) fn position(&self) -> Position {
        self.out.position
    }

    /// Whether bytes wait for the socket, or frames for the sender, on an open connection.
    pub(crate) fn is_busy(&self, journal: &Journal) -> bool {
        matches!(self.state, State::Open)
            && (self.out.pending() || self.out.window.sent() < journal.published())
    }

    /// Whether frames are with the server: the socket deserves attention.
    pub(crate) fn awaits(&self, journal: &Journal) -> bool {
        match self.state {
            State::Open => journal.acked() < journal.published(),
            State::Dialing { .. } | State::Upgrading { .. } => true,
            _ => false,
        }
    }

    /// Whether a read for replay is in flight.
    pub(crate) fn in_flight(&self) -> bool {
        self.replay.in_flight()
    }

    /// When the link wants a turn at the latest.
    pub(crate) fn deadline(&self) -> u64 {
        match &self.state {
            State::Waiting { until } => *until,
            State::Resolving { deadline }
            | State::Dialing { deadline }
            | State::Upgrading { deadline, .. } => *deadline,
            State::Open => self
                .silent_since
                .map_or(u64::MAX, |since| since + SILENCE_LIMIT),
            State::Stopped => u64::MAX,
        }
    }

    /// Whether nothing will be sent any more.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, State::Stopped)
    }

    /// One round: whatever the socket, the clock and the journal allow now. `true` if anything
    /// happened.
    pub(crate) fn turn(&mut self, io: &mut impl Io, journal: &mut Journal, now: u64) -> bool {
        match &self.state {
            State::Waiting { until } if now < *until => false,
            State::Waiting { .. } => {
                self.attempt(io, now);
                true
            }
            State::Resolving { deadline } if now >= *deadline => {
                self.failed(io, "name resolution timed out", now);
                true
            }
            State::Resolving { .. } | State::Stopped => false,
            State::Dialing { .. } => self.dialing(io, now),
            State::Upgrading { .. } => self.upgrading(io, journal, now),
            State::Open => {
                let received = self.receive(io, journal, now);
                if self.is_silent(received, journal, now) {
                    self.failed(
                        io,
                        "no sign of life for 30 s with frames unacknowledged",
                        now,
                    );
                    return true;
                }
                matches!(self.state, State::Open) && self.send(io, journal, now) || received
            }
        }
    }

    /// Whether the server has left sent frames without any sign of life for too long.
    fn is_silent(&mut self, received: bool, journal: &Journal, now: u64) -> bool {
        if self.out.window.sent() <= journal.acked() {
            self.silent_since = None;
        } else if received || self.silent_since.is_none() {
            self.silent_since = Some(now);
        }
        self.silent_since
            .is_some_and(|since| now >= since + SILENCE_LIMIT)
    }

    /// A read for replay ended.
    pub(crate) fn read_completed(&mut self, done: crate::io::Done, journal: &Journal) {
        self.replay.completed(done, journal);
    }

    /// A segment was opened for replay.
    pub(crate) fn file_opened(&mut self, key: u64, answer: std::io::Result<crate::io::File>) {
        self.replay.opened(key, answer);
    }

    /// Ends the attempt or connection without blame for any frame; moves to the next endpoint and
    /// pauses when all were tried, or when the connection made no progress.
    fn failed(&mut self, io: &mut impl Io, cause: &str, now: u64) {
        let was_open = matches!(self.state, State::Open);
        io.hang_up();
        self.gate.connection(false, now);
        let name = self.endpoints.name();
        let exhausted = self.endpoints.failed();
        if was_open && self.progressed {
            self.backoff.reset();
            self.state = State::Waiting { until: now };
        } else if exhausted || was_open {
            let pause = self.backoff.next(io.random());
            self.state = State::Waiting { until: now + pause };
        } else {
            self.state = State::Waiting { until: now };
        }
        self.gate
            .failed(&format!("{name}: {cause}"), exhausted && !was_open);
    }

    /// The server refused what was sent: a strike, a pause, a new connection.
    fn struck(&mut self, io: &mut impl Io, reason: &str, now: u64) {
        if self.poison.strike(now) {
            let strikes = self.poison.strikes();
            let reason = format!(
                "{reason}; refused {strikes} times without progress (max_frame_rejections)"
            );
            return self.terminal(io, reason, now);
        }
        self.progressed = false;
        self.failed(io, reason, now);
    }

    /// The server ends the sender: nothing is sent any more.
    fn terminal(&mut self, io: &mut impl Io, reason: String, now: u64) {
        let endpoint = self.endpoints.name();
        self.latch(io, Terminal { endpoint, reason }, now);
    }

    /// A fault of the slot itself ends the sender: sending again cannot mend it.
    fn damaged(&mut self, io: &mut impl Io, reason: String, now: u64) {
        self.latch(io, Terminal::local(reason), now);
    }

    fn latch(&mut self, io: &mut impl Io, terminal: Terminal, now: u64) {
        io.hang_up();
        self.gate.fail(terminal);
        self.gate.connection(false, now);
        self.state = State::Stopped;
    }

    fn upgrade_failed(&mut self, io: &mut impl Io, error: &UpgradeError, now: u64) {
        match error {
            UpgradeError::Auth { .. } => self.terminal(io, error.to_string(), now),
            _ => self.failed(io, &error.to_string(), now),
        }
    }
}
