//! From an endpoint to an upgrade request on its way: name, address, TCP, request.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use forebay_wire::upgrade::{Expected, UpgradeRequest};

use super::{Link, State};
use crate::config::Auth;
use crate::io::{Io, Request};

/// How long a name may take to resolve.
const RESOLVE_LIMIT: u64 = 10_000_000_000;

impl Link {
    /// Starts one connection attempt at the present endpoint.
    pub(super) fn attempt(&mut self, io: &mut impl Io, now: u64) {
        self.gate.attempt();
        self.gate.counters.reconnect_attempts.add(1);
        let endpoint = self.endpoints.current();
        if let Ok(ip) = endpoint.host.parse::<IpAddr>() {
            self.addresses = VecDeque::from([SocketAddr::new(ip, endpoint.port)]);
            return self.dial(io, now);
        }
        let request = Request::Resolve {
            host: endpoint.host.clone(),
            port: endpoint.port,
        };
        match io.request(request) {
            Ok(()) => {
                self.state = State::Resolving {
                    deadline: now + RESOLVE_LIMIT,
                }
            }
            Err(_) => {
                self.state = State::Waiting {
                    until: now + 10_000_000,
                }
            }
        }
    }

    /// The resolver answered.
    pub(crate) fn resolved(
        &mut self,
        io: &mut impl Io,
        host: &str,
        port: u16,
        answer: std::io::Result<Vec<SocketAddr>>,
        now: u64,
    ) {
        let asked = self.endpoints.current();
        let current = (asked.host.as_str(), asked.port) == (host, port);
        if !matches!(self.state, State::Resolving { .. }) || !current {
            return; // an answer to an attempt given up meanwhile
        }
        match answer {
            Ok(addresses) => {
                self.addresses = addresses.into();
                self.dial(io, now);
            }
            Err(error) => self.failed(io, &format!("cannot resolve: {error}"), now),
        }
    }

    /// Connects to the next address of the endpoint.
    fn dial(&mut self, io: &mut impl Io, now: u64) {
        let mut last = String::from("no address");
        while let Some(address) = self.addresses.pop_front() {
            match io.dial(address) {
                Ok(()) => {
                    self.state = State::Dialing {
                        deadline: now + self.connect_limit,
                    };
                    return;
                }
                Err(error) => last = format!("connect {address}: {error}"),
            }
        }
        self.failed(io, &last, now);
    }

    pub(super) fn dialing(&mut self, io: &mut impl Io, now: u64) -> bool {
        let State::Dialing { deadline } = self.state else {
            return false;
        };
        let outcome = match io.dialed() {
            Some(Ok(())) => {
                self.begin_upgrade(io, now);
                return true;
            }
            Some(Err(error)) => format!("connect: {error}"),
            None if now >= deadline => "connect timed out (connect_timeout)".to_owned(),
            None => return false,
        };
        io.hang_up();
        if self.addresses.is_empty() {
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
        request.authorization = self.authorization.as_deref();
        let expected = Expected::of(&request);
        let bytes = request.encode();
        self.out.set(&bytes);
        self.inbox_used = 0;
        self.state = State::Upgrading {
            deadline: now + self.upgrade_limit,
            expected,
        };
    }
}

/// The value of the `Authorization` header.
pub(super) fn authorization(auth: &Auth) -> Option<String> {
    use base64::Engine as _;
    match auth {
        Auth::Anonymous => None,
        Auth::Basic { username, password } => {
            let pair = format!("{username}:{}", password.0);
            Some(format!(
                "Basic {}",
                base64::engine::general_purpose::STANDARD.encode(pair)
            ))
        }
        Auth::Bearer(token) => Some(format!("Bearer {}", token.0)),
    }
}
