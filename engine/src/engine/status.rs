//! The engine's state as data.

use std::time::Duration;

use super::Engine;
use crate::io::sys::monotonic_nanos;
use crate::observe::{Drainers, Publishes, ShardState, ShardStatus, Stats, Status};
use crate::router::gate::{Gate, Upkeep};

impl Engine {
    /// A snapshot of the engine's state: readiness, its shards, all counters. Cheap enough for
    /// every scrape; [`tables`](Self::tables) is separate because it may be long.
    pub fn status(&self) -> Status {
        if let Err(error) = self.home.check() {
            return Self::status_in_a_child(&error);
        }
        let counted: Vec<Stats> = self.gates().map(|gate| gate.counters.stats()).collect();
        let stats = Stats::of_engine(self.hall.stats(), &counted);
        let shards: Vec<ShardStatus> = self
            .gates()
            .zip(&counted)
            .map(|(gate, stats)| self.shard_status(gate, stats))
            .collect();
        let mut reasons = Vec::new();
        for (gate, shard) in self.gates().zip(&shards) {
            let why = self.reasons_of(gate, shard);
            reasons.extend(why.map(|why| format!("shard {}: {why}", gate.shard)));
        }
        let ended = self.gates().find_map(Gate::terminal);
        Status {
            ready: reasons.is_empty(),
            reasons,
            publishes: Publishes {
                accepted: self.gates().map(Gate::accepted).sum(),
                timed_out: stats.publishes_timed_out,
                oversize: stats.publishes_oversize,
                ended: stats.publishes_ended,
            },
            terminal: ended.map(|terminal| terminal.to_error().to_string()),
            recent_errors: self.recent_errors(),
            drainers: Drainers {
                active: stats.drainers_active,
                succeeded: stats.drainers_succeeded,
                failed: stats.drainers_failed,
            },
            shards,
            stats,
        }
    }

    /// Why a shard is not ready.
    fn reasons_of(&self, gate: &Gate, shard: &ShardStatus) -> impl Iterator<Item = String> {
        let state = match shard.state {
            ShardState::Running | ShardState::Parked => None,
            ShardState::Starting => Some("its thread is not up yet".to_owned()),
            ShardState::Closed => Some("closed".to_owned()),
            ShardState::Restarting => gate
                .down()
                .map(|cause| format!("it panicked and is started again after a pause: {cause}")),
            ShardState::Panicked | ShardState::Failed => {
                gate.terminal().map(|terminal| terminal.reason.clone())
            }
        };
        let told = |is: bool, what: &str| is.then(|| what.to_owned());
        let disk = gate.disk_failure();
        let disk = disk.map(|cause| format!("the journal waits for its repair: {cause}"));
        let upkeep = match gate.upkeep() {
            Upkeep::Kept => None,
            Upkeep::Dead => Some("the steward died and is started again after a pause".to_owned()),
            Upkeep::Inline => Some(
                "the steward was given up, the shard does its work and may stall; restart the \
                 process"
                    .to_owned(),
            ),
        };
        let no_symbols = shard.symbols >= self.config.symbols_max.into();
        [
            state,
            told(shard.is_full, "sf_max_total_bytes is used up"),
            disk,
            upkeep,
            told(
                no_symbols,
                "symbol_dict_max is reached: rows with new symbols wait until all is acked",
            ),
        ]
        .into_iter()
        .flatten()
    }

    fn shard_status(&self, gate: &Gate, stats: &Stats) -> ShardStatus {
        let now = monotonic_nanos();
        let (_, last_cause) = gate.failures();
        let (attempts, outage) = gate.outage(now).unzip();
        let is_full = gate.is_full();
        let room = self.total_bytes().saturating_sub(stats.unacked_bytes);
        let full_in = if is_full {
            Some(0)
        } else {
            gate.fill.seconds_until(room)
        };
        ShardStatus {
            shard: gate.shard,
            state: state_of(gate),
            endpoint: gate.endpoint(),
            outage: outage.map(Duration::from_nanos),
            attempts: attempts.unwrap_or(0),
            last_cause,
            is_full,
            oldest_unacked: gate.oldest_unacked(now).map(Duration::from_nanos),
            unacked_frames: stats.unacked_frames,
            unacked_bytes: stats.unacked_bytes,
            slot_bytes: stats.disk_bytes,
            slot_bytes_max: self.total_bytes(),
            full_in: full_in.map(Duration::from_secs),
            symbols: stats.symbols,
            producers: gate.lanes() as u64,
        }
    }
}

fn state_of(gate: &Gate) -> ShardState {
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
