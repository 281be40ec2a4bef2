//! What can be seen from outside: counters and latency histograms in one fixed-layout region,
//! events and the thread that tells them, rows per table, and the status that sums it up.

mod counters;
mod event;
mod fill;
mod fold;
mod histogram;
mod inbox;
mod ledger;
mod log;
mod notifier;
mod recent;
mod status;
mod tables;

pub(crate) use counters::Counters;
pub use counters::Stats;
pub use event::{
    Category, ConnectionChange, ConnectionEvent, DrainerEvent, Event, Policy, Progress, SenderError,
};
pub(crate) use fill::FillRate;
pub(crate) use histogram::Histogram;
pub use histogram::LatencyHistogram;
pub(crate) use inbox::Inbox;
pub(crate) use ledger::Ledger;
pub(crate) use notifier::{Handlers, Notifier};
pub use status::{Drainers, Publishes, ShardState, ShardStatus, Status};
pub use tables::TableRows;
pub(crate) use tables::{TableCounters, Tables};
