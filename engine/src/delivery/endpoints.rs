//! Which server is tried next.

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

/// The configured servers in order; one round tries each once.
#[derive(Debug)]
pub(crate) struct Endpoints {
    list: Vec<Endpoint>,
    current: usize,
    tried: usize,
}

impl Endpoints {
    pub(crate) fn new(list: Vec<Endpoint>) -> Self {
        assert!(
            !list.is_empty(),
            "the configuration names at least one server"
        );
        Self {
            list,
            current: 0,
            tried: 0,
        }
    }

    /// The server of the present attempt.
    pub(crate) fn current(&self) -> &Endpoint {
        &self.list[self.current]
    }

    /// `host:port` of the present attempt, for messages.
    pub(crate) fn name(&self) -> String {
        self.current().to_string()
    }

    /// The present server failed: moves on. `true` when that ends the round.
    pub(crate) fn failed(&mut self) -> bool {
        self.current = (self.current + 1) % self.list.len();
        self.tried += 1;
        let exhausted = self.tried >= self.list.len();
        if exhausted {
            self.tried = 0;
        }
        exhausted
    }

    /// The present server accepted the connection.
    pub(crate) fn succeeded(&mut self) {
        self.tried = 0;
    }
}
