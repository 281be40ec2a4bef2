//! What the shards of one engine share: the events on their way to the notifier, the rows per
//! table, the thread that wakes tasks, and the counters of what belongs to no shard.

use std::sync::Arc;

use super::herald::Herald;
use crate::config::EventKeys;
use crate::observe::{Counters, Inbox, Stats, Tables};

/// One engine's common room: every [`Gate`](super::gate::Gate) of it leads here.
#[derive(Debug, Default)]
pub(crate) struct Hall {
    /// What the notifier and the orphans' manager count.
    pub counters: Box<Counters>,
    /// What the notifier reports.
    pub events: Inbox,
    /// Rows per table.
    pub tables: Tables,
    /// Wakes tasks that await receipts.
    pub herald: Arc<Herald>,
}

impl Hall {
    /// A hall whose inboxes have these capacities.
    pub(crate) fn new(keys: EventKeys) -> Self {
        Self {
            events: Inbox::new(keys),
            ..Self::default()
        }
    }

    /// A snapshot of its counters.
    pub(crate) fn stats(&self) -> Stats {
        let (errors, connections) = self.events.dropped();
        self.counters.errors_dropped.set(errors);
        self.counters.connection_events_dropped.set(connections);
        self.counters.stats()
    }
}
