//! A shard that panicked is started again: its slot is opened anew from the disk, under the lock
//! that was never given back, within the limits that hold for the steward (`steward_respawn_*`).
//!
//! The thread, its executor and the ring live on. Before the slot is read nothing of the old life
//! is in flight: the ring is drained, the slot's incarnation is over and nobody is inside, what the
//! steward had been asked is forgotten. Opening blocks, on this thread: there is no shard that
//! would have to turn meanwhile.
//!
//! Not started again, and so a terminal error: a shard in memory mode, whose only copy of unacked
//! frames the panic may have hurt; one whose journal waited for its repair, for the same reason; one
//! that had a terminal error already.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::UringIo;
use crate::config::Config;
use crate::engine::reopen_slot;
use crate::io::sys::{RealFs, monotonic_nanos};
use crate::router::gate::Gate;
use crate::shard::{Salvage, Shard};
use crate::steward::{Incarnation, Limits, Next, Supervision, text_of};

/// How often a pause looks whether the engine closes.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What it takes to start a shard again.
pub(super) struct Revival {
    config: Config,
    gate: Arc<Gate>,
    supervision: Supervision,
    /// The present life of the slot; `None` in memory mode.
    slot: Option<Incarnation>,
}

/// What became of an attempt.
enum Attempt {
    Running(Box<Shard>),
    /// It may be tried again.
    Failed(Box<Salvage>, String),
    /// It cannot.
    Over(String),
}

impl Revival {
    pub(super) fn new(config: &Config, gate: &Arc<Gate>, slot: Option<Incarnation>) -> Self {
        Self {
            config: config.clone(),
            gate: Arc::clone(gate),
            supervision: Supervision::new(Limits::of(config)),
            slot,
        }
    }

    /// A shard in place of the one that panicked, after a pause; or why there is none.
    pub(super) async fn revive(
        &mut self,
        shard: Shard,
        io: &mut UringIo,
        mut cause: String,
    ) -> Result<Shard, String> {
        self.gate.counters.shard_panics.add(1);
        let taken = catch_unwind(AssertUnwindSafe(|| {
            io.begin_again();
            shard.salvage()
        }));
        let Ok(salvage) = taken else {
            return Err(format!("{cause}; and again when it was taken apart"));
        };
        let mut salvage = Box::new(salvage);
        if let Some(hopeless) = self.hopeless(&salvage) {
            return Err(format!("{cause}; {hopeless}"));
        }
        loop {
            let now = monotonic_nanos();
            let Next::Pause(until) = self.supervision.died(now) else {
                let respawns = self.supervision.respawns();
                return Err(format!(
                    "{cause}; it was started again {respawns} times within \
                     steward_respawn_window_millis, which is as often as steward_respawn_max allows"
                ));
            };
            self.gate.went_down(&cause, now, until - now);
            while monotonic_nanos() < until && self.gate.closing().is_none() {
                glommio::timer::sleep(LOOK_EVERY).await;
            }
            self.supervision.due(until);
            match self.attempt(salvage) {
                Attempt::Running(shard) => {
                    self.gate.came_up();
                    return Ok(*shard);
                }
                Attempt::Failed(left, why) => (salvage, cause) = (left, why),
                Attempt::Over(why) => return Err(format!("{cause}; {why}")),
            }
        }
    }

    fn hopeless(&self, salvage: &Salvage) -> Option<String> {
        if self.slot.is_none() {
            let counters = &self.gate.counters;
            let (frames, bytes) = (counters.unacked_frames.get(), counters.unacked_bytes.get());
            return Some(format!(
                "without sf_dir there is nothing to start again from: {frames} frames ({bytes} \
                 bytes) that were not acked are lost"
            ));
        }
        if let Some(failure) = &salvage.poisoned {
            return Some(format!("its journal waited for a repair: {failure}"));
        }
        let terminal = self.gate.terminal()?;
        Some(format!("it had ended before: {}", terminal.reason))
    }

    fn attempt(&mut self, salvage: Box<Salvage>) -> Attempt {
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let life = self.slot.as_mut().expect("looked at before");
            reopen_slot(&RealFs, &self.config, life, &salvage)
        }));
        let handover = match opened {
            Ok(Ok(handover)) => handover,
            Ok(Err(error)) => {
                let why = format!("its slot cannot be opened again: {error}");
                return Attempt::Failed(salvage, why);
            }
            Err(panic) => {
                let why = format!("opening its slot panicked: {}", text_of(panic.as_ref()));
                return Attempt::Failed(salvage, why);
            }
        };
        let gate = Arc::clone(&self.gate);
        let resumed = catch_unwind(AssertUnwindSafe(|| {
            Shard::resume(&self.config, gate, handover, *salvage)
        }));
        match resumed {
            Ok(Ok(shard)) => Attempt::Running(Box::new(shard)),
            Ok(Err(error)) => Attempt::Over(format!("it cannot go on: {error}")),
            Err(panic) => Attempt::Over(format!("and again: {}", text_of(panic.as_ref()))),
        }
    }
}
