//! Which server is tried next (protocol.md section 13.3).
//!
//! The best by its last outcome goes first, ties in the order of `addr`; of equals, the one whose
//! connection has just ended goes last. One round tries each server once.

use std::fmt;

use crate::config::Endpoint;

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// Why an attempt at a server failed, or a connection to it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It could not be reached, or broke, or spoke nonsense.
    Transport,
    /// It does not take writes now: `soon` it will (a primary that catches up).
    Role {
        /// As the server says.
        soon: bool,
    },
    /// It grants no durable acknowledgement, although that was asked for.
    DurableMismatch,
}

/// How a round ended in which no server took the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundEnd {
    /// The next round follows after a pause.
    Unreachable,
    /// As before; some server refused by its role.
    Role,
    /// No server grants what was asked for: another round would change nothing.
    AllMismatched,
}

/// The last outcome at a server, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Healthy,
    Unknown,
    TransientReject,
    TransportError,
    TopologyReject,
}

impl Failure {
    fn health(self) -> Health {
        match self {
            Self::Role { soon: true } => Health::TransientReject,
            Self::Role { soon: false } => Health::TopologyReject,
            Self::Transport | Self::DurableMismatch => Health::TransportError,
        }
    }
}

#[derive(Debug)]
struct Host {
    endpoint: Endpoint,
    health: Health,
    /// Number of its last success among all successes, from 1.
    succeeded: u64,
    attempted: bool,
    mismatched: bool,
}

/// The configured servers.
#[derive(Debug)]
pub(crate) struct Endpoints {
    hosts: Vec<Host>,
    current: usize,
    successes: u64,
    role_rejected: bool,
}

impl Endpoints {
    pub(crate) fn new(list: Vec<Endpoint>) -> Self {
        assert!(
            !list.is_empty(),
            "the configuration names at least one server"
        );
        let host = |endpoint| Host {
            endpoint,
            health: Health::Unknown,
            succeeded: 0,
            attempted: false,
            mismatched: false,
        };
        Self {
            hosts: list.into_iter().map(host).collect(),
            current: 0,
            successes: 0,
            role_rejected: false,
        }
    }

    /// Whether these are the servers, in this order.
    pub(crate) fn are(&self, list: &[Endpoint]) -> bool {
        self.hosts.iter().map(|host| &host.endpoint).eq(list)
    }

    /// Goes on with other servers; what is known of those that stay is kept, and a new round begins.
    pub(crate) fn replace(&mut self, list: Vec<Endpoint>) {
        let present = self.current().clone();
        let mut next = Self::new(list);
        next.successes = self.successes;
        for host in &mut next.hosts {
            if let Some(old) = self.hosts.iter().find(|old| old.endpoint == host.endpoint) {
                (host.health, host.succeeded) = (old.health, old.succeeded);
            }
        }
        match next.hosts.iter().position(|host| host.endpoint == present) {
            Some(stays) => next.current = stays,
            None => next.pick(None),
        }
        *self = next;
    }

    /// The server of the present attempt.
    pub(crate) fn current(&self) -> &Endpoint {
        &self.hosts[self.current].endpoint
    }

    /// `host:port` of the present attempt, for messages.
    pub(crate) fn name(&self) -> String {
        self.current().to_string()
    }

    /// The attempt at the present server failed: moves on. `Some` when that ends the round.
    pub(crate) fn failed(&mut self, failure: Failure) -> Option<RoundEnd> {
        let host = &mut self.hosts[self.current];
        host.health = failure.health();
        host.attempted = true;
        host.mismatched = failure == Failure::DurableMismatch;
        self.role_rejected |= matches!(failure, Failure::Role { .. });
        if self.hosts.iter().any(|host| !host.attempted) {
            self.pick(None);
            return None;
        }
        let end = if self.role_rejected {
            RoundEnd::Role
        } else if self.hosts.iter().all(|host| host.mismatched) {
            RoundEnd::AllMismatched
        } else {
            RoundEnd::Unreachable
        };
        self.begin_round();
        Some(end)
    }

    /// The present server accepted the connection.
    pub(crate) fn succeeded(&mut self) {
        self.successes += 1;
        let host = &mut self.hosts[self.current];
        (host.health, host.succeeded) = (Health::Healthy, self.successes);
        self.clear_attempts();
    }

    /// The connection to the present server ended: others are better now.
    pub(crate) fn lost(&mut self, failure: Failure) {
        self.hosts[self.current].health = failure.health();
        self.pick(Some(self.current));
    }

    /// All were tried: what they answered is old news, but the last good one stays ahead.
    fn begin_round(&mut self) {
        let last_good = self
            .hosts
            .iter()
            .enumerate()
            .filter(|(_, host)| host.health == Health::Healthy)
            .max_by_key(|(_, host)| host.succeeded)
            .map(|(index, _)| index);
        for (index, host) in self.hosts.iter_mut().enumerate() {
            if Some(index) != last_good {
                host.health = Health::Unknown;
            }
        }
        self.clear_attempts();
        self.pick(None);
    }

    fn clear_attempts(&mut self) {
        self.role_rejected = false;
        for host in &mut self.hosts {
            (host.attempted, host.mismatched) = (false, false);
        }
    }

    /// The best of those that are left; `lost` only if it is better than all others.
    fn pick(&mut self, lost: Option<usize>) {
        let left = self.hosts.iter().enumerate();
        let left = left.filter(|(_, host)| !host.attempted);
        let best = left.min_by_key(|(index, host)| (host.health, Some(*index) == lost));
        self.current = best.expect("a round has hosts left").0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Failure = Failure::Role { soon: true };
    const REPLICA: Failure = Failure::Role { soon: false };

    fn three() -> Endpoints {
        let endpoint = |host: &str| Endpoint {
            host: host.to_owned(),
            port: 9000,
        };
        Endpoints::new(["a", "b", "c"].map(endpoint).into())
    }

    fn names(endpoints: &mut Endpoints, failures: &[Failure]) -> String {
        let mut names = String::new();
        for failure in failures {
            names.push_str(&endpoints.current().host);
            if endpoints.failed(*failure).is_some() {
                names.push('.');
            }
        }
        names
    }

    #[test]
    fn another_list_keeps_the_present_server_and_what_is_known() {
        let at = |host: &str| Endpoint {
            host: host.to_owned(),
            port: 9000,
        };
        let mut endpoints = three();
        assert!(endpoints.are(&["a", "b", "c"].map(at)));
        endpoints.succeeded(); // a
        endpoints.lost(REPLICA);
        endpoints.succeeded(); // b
        endpoints.replace(["d", "a", "b"].map(at).into());
        assert_eq!(endpoints.name(), "b:9000", "it stays");
        endpoints.lost(Failure::Transport);
        assert_eq!(names(&mut endpoints, &[Failure::Transport; 3]), "dba.");
        endpoints.replace(["e"].map(at).into());
        assert_eq!(endpoints.name(), "e:9000");
        assert!(!endpoints.are(&["e", "a"].map(at)));
    }

    #[test]
    fn rounds_follow_the_list() {
        let walk = names(&mut three(), &[Failure::Transport; 7]);
        assert_eq!(walk, "abc.abc.a");
    }

    #[test]
    fn a_lost_connection_moves_to_the_next_and_does_not_count_as_an_attempt() {
        let mut endpoints = three();
        endpoints.succeeded();
        endpoints.lost(Failure::Transport);
        assert_eq!(names(&mut endpoints, &[Failure::Transport; 4]), "bca.a");
    }

    #[test]
    fn of_equals_the_one_just_lost_goes_last() {
        let mut endpoints = three();
        let mut walk = String::new();
        for _ in 0..6 {
            walk.push_str(&endpoints.current().host);
            endpoints.succeeded();
            endpoints.lost(Failure::Transport);
        }
        assert_eq!(walk, "abcaba");
    }

    #[test]
    fn roles_rank_behind_what_is_merely_unknown() {
        let mut endpoints = three();
        endpoints.succeeded(); // a
        endpoints.lost(REPLICA);
        endpoints.succeeded(); // b
        endpoints.lost(SOON);
        endpoints.succeeded(); // c
        endpoints.lost(Failure::Transport);
        // b will be writable soon, c is broken, a is a replica.
        assert_eq!(names(&mut endpoints, &[REPLICA; 3]), "bca.");
    }

    #[test]
    fn a_round_tells_how_it_ended() {
        let mut endpoints = three();
        let mismatch = Failure::DurableMismatch;
        let mut round = |failures: [Failure; 3]| {
            let ends = failures.map(|failure| endpoints.failed(failure));
            assert_eq!(ends[..2], [None, None]);
            ends[2]
        };
        assert_eq!(round([mismatch; 3]), Some(RoundEnd::AllMismatched));
        let mixed = [mismatch, Failure::Transport, mismatch];
        assert_eq!(round(mixed), Some(RoundEnd::Unreachable));
        assert_eq!(round([REPLICA, mismatch, mismatch]), Some(RoundEnd::Role));
        assert_eq!(round([mismatch; 3]), Some(RoundEnd::AllMismatched));
    }

    #[test]
    fn a_single_server_is_tried_again_and_again() {
        let mut endpoints = Endpoints::new(vec![Endpoint {
            host: "::1".to_owned(),
            port: 1,
        }]);
        assert_eq!(endpoints.failed(SOON), Some(RoundEnd::Role));
        endpoints.succeeded();
        endpoints.lost(Failure::Transport);
        let end = endpoints.failed(Failure::Transport);
        assert_eq!(end, Some(RoundEnd::Unreachable));
        assert_eq!(endpoints.name(), "[::1]:1");
    }
}
