//! What can be seen from outside: counters and latency histograms in one fixed-layout region.

mod counters;
mod event;
mod histogram;
mod inbox;

pub(crate) use counters::Counters;
pub use counters::Stats;
pub use event::{Category, ConnectionEvent, Event, Policy, SenderError};
pub(crate) use histogram::Histogram;
pub use histogram::LatencyHistogram;
pub(crate) use inbox::Inbox;
