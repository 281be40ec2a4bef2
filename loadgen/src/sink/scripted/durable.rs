//! Commits on their way to be durable.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use forebay_wire::server::Session;

use crate::sink::script::DurableManners;

/// Commits that wait for one manner or another; older ones are forgotten, because later ones
/// cover them.
const WAITING_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct DurableQueue {
    waiting: VecDeque<(Instant, Arc<str>, i64)>,
    newest: HashMap<Arc<str>, i64>,
}

impl DurableQueue {
    pub(super) fn push(&mut self, table: &Arc<str>, txn: i64, now: Instant) {
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back((now, Arc::clone(table), txn));
        self.newest.insert(Arc::clone(table), txn);
    }

    /// A table was made anew: what it had does not become durable.
    pub(super) fn forget(&mut self, name: &str) {
        self.waiting.retain(|(_, table, _)| **table != *name);
        self.newest.remove(name);
    }

    /// Tells the session what is durable by now; it says so at its next pass.
    pub(super) fn advance(&mut self, manners: DurableManners, now: Instant, session: &mut Session) {
        if manners.never {
            return;
        }
        let newest = &self.newest;
        self.waiting.retain(|(committed, table, txn)| {
            let newest = newest.get(table).copied().unwrap_or(i64::MAX);
            let lagging = newest.saturating_sub(*txn) < i64::try_from(manners.lag).unwrap_or(0);
            let waits = lagging || *committed + manners.delay > now;
            if !waits {
                session.advance_durable(table, *txn);
                session.advance_local_durable(table, *txn);
            }
            waits
        });
    }
}
