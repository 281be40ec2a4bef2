//! The state of an engine as plain data: what a health check, a dashboard or a log line needs.

use std::time::Duration;

use super::Stats;

/// A snapshot of an engine's state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Whether rows are taken and delivered or journaled: every shard runs, none is full or at
    /// its end. An outage of the server alone does not count: rows are journaled meanwhile.
    pub ready: bool,
    /// Why not, one line each, with the shard's number.
    pub reasons: Vec<String>,
    /// One entry a shard.
    pub shards: Vec<ShardStatus>,
    /// What producers were answered.
    pub publishes: Publishes,
    /// The error that ended the engine, if there was one.
    pub terminal: Option<String>,
    /// The last errors (16 at most), oldest first.
    pub recent_errors: Vec<super::SenderError>,
    /// Drainers of orphaned slots.
    pub drainers: Drainers,
    /// All counters.
    pub stats: Stats,
}

/// A snapshot of one shard and its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStatus {
    /// Number of the shard, from 0.
    pub shard: u32,
    /// What its thread does.
    pub state: ShardState,
    /// `host:port` of the server, while one is connected.
    pub endpoint: Option<String>,
    /// How long no server has been connected; `None` while one is, and until the first attempt
    /// of this engine has failed.
    pub outage: Option<Duration>,
    /// Connection attempts of this outage.
    pub attempts: u64,
    /// Why the last connection, attempt or spare segment failed; empty if nothing has.
    pub last_cause: String,
    /// Whether `sf_max_total_bytes` is used up: publishing waits.
    pub is_full: bool,
    /// Time since the oldest unacked frame was accepted (of a recovered one: since this engine
    /// started); `None` if all is acked.
    pub oldest_unacked: Option<Duration>,
    /// Unacked frames.
    pub unacked_frames: u64,
    /// Their bytes; of recovered ones an estimate.
    pub unacked_bytes: u64,
    /// Bytes of segments, spares and symbol dictionary.
    pub slot_bytes: u64,
    /// Their cap, `sf_max_total_bytes`.
    pub slot_bytes_max: u64,
    /// Estimated time until the cap is reached, from the growth of the last seconds; `None` if
    /// it is not in sight.
    pub full_in: Option<Duration>,
    /// Symbols in the dictionary.
    pub symbols: u64,
    /// Producers with a ring into this shard, of the 1,024 that it can have. A dropped one counts
    /// until what it published is settled; one that the application leaked counts for good.
    pub producers: u64,
}

/// What a shard's thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardState {
    /// Not up yet.
    Starting,
    /// Awake.
    Running,
    /// Asleep until something arrives.
    Parked,
    /// Its task panicked and is started again after a pause, which the status says.
    Restarting,
    /// It delivers nothing more: a terminal error, which the status quotes.
    Failed,
    /// Its task panicked, and is not started again.
    Panicked,
    /// Closed.
    Closed,
}

/// Calls that publish, by their answer: each call with rows is in exactly one field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Publishes {
    /// The batch was accepted.
    pub accepted: u64,
    /// Back-pressure: no room, at once or within the time limit.
    pub timed_out: u64,
    /// The batch can never fit.
    pub oversize: u64,
    /// The engine has ended: a terminal error, or closed.
    pub ended: u64,
}

/// Drainers of orphaned slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drainers {
    /// At work now.
    pub active: u64,
    /// Emptied their slot.
    pub succeeded: u64,
    /// Marked their slot `.failed`.
    pub failed: u64,
}
