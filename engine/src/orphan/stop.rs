//! What the drainers of one manager share: how they are told to end, and whose turn it is to read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::router::gate::{Gate, lock};

/// A request to stop, with the gates of the drainers that it must reach.
#[derive(Debug)]
pub(crate) struct Stop {
    /// Monotonic; `u64::MAX` while nobody asked.
    deadline: AtomicU64,
    gates: Mutex<Vec<Arc<Gate>>>,
    adopting: Mutex<()>,
}

impl Stop {
    pub(super) fn new() -> Self {
        Self {
            deadline: AtomicU64::new(u64::MAX),
            gates: Mutex::default(),
            adopting: Mutex::default(),
        }
    }

    /// Asks every drainer, those that start later too, to end at `deadline` (monotonic) at the
    /// latest.
    pub(super) fn ask(&self, deadline: u64) {
        let gates = lock(&self.gates);
        self.deadline.fetch_min(deadline, Ordering::AcqRel);
        for gate in gates.iter() {
            gate.close(deadline);
        }
    }

    /// When to end, if somebody asked.
    pub(super) fn deadline(&self) -> Option<u64> {
        Some(self.deadline.load(Ordering::Acquire)).filter(|deadline| *deadline != u64::MAX)
    }

    /// Waits for the turn to recover a slot: its backlog is read as fast as the disk goes, and the
    /// foreground's writes wait behind as many readers as there are. `None` when somebody asked to
    /// stop meanwhile.
    pub(super) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        let turn = lock(&self.adopting);
        self.deadline().is_none().then_some(turn)
    }

    /// From now on `gate` is told, at once if somebody asked already.
    pub(super) fn enlist(&self, gate: &Arc<Gate>) {
        let mut gates = lock(&self.gates);
        gates.push(Arc::clone(gate));
        if let Some(deadline) = self.deadline() {
            gate.close(deadline);
        }
    }

    /// Forgets a gate whose shard has ended.
    pub(super) fn dismiss(&self, gate: &Arc<Gate>) {
        lock(&self.gates).retain(|other| !Arc::ptr_eq(other, gate));
    }
}
