//! What follows each thing that a server may answer: one case per row of the behaviour table of the
//! corpus, "once" and "always". Five rows are published, a frame each; the server does its worst at
//! row 2. Each case says what the producer and its handlers saw, what was sent again, how often the
//! sender connected and what stays on disk.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

#[path = "../loadgen/mod.rs"]
mod loadgen;
#[path = "../peer/mod.rs"]
mod peer;

mod case;
mod durable;
mod rows;
mod silent;
mod told;
