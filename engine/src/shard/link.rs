//! The connection to the server: dial, upgrade, catch-up, replay, send, acknowledgements, and what
//! follows when it breaks. Reconnects for ever; only a terminal answer stops it.

mod addresses;
mod burst;
mod catch_up;
mod credentials;
mod dial;
mod divide;
mod ending;
mod epoch;
mod open;
mod receive;
mod send;
mod servers;

use std::sync::Arc;

use forebay_wire::upgrade::{DurableTier, Expected};
use forebay_wire::ws::{Opcode, Reader};

use self::addresses::Addresses;
use self::credentials::Credentials;
use self::divide::Keeper;
use self::ending::Parting;
use self::send::Outgoing;
use super::journal::{Journal, Position};
use super::replay::Replay;
use crate::config::Config;
use crate::delivery::{Conversation, Due, Endpoints};
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::Io;
use crate::router::gate::Gate;
use crate::units::nanos;

/// Largest message of a server that is accepted: acknowledgements of 10,000 tables fit.
const RESPONSE_BYTES_MAX: usize = 4 << 20;
/// Where the connection stands.
#[derive(Debug)]
enum State {
    /// Down until then.
    Waiting { until: u64 },
    /// The resolver was asked.
    Resolving { deadline: u64 },
    /// TCP connect under way, then the TLS handshake.
    Dialing { deadline: u64, securing: bool },
    /// The upgrade request is on its way.
    Upgrading { deadline: u64, expected: Expected },
    /// Frames flow.
    Open,
    /// The server refused; durable acknowledgements that it still sends are read until then.
    Parting(Parting),
    /// A terminal error was latched, or the engine closes.
    Stopped,
}

/// The sender of one slot.
#[derive(Debug)]
pub(crate) struct Link {
    state: State,
    gate: Arc<Gate>,
    tls: bool,
    credentials: Credentials,
    connect_limit: u64,
    upgrade_limit: u64,
    endpoints: Endpoints,
    addresses: Addresses,
    /// Number of the last look-up.
    lookup: u64,
    /// The durable acknowledgement that is asked for.
    durable: Option<DurableTier>,
    talk: Conversation,
    /// Where tables go that the server refuses; `None` makes a refusal terminal.
    keeper: Option<Keeper>,
    out: Outgoing,
    replay: Replay,
    /// `host:port` of the last connection.
    connected_to: Option<String>,
    /// Attempts and failed rounds since the last connection.
    attempts: u64,
    rounds: u64,
    /// First frame of this process: those before were recovered.
    own_from: Fsn,
    /// First frame that is not published, as of this turn.
    published: Fsn,
    reader: Reader,
    inbox: Vec<u8>,
    inbox_used: usize,
}

impl Link {
    /// A link that starts connecting in the first turn.
    pub(crate) fn new(config: &Config, gate: Arc<Gate>, journal: &Journal) -> Result<Self, Error> {
        let replay = Replay::new().map_err(|source| Error::Unsupported {
            what: "mapping replay buffers".to_owned(),
            reason: source.to_string(),
            remedy: "Raise the process's address-space limit",
        })?;
        let durable = config.delivery.durable_ack;
        if durable.is_some() {
            gate.expect_durable();
        }
        Ok(Self {
            state: State::Waiting { until: 0 },
            tls: config.tls,
            credentials: Credentials::new(config),
            connect_limit: nanos(config.connect_timeout),
            upgrade_limit: nanos(config.auth_timeout),
            endpoints: Endpoints::new(config.endpoints.clone()),
            addresses: Addresses::default(),
            lookup: 0,
            durable,
            talk: Conversation::new(config, journal.acked()),
            keeper: Keeper::new(config),
            out: Outgoing::new(journal, Arc::clone(&gate)),
            replay,
            connected_to: None,
            attempts: 0,
            rounds: 0,
            own_from: journal.published(),
            published: journal.published(),
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

    /// First frame that no OK covered: acked ends here, whatever the slot may trim.
    pub(crate) fn okayed(&self) -> Fsn {
        self.talk.okayed()
    }

    /// Whether durable acknowledgements are asked for.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable.is_some()
    }

    /// Whether bytes wait for the socket, or frames for the sender, on an open connection.
    pub(crate) fn is_busy(&self, journal: &Journal) -> bool {
        matches!(self.state, State::Open)
            && (self.out.pending() || self.talk.window.sent() < self.limit(journal))
    }

    /// Whether frames are with the server: the socket deserves attention.
    pub(crate) fn awaits(&self, journal: &Journal) -> bool {
        match self.state {
            State::Open => journal.acked() < self.limit(journal),
            State::Dialing { .. } | State::Upgrading { .. } | State::Parting(_) => true,
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
            | State::Dialing { deadline, .. }
            | State::Upgrading { deadline, .. } => *deadline,
            State::Open => self.talk.deadline(),
            State::Parting(parting) => parting.until,
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
        self.published = journal.published();
        match &self.state {
            State::Waiting { until } if now < *until => false,
            State::Waiting { .. } => {
                self.attempt(io, now);
                true
            }
            State::Resolving { deadline } if now >= *deadline => {
                self.unresolved(io, now);
                true
            }
            State::Resolving { .. } | State::Stopped => false,
            State::Dialing { .. } => self.dialing(io, now),
            State::Upgrading { .. } => self.upgrading(io, journal, now),
            State::Open => {
                let mut moved = self.receive(io, journal, now);
                if matches!(self.state, State::Open) {
                    moved |= self.probe(io, now);
                }
                if matches!(self.state, State::Open) {
                    moved |= self.send(io, journal, now);
                }
                moved
            }
            State::Parting(_) => self.part(io, journal, now),
        }
    }

    /// Asks a silent server for a sign of life, and gives a dead one up. `true` if anything
    /// happened.
    fn probe(&mut self, io: &mut impl Io, now: u64) -> bool {
        match self.talk.check(now) {
            Due::Nothing => return false,
            Due::Ping => {
                self.gate.counters.pings_sent.add(1);
                self.say(io, Opcode::Ping, &[]);
            }
            Due::Silence => {
                self.gate.counters.half_open_drops.add(1);
                self.failed(io, "no sign of life (ping_interval_millis)", now);
            }
            Due::Stall => {
                self.gate.counters.half_open_drops.add(1);
                let cause = "nothing is confirmed any more (ack_progress_timeout_millis)";
                self.failed(io, cause, now);
            }
        }
        true
    }

    /// A read for replay ended.
    pub(crate) fn read_completed(&mut self, done: crate::io::Done) {
        self.replay.completed(done);
    }

    /// A segment was opened for replay.
    pub(crate) fn file_opened(&mut self, key: u64, answer: std::io::Result<crate::io::File>) {
        self.replay.opened(key, answer);
    }
}
