//! Another list of servers while the link runs.

use super::{Link, State};
use crate::config::Endpoint;
use crate::io::Io;

impl Link {
    /// Goes on with these servers. A connection or an attempt at one that is not among them ends.
    pub(crate) fn change_servers(&mut self, io: &mut impl Io, list: Vec<Endpoint>, now: u64) {
        if self.endpoints.are(&list) {
            return;
        }
        let stays = list.contains(self.endpoints.current());
        let idle = matches!(self.state, State::Waiting { .. } | State::Stopped);
        if !stays && !idle {
            if matches!(self.state, State::Parting(_)) {
                self.finish_parting(io, now);
            } else {
                self.failed(io, "not in addr any more (Engine::reconfigure)", now);
            }
        }
        self.endpoints.replace(list);
        // Whatever pause was due was for the old servers.
        if let State::Waiting { until } = &mut self.state {
            *until = now;
        }
    }
}
