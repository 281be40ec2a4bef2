//! Forebay: an embeddable ingest engine for QuestDB.
//!
//! Application threads collect rows in a [`Producer`] and publish them as batches; a shard, one
//! pinned core, journals every batch with io_uring and delivers it over QWP, QuestDB's binary
//! WebSocket protocol; after any outage, crash or restart it delivers what the server has not
//! confirmed.
//!
//! ```no_run
//! use forebay::{Engine, TimestampNanos};
//!
//! # fn main() -> Result<(), forebay::Error> {
//! let engine = Engine::connect(
//!     "ws::addr=localhost:9000;sf_dir=/var/lib/ticks;initial_connect_retry=async;",
//! )?;
//! let mut rows = engine.producer()?;
//! rows.table("trades")?.symbol("sym", "BTC-USD")?.column_f64("price", 25741.02)?;
//! rows.at(TimestampNanos(1_700_000_000_000_000_000))?;
//! rows.flush()?; // in the journal: survives the death of this process
//! engine.close()?; // confirmed by the server, or on disk for the next start
//! # Ok(()) }
//! ```
//!
//! Stages of a batch ([`Stage`]): accepted, written, stable on the disk's side; accepted, acked,
//! durable on the server's. A [`Receipt`] waits for any of them.

#![cfg_attr(
    not(feature = "uring"),
    allow(dead_code, unused_imports, reason = "only the executor runs the shard")
)]

#[cfg(feature = "uring")]
mod builder;
pub mod config;
pub(crate) mod delivery;
#[cfg(feature = "uring")]
mod engine;
pub mod error;
pub(crate) mod fsn;
mod intake;
#[cfg(any(test, feature = "internals"))]
#[doc(hidden)]
pub mod internals;
pub(crate) mod io;
pub(crate) mod observe;
pub(crate) mod orphan;
pub(crate) mod producer;
pub(crate) mod router;
pub(crate) mod shard;
pub(crate) mod slot;
pub(crate) mod steward;
pub(crate) mod units;

/// The README's example compiles as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ReadmeDoctests;

#[cfg(feature = "uring")]
pub use builder::EngineBuilder;
#[cfg(feature = "uring")]
pub use engine::{Engine, Latency};
pub use error::{Error, Pressure};
pub use forebay_wire::types::ColumnType;
pub use observe::{
    Category, ConnectionChange, ConnectionEvent, DrainerEvent, Drainers, Event, LatencyHistogram,
    Policy, Progress, Publishes, SenderError, ShardState, ShardStatus, Stats, Status, TableRows,
};
pub use producer::{
    Chunk, ColumnId, Nulls, PositionWatch, Positions, Producer, Receipt, Symbol, TableId,
    Timestamp, TimestampMicros, TimestampNanos,
};
pub use router::lane::Stage;
pub use slot::{RecoveryProgress, SetAside};
