//! What can be seen from outside: counters and latency histograms in one fixed-layout region.

mod counters;
mod histogram;

pub(crate) use counters::Counters;
pub use counters::Stats;
pub(crate) use histogram::Histogram;
pub use histogram::LatencyHistogram;
