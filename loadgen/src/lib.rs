//! Load for Forebay: an embedded QWP server, open-loop generated load and replay of real data.
//!
//! The binary `forebay-loadgen` is a thin command line over this library; tests and benchmarks of
//! the workspace use the library directly, above all [`sink::Sink`].

#![deny(unsafe_code)]

pub mod allocations;
pub mod cli;
pub mod confirm;
pub mod cpu;
pub mod csv_source;
pub mod embedded;
pub mod error;
pub mod feed;
pub mod machine;
pub mod pace;
pub mod publish;
pub mod quotes;
pub mod replay;
pub mod report;
pub mod run;
pub mod series;
pub mod session;
pub mod signals;
pub mod sink;
pub mod soak;
pub mod sweep;
pub mod usage;

pub mod conf;
mod pin;
mod progress;
mod random;
