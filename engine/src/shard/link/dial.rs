//! From an endpoint to an upgrade request on its way: name and credentials, address, TCP, TLS,
//! request.

use std::net::{IpAddr, SocketAddr};

use forebay_wire::upgrade::{Expected, UpgradeRequest};

use super::credentials::{Refusal, Unready};
use super::{Link, State};
use crate::io::{Asked, Dialed, Found, Io, Request};
use crate::observe::Category;

/// How long a name may take to resolve and a secret to be read.
const RESOLVE_LIMIT: u64 = 10_000_000_000;
/// How long a TLS handshake may take (protocol.md section 13.7).
const TLS_LIMIT: u64 = 5_000_000_000;
/// Pause before a question that found the queue full.
const QUEUE_PAUSE: u64 = 10_000_000;

impl Link {
    /// Starts one connection attempt at the present endpoint.
    pub(super) fn attempt(&mut self, io: &mut impl Io, now: u64) {
        self.gate.attempt();
        self.gate.counters.reconnect_attempts.add(1);
        let endpoint = self.endpoints.current();
        let secret = self.credentials.file();
        if let Ok(ip) = endpoint.host.parse::<IpAddr>()
            && secret.is_none()
        {
            self.addresses.start_at(SocketAddr::new(ip, endpoint.port));
            return self.dial(io, now);
        }
        self.lookup += 1;
        let asked = Asked {
            attempt: self.lookup,
            host: endpoint.host.clone(),
            port: endpoint.port,
            secret,
        };
        self.state = match io.request(Request::Resolve(asked)) {
            Ok(()) => State::Resolving {
                deadline: now + RESOLVE_LIMIT,
            },
            Err(_) => State::Waiting {
                until: now + QUEUE_PAUSE,
            },
        };
    }

    /// What an attempt has to know first was looked up.
    pub(crate) fn resolved(&mut self, io: &mut impl Io, found: Found, now: u64) {
        let Found {
            asked,
            addresses,
            secret,
        } = found;
        // Also of a late answer: the next time-out falls back on it.
        if let Ok(addresses) = &addresses {
            self.addresses.learn(&asked.host, asked.port, addresses);
        }
        let endpoint = self.endpoints.current();
        let same = asked.host == endpoint.host && asked.port == endpoint.port;
        // An answer to an attempt given up meanwhile, or to a shard that panicked.
        if !matches!(self.state, State::Resolving { .. }) || asked.attempt != self.lookup || !same {
            return;
        }
        let cause = match addresses {
            Ok(_) => String::new(),
            Err(error) => format!("cannot resolve: {error}"),
        };
        match self.credentials.read(secret) {
            Ok(()) => self.dial_known(io, &cause, now),
            Err(unready) => self.unready(io, unready, now),
        }
    }

    /// Nobody answered in time: what is known from earlier attempts serves once more.
    pub(super) fn unresolved(&mut self, io: &mut impl Io, now: u64) {
        match self.credentials.read(None) {
            Ok(()) => self.dial_known(io, "name resolution timed out", now),
            Err(unready) => self.unready(io, unready, now),
        }
    }

    fn unready(&mut self, io: &mut impl Io, unready: Unready, now: u64) {
        match unready {
            Unready::Failed(cause) => self.failed(io, &cause, now),
            Unready::Terminal(reason) => {
                self.terminal(io, Category::SecurityError, reason, now);
            }
        }
    }

    /// Tries what is known of the present endpoint; if that is nothing, it failed for `cause`.
    fn dial_known(&mut self, io: &mut impl Io, cause: &str, now: u64) {
        let endpoint = self.endpoints.current();
        if self.addresses.start(&endpoint.host, endpoint.port) {
            self.dial(io, now);
        } else {
            self.failed(io, cause, now);
        }
    }

    /// Connects to the next address of the endpoint.
    fn dial(&mut self, io: &mut impl Io, now: u64) {
        let mut last = String::from("no address");
        while let Some(address) = self.addresses.next() {
            let host = &self.endpoints.current().host;
            match io.dial(address, self.tls.then_some(host)) {
                Ok(()) => {
                    self.state = State::Dialing {
                        deadline: now + self.connect_limit,
                        securing: false,
                    };
                    return;
                }
                Err(error) => last = format!("connect {address}: {error}"),
            }
        }
        self.failed(io, &last, now);
    }

    pub(super) fn dialing(&mut self, io: &mut impl Io, now: u64) -> bool {
        let State::Dialing { deadline, securing } = self.state else {
            return false;
        };
        let outcome = match io.dialed() {
            Dialed::Ready => {
                self.begin_upgrade(io, now);
                return true;
            }
            Dialed::Securing if !securing => {
                self.state = State::Dialing {
                    deadline: now + TLS_LIMIT,
                    securing: true,
                };
                return true;
            }
            Dialed::Failed(error) => format!("connect: {error}"),
            Dialed::Securing if now >= deadline => {
                "no TLS handshake within 5 s: does the server speak TLS on this port?".to_owned()
            }
            Dialed::Connecting if now >= deadline => {
                "connect timed out (connect_timeout)".to_owned()
            }
            Dialed::Connecting | Dialed::Securing => return false,
        };
        io.hang_up();
        if self.addresses.is_exhausted() {
            self.failed(io, &outcome, now);
        } else {
            self.dial(io, now);
        }
        true
    }

    fn begin_upgrade(&mut self, io: &mut impl Io, now: u64) {
        let endpoint = self.endpoints.current();
        let nonce = (u128::from(io.random()) << 64 | u128::from(io.random())).to_le_bytes();
        let mut request = UpgradeRequest::new(&endpoint.host, endpoint.port, self.tls, nonce);
        let authorization = self.credentials.header();
        request.authorization = authorization.as_ref().map(|header| header.0.as_str());
        request.durable = self.durable;
        let expected = Expected::of(&request);
        let bytes = request.encode();
        self.out.set(&bytes);
        self.inbox_used = 0;
        self.state = State::Upgrading {
            deadline: now + self.upgrade_limit,
            expected,
        };
    }

    /// The server refused the credentials: no other server will take them either.
    pub(super) fn auth_refused(&mut self, io: &mut impl Io, words: String, now: u64) {
        match self.credentials.refused(&words) {
            Refusal::Terminal => self.terminal(io, Category::SecurityError, words, now),
            Refusal::Failed => self.failed(io, &words, now),
            Refusal::ReadAgain => {
                io.hang_up();
                self.gate.connection(false, now);
                let name = self.endpoints.name();
                self.gate.failed(&format!("{name}: {words}"), false);
                // The same server, after a pause in which a rotation comes to its end.
                let pause = self.talk.round_failed(false, io.random());
                self.state = State::Waiting { until: now + pause };
            }
        }
    }
}
