//! The addresses of the servers' names: asked for at every attempt, the last good ones kept for
//! when nobody answers.

use std::collections::VecDeque;
use std::net::SocketAddr;

/// The addresses that a host and port last resolved to.
#[derive(Debug)]
struct Known {
    host: String,
    port: u16,
    addresses: Vec<SocketAddr>,
}

/// What is left to try of the present server, and what is known of all.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    left: VecDeque<SocketAddr>,
    known: Vec<Known>,
}

impl Addresses {
    /// A good answer about a server. There are as many entries as configured servers.
    pub(super) fn learn(&mut self, host: &str, port: u16, addresses: &[SocketAddr]) {
        let addresses = addresses.to_vec();
        match self.known.iter_mut().find(|known| known.is(host, port)) {
            Some(known) => known.addresses = addresses,
            None => self.known.push(Known {
                host: host.to_owned(),
                port,
                addresses,
            }),
        }
    }

    /// Starts over with what is known of a server; `false` if that is nothing.
    pub(super) fn start(&mut self, host: &str, port: u16) -> bool {
        let known = self.known.iter().find(|known| known.is(host, port));
        self.left = known.map_or_else(VecDeque::new, |known| known.addresses.clone().into());
        !self.left.is_empty()
    }

    /// Starts over with one address.
    pub(super) fn start_at(&mut self, address: SocketAddr) {
        self.left = VecDeque::from([address]);
    }

    /// The next address to try.
    pub(super) fn next(&mut self) -> Option<SocketAddr> {
        self.left.pop_front()
    }

    /// Whether all were tried.
    pub(super) fn is_exhausted(&self) -> bool {
        self.left.is_empty()
    }
}

impl Known {
    fn is(&self, host: &str, port: u16) -> bool {
        self.port == port && self.host == host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_good_answer_is_tried_in_its_order() {
        let at = |last| SocketAddr::from(([127, 0, 0, last], 1));
        let mut addresses = Addresses::default();
        assert!(!addresses.start("a", 1));
        addresses.learn("a", 1, &[at(1), at(2)]);
        addresses.learn("a", 2, &[at(9)]);
        assert!(addresses.start("a", 1));
        assert_eq!(addresses.next(), Some(at(1)));
        assert!(!addresses.is_exhausted());
        assert_eq!(addresses.next(), Some(at(2)));
        assert!(addresses.is_exhausted());
        assert_eq!(addresses.next(), None);
        addresses.learn("a", 1, &[at(3)]);
        assert!(addresses.start("a", 1));
        assert_eq!(addresses.next(), Some(at(3)));
        assert_eq!(addresses.next(), None);
    }
}
