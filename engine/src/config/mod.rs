//! Connect string -> [`Config`]: every key, its default and its bounds.
//!
//! Keys and defaults are those of the official clients (protocol.md section 17) plus the engine's
//! own. Parsing happens before any file or socket is touched.

mod addr;
mod changes;
mod delivery_keys;
mod event_keys;
mod foreign;
mod grammar;
mod intake_keys;
mod keys;
mod orphan_keys;
mod parse;
mod producer_keys;
mod security_keys;
mod shard_keys;
mod steward_keys;
mod value;

#[cfg(test)]
mod documented;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use changes::Changes;
pub use delivery_keys::{DeliveryKeys, Policies};
pub use event_keys::EventKeys;
pub use intake_keys::IntakeKeys;
pub use keys::{KEYS, Key};
pub use orphan_keys::OrphanKeys;
pub use producer_keys::{AutoFlush, ProducerKeys};
pub use security_keys::{Auth, Roots, SecretSource, Security};
pub(crate) use shard_keys::SHARDS_MAX;
pub use shard_keys::{Adopt, Cores, RouteBy, ShardCount, ShardKeys};
pub use steward_keys::{Prefill, StewardKeys};

/// `host:port` of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address literal, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Text that is never printed: passwords and tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// What `flush()` promises about the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The page cache's promise: survives process death.
    Memory,
    /// As `Memory`, with an fdatasync every `sf_sync_interval_millis`.
    Periodic,
    /// `flush()` returns at stable.
    Flush,
    /// Every publish returns at stable.
    Append,
}

/// How the first connection is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialConnect {
    /// One round over the endpoints on the caller's thread; its error is returned.
    Off,
    /// Rounds on the caller's thread until `reconnect_max_duration_millis`.
    Sync,
    /// In the background, without a time limit.
    Async,
}

/// Where the journal lives, with the sizes that bound it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `ws` or `wss`.
    pub tls: bool,
    /// `addr`, in order; not empty.
    pub endpoints: Vec<Endpoint>,
    /// `username` + `password` (aliases `user`, `pass`) or `token`; `password_file`, `token_file`.
    pub auth: Auth,
    /// `tls_verify`, `tls_ca`, `tls_roots`, `on_auth_error`.
    pub security: Security,
    /// `auth_timeout_ms`: limit for the upgrade answer.
    pub auth_timeout: Duration,
    /// `connect_timeout`: limit for one TCP connect (15 s when unset).
    pub connect_timeout: Duration,
    /// `sf_dir`; `None` is memory mode.
    pub sf_dir: Option<PathBuf>,
    /// `sender_id`: the slot's name below `sf_dir`.
    pub sender_id: String,
    /// `sf_max_segment_bytes`: size of a new segment, a multiple of 4,096, at least 64 KiB.
    pub segment_bytes: u64,
    /// `sf_max_total_bytes`: cap over segments, spares and dictionary.
    pub total_bytes: u64,
    /// `sf_durability`.
    pub durability: Durability,
    /// `sf_sync_interval_millis` (periodic only).
    pub sync_interval: Duration,
    /// `commit_window_micros`: how long frames gather before a commit takes them.
    pub commit_window: Duration,
    /// `commit_window_bytes`: bytes that end the window.
    pub commit_window_bytes: u64,
    /// `sf_append_deadline_millis`: how long `publish` may wait for room; zero never waits.
    pub append_deadline: Duration,
    /// `reconnect_initial_backoff_millis`.
    pub backoff_initial: Duration,
    /// `reconnect_max_backoff_millis`.
    pub backoff_max: Duration,
    /// `reconnect_max_duration_millis`: bounds a synchronous first connect only.
    pub reconnect_max_duration: Duration,
    /// `initial_connect_retry`; any explicit `reconnect_*` key turns an unset one into `Sync`.
    pub initial_connect: InitialConnect,
    /// `close_flush_timeout_millis`; `None` does not wait.
    pub close_flush_timeout: Option<Duration>,
    /// `max_buf_size`: cap of one message in bytes.
    pub max_buf_bytes: u64,
    /// `max_name_len`: cap of table and column names in bytes.
    pub max_name_bytes: usize,
    /// `max_frame_rejections`.
    pub max_frame_rejections: u32,
    /// `poison_min_escalation_window_millis`.
    pub poison_window: Duration,
    /// Durable acknowledgements, probes and policies.
    pub delivery: DeliveryKeys,
    /// How many shards, where they run, and what goes where.
    pub shards: ShardKeys,
    /// `spin_micros`: how long an idle shard spins before it parks.
    pub spin: Duration,
    /// `idle=spin`: the shard never parks.
    pub idle_spin: bool,
    /// The rings between producers and the shard.
    pub intake: IntakeKeys,
    /// `lock_retry_millis`: how long opening waits for a held slot.
    pub lock_retry: Duration,
    /// What the producer adds, demands and does by itself.
    pub producer: ProducerKeys,
    /// `memory_budget_bytes`: segment memory of a shard with `sf_dir`.
    pub memory_budget_bytes: u64,
    /// `symbol_dict_max`: most symbols to which a slot gives ids.
    pub symbols_max: u32,
    /// `symbol_dict_reset_threshold`: with more symbols than this a slot whose frames are all acked
    /// begins a new dictionary.
    pub symbols_reset: u32,
    /// The orphan scan and its drainers.
    pub orphans: OrphanKeys,
    /// The maintenance thread.
    pub steward: StewardKeys,
    /// Capacities of the inboxes for errors and connection events.
    pub events: EventKeys,
}

impl Config {
    /// Whether spares are written over with zeros ahead.
    pub(crate) fn fills_spares(&self) -> bool {
        match self.steward.prefill {
            Prefill::Auto => matches!(self.durability, Durability::Flush | Durability::Append),
            Prefill::On => true,
            Prefill::Off => false,
        }
    }
}
