//! The connection at the begin of a dictionary epoch: one that knows symbols is closed in order,
//! and the next begins with none.

use super::{Link, State};
use crate::io::Io;
use crate::observe::ConnectionChange;
use crate::shard::journal::Journal;

impl Link {
    /// Whether everything published is with the server of an open connection.
    pub(crate) fn has_sent_all(&self, journal: &Journal) -> bool {
        matches!(self.state, State::Open) && self.talk.window.sent() == journal.published()
    }

    /// The journal's ids begin at 0 again. Everything is acked, so this is no failure: the same
    /// server is dialed at once, without a pause.
    pub(crate) fn begin_epoch(&mut self, io: &mut impl Io, journal: &Journal, now: u64) {
        self.replay.reset();
        self.out.position = journal.start_of(journal.acked());
        let knows = matches!(self.state, State::Open | State::Parting(_));
        if !knows || self.out.registered == 0 {
            return; // an open connection is restarted before its first frame anyway
        }
        self.say_goodbye(io, 1000);
        io.hang_up();
        self.gate.connection(false, now);
        self.tell(ConnectionChange::Disconnected {
            endpoint: self.endpoints.name(),
            cause: "a new symbol dictionary begins (symbol_dict_reset_threshold)".to_owned(),
        });
        self.state = State::Waiting { until: now };
    }
}
