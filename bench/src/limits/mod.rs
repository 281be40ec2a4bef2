//! `forebay-bench limits`: what the machine can do, beside what the engine does with it.

mod backlog;
pub mod durable;
mod figures;
mod opening;
mod raw_read;
pub mod recovery;
