//! `forebay-bench limits`: what the machine can do, beside what the engine does with it.

mod backlog;
pub mod durable;
pub(crate) mod figures;
mod opening;
pub(crate) mod raw_read;
pub mod recovery;
