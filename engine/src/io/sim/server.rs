//! One connection at the scripted server: the genuine server's upgrade and session, a handler that
//! decodes every message strictly and tells the oracle, and acknowledgements when chance allows.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use forebay_wire::decode::{Message, Mode};
use forebay_wire::dict::ConnectionDict;
use forebay_wire::response::Status;
use forebay_wire::server::{
    Commits, Ending, Flow, MessageHandler, Outcome, Refusal, Session, SessionConfig,
};
use forebay_wire::upgrade::{Answer, DurableTier, UpgradePolicy, answer};
use forebay_wire::ws::{Opcode, append_server_frame};

use super::ledger::{ConnectionView, Ledger, STORE_TABLES};
use super::random::Rng;
use super::rows;

/// The oracle, shared by the server's connections and the driver.
pub(crate) type SharedLedger = Rc<RefCell<Ledger>>;

/// How the server behaves. Durations in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct ServerManners {
    /// Longest usual wait of an acknowledgement.
    pub(crate) ack_nanos: u64,
    /// Connections that never get one, of 100.
    pub(crate) silent_percent: u64,
    /// Messages refused by a retriable error, of 10,000.
    pub(crate) refused_per_myriad: u64,
    /// Answers with a PING before them, of 100.
    pub(crate) ping_percent: u64,
    /// Longest wait until what is committed is durable.
    pub(crate) durable_nanos: u64,
}

/// The server's side of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    rng: Rng,
    manners: ServerManners,
    /// The request, until it is whole.
    request: Vec<u8>,
    session: Option<Session>,
    handler: Handler,
    /// When to acknowledge what.
    acks: VecDeque<(u64, u64)>,
    acked: u64,
    silent: bool,
}

#[derive(Debug)]
struct Handler {
    ledger: SharedLedger,
    view: ConnectionView,
    dictionary: ConnectionDict,
    rng: Rng,
    refused_per_myriad: u64,
    durable_nanos: u64,
    now: u64,
    tables: [Arc<str>; 2],
}

impl MessageHandler for Handler {
    fn message(&mut self, bytes: &[u8], _: u64, commits: &mut Commits) -> Result<Outcome, Refusal> {
        if self.rng.below(10_000) < self.refused_per_myriad {
            return Err(Refusal::new(
                Status::WriteError,
                "simulated: storage refused the rows",
            ));
        }
        let message = Message::parse(bytes, Mode::Strict)
            .unwrap_or_else(|error| panic!("a delivered message is broken: {error}"));
        if let Some(delta) = message.delta() {
            let applied = self.dictionary.apply(&delta);
            applied.unwrap_or_else(|error| panic!("symbols of a delivered message: {error}"));
        }
        if let Some((batch, rows)) = rows::read(&message, &self.dictionary) {
            let durable_at = self.now + self.rng.between(1, self.durable_nanos);
            let mut ledger = self.ledger.borrow_mut();
            let (table, txn) = ledger.arrived(&mut self.view, batch, &rows, durable_at);
            commits.push(Arc::clone(&self.tables[table]), txn);
        }
        Ok(Outcome::Committed)
    }
}

impl Peer {
    pub(crate) fn new(ledger: &SharedLedger, manners: ServerManners, mut rng: Rng) -> Self {
        let handler = Handler {
            view: ledger.borrow().connected(),
            ledger: Rc::clone(ledger),
            dictionary: ConnectionDict::new(),
            rng: rng.fork(),
            refused_per_myriad: manners.refused_per_myriad,
            durable_nanos: manners.durable_nanos,
            now: 0,
            tables: STORE_TABLES.map(Arc::from),
        };
        let silent = rng.percent(manners.silent_percent);
        Self {
            rng,
            manners,
            request: Vec::new(),
            session: None,
            handler,
            acks: VecDeque::new(),
            acked: 0,
            silent,
        }
    }

    /// Bytes arrived. Answers go to `out`; tells how the server ended the connection, if it did.
    pub(crate) fn arrive(&mut self, bytes: &[u8], now: u64, out: &mut Vec<u8>) -> Option<Ending> {
        let Some(session) = &mut self.session else {
            self.request.extend_from_slice(bytes);
            return self.upgrade(now, out);
        };
        self.handler.now = now;
        let durable = self.handler.ledger.borrow_mut().durable_until(now);
        for (table, txn) in self.handler.tables.iter().zip(durable) {
            session.advance_durable(table, txn);
        }
        let flow = session.on_bytes(bytes, &mut self.handler, out);
        self.plan_ack(now);
        match flow {
            Flow::Continue => None,
            Flow::Close(ending) => Some(ending),
        }
    }

    fn upgrade(&mut self, now: u64, out: &mut Vec<u8>) -> Option<Ending> {
        let policy = UpgradePolicy {
            durable: Some(DurableTier::On),
            ..UpgradePolicy::default()
        };
        match answer(&self.request, &policy)? {
            Answer::Reject { status, .. } => panic!("the upgrade was refused: {status}"),
            Answer::Accept(accepted) => {
                out.extend_from_slice(&accepted.response);
                self.session = Some(Session::new(SessionConfig {
                    auto_ack: false,
                    strict: true,
                    durable: accepted.durable,
                    ..SessionConfig::default()
                }));
                let rest = self.request.split_off(accepted.consumed);
                self.arrive(&rest, now, out)
            }
        }
    }

    fn plan_ack(&mut self, now: u64) {
        let Some(session) = &self.session else { return };
        let received = session.messages_received();
        if self.silent || received == self.acked {
            return;
        }
        self.acked = received;
        let slow = if self.rng.percent(3) { 50 } else { 1 };
        let after = self.acks.back().map_or(now, |(due, _)| (*due).max(now));
        self.acks.push_back((
            after + self.rng.between(1_000, self.manners.ack_nanos * slow),
            received - 1,
        ));
    }

    /// When the next acknowledgement is due.
    pub(crate) fn next_at(&self) -> u64 {
        self.acks.front().map_or(u64::MAX, |(due, _)| *due)
    }

    /// Nothing is acknowledged any more.
    pub(crate) fn fall_silent(&mut self) {
        self.acks.clear();
        self.silent = true;
    }

    /// Writes the acknowledgement that is due.
    pub(crate) fn acknowledge(&mut self, out: &mut Vec<u8>) {
        if let (Some((_, seq)), Some(session)) = (self.acks.pop_front(), &mut self.session) {
            if self.rng.percent(self.manners.ping_percent) {
                append_server_frame(out, Opcode::Ping, b"still there?");
            }
            session.ack_up_to(seq, out);
        }
    }
}
