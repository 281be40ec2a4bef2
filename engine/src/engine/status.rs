//! The engine's state as data.

use std::time::Duration;

use super::Engine;
use crate::io::sys::monotonic_nanos;
use crate::observe::{Drainers, Publishes, ShardState, ShardStatus, Stats, Status};
use crate::router::gate::Upkeep;

impl Engine {
    /// A snapshot of the engine's state: readiness, its shard, all counters. Cheap enough for
    /// every scrape; [`tables`](Self::tables) is separate because it may be long.
    pub fn status(&self) -> Status {
        if let Err(error) = self.home.check() {
            return Self::status_in_a_child(&error);
        }
        let stats = self.stats();
        let shard = self.shard_status(&stats);
        let mut reasons = Vec::new();
        let why = match shard.state {
            ShardState::Running | ShardState::Parked => None,
            ShardState::Starting => Some("its thread is not up yet".to_owned()),
            ShardState::Closed => Some("closed".to_owned()),
            ShardState::Restarting => self
                .gate
                .down()
                .map(|cause| format!("it panicked and is started again after a pause: {cause}")),
            ShardState::Panicked | ShardState::Failed => {
                self.gate.terminal().map(|terminal| terminal.reason.clone())
            }
        };
        reasons.extend(why.map(|why| format!("shard 0: {why}")));
        if shard.is_full {
            reasons.push("shard 0: sf_max_total_bytes is used up".to_owned());
        }
        if let Some(cause) = self.gate.disk_failure() {
            reasons.push(format!(
                "shard 0: the journal waits for its repair: {cause}"
            ));
        }
        match self.gate.upkeep() {
            Upkeep::Kept => {}
            Upkeep::Dead => reasons
                .push("shard 0: the steward died and is started again after a pause".to_owned()),
            Upkeep::Inline => reasons.push(
                "shard 0: the steward was given up, the shard does its work and may stall; \
                 restart the process"
                    .to_owned(),
            ),
        }
        if shard.symbols >= self.config.symbols_max.into() {
            reasons.push(
                "shard 0: symbol_dict_max is reached: rows with new symbols wait until all is acked"
                    .to_owned(),
            );
        }
        Status {
            ready: reasons.is_empty(),
            reasons,
            publishes: Publishes {
                accepted: self.gate.accepted(),
                timed_out: stats.publishes_timed_out,
                oversize: stats.publishes_oversize,
                ended: stats.publishes_ended,
            },
            terminal: self
                .gate
                .terminal()
                .map(|terminal| terminal.to_error().to_string()),
            recent_errors: self.recent_errors(),
            drainers: Drainers {
                active: stats.drainers_active,
                succeeded: stats.drainers_succeeded,
                failed: stats.drainers_failed,
            },
            shards: vec![shard],
            stats,
        }
    }

    fn shard_status(&self, stats: &Stats) -> ShardStatus {
        let gate = &self.gate;
        let now = monotonic_nanos();
        let (_, last_cause) = gate.failures();
        let (attempts, outage) = gate.outage(now).unzip();
        let is_full = gate.is_full();
        let room = self.config.total_bytes.saturating_sub(stats.unacked_bytes);
        let full_in = if is_full {
            Some(0)
        } else {
            gate.fill.seconds_until(room)
        };
        ShardStatus {
            shard: 0,
            state: self.shard_state(),
            endpoint: gate.events.endpoint(),
            outage: outage.map(Duration::from_nanos),
            attempts: attempts.unwrap_or(0),
            last_cause,
            is_full,
            oldest_unacked: gate.oldest_unacked(now).map(Duration::from_nanos),
            unacked_frames: stats.unacked_frames,
            unacked_bytes: stats.unacked_bytes,
            slot_bytes: stats.disk_bytes,
            slot_bytes_max: self.config.total_bytes,
            full_in: full_in.map(Duration::from_secs),
            symbols: stats.symbols,
        }
    }

    fn shard_state(&self) -> ShardState {
        let gate = &self.gate;
        if gate.has_panicked() {
            ShardState::Panicked
        } else if gate.terminal().is_some() {
            ShardState::Failed
        } else if gate.is_shut() {
            ShardState::Closed
        } else if gate.down().is_some() {
            ShardState::Restarting
        } else if !gate.is_started() {
            ShardState::Starting
        } else if gate.is_parked() {
            ShardState::Parked
        } else {
            ShardState::Running
        }
    }
}
