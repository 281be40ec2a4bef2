//! The engine handle in a forked child: it answers, and touches nothing of the parent's.

use std::sync::PoisonError;

use super::Engine;
use crate::error::Error;
use crate::observe::{Drainers, Publishes, Stats, Status};

impl Engine {
    /// What `drop` does in a child: threads that are not there are not waited for, and neither
    /// locks nor channels that they may have held are touched. The memory of it is left alone.
    pub(super) fn leave_to_the_parent(&mut self) {
        let running = self.running.get_mut();
        let running = running.unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(running.take());
    }

    /// The status of a handle that is not this process's own.
    pub(super) fn status_in_a_child(why: &Error) -> Status {
        Status {
            ready: false,
            reasons: vec![why.to_string()],
            shards: Vec::new(),
            publishes: Publishes::default(),
            terminal: None,
            recent_errors: Vec::new(),
            drainers: Drainers::default(),
            stats: Stats::default(),
        }
    }
}
