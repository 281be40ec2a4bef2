//! Instruction counts of the hot paths: what a timing cannot hold still on a shared machine.
//!
//! The program runs itself under callgrind, which counts inside `region` alone and writes a dump
//! at every return from it. One thread, a world without kernel and network, fixed rows: the same
//! binary gives the same figures but for what random seeds of hash tables move (well below 1 %).
//! `bench/budget.toml` holds the figures that were agreed on; docs/performance.md says how to use
//! both.

pub mod budget;
pub mod callgrind;
mod work;

use std::hint::black_box;

pub use work::{Case, cases};

/// Times that every case is measured, one dump each.
pub const ROUNDS: usize = 5;

/// Runs every case, as callgrind wants to see it.
///
/// # Panics
/// When a case does not do what it says.
pub fn run() {
    for case in cases() {
        (case.run)(case.units);
    }
}

/// What is counted. Never inlined, and not left by a jump: callgrind knows it by its name.
#[inline(never)]
fn region(work: &mut dyn FnMut()) {
    work();
    black_box(());
}
