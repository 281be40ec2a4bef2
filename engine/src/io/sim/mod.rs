//! The simulated world: a virtual disk, network and clock driven by a seed, with the real shard,
//! slot and producer code on it, and an oracle that knows what was promised.
//!
//! One thread, no sleeping, no kernel files: a run of several crashes takes milliseconds, and the
//! same seed does the same again.
//!
//! | file | concept |
//! |---|---|
//! | `disk`, `storage`, `steward` | files, what of them is durable; operations in flight |
//! | `net`, `connection`, `server` | bytes under way; the genuine server's conversation |
//! | `world` | all of it behind the seam, and the crashes |
//! | `rows`, `ledger` | batches that follow from the seed; what was promised and what arrived |
//! | `life`, `run`, `scenario` | one process; several of them after each other; what they meet |
//! | `fate`, `steps` | what a process does to its disk, counted; a crash at every step of a script |
//! | `promises` | what a durability mode promises between turns |
//! | `ear` | what a process logs |
//! | `expected` | the frames that an opening must find |
//! | `faults` | every operation of the journal fails once, and the journal is repaired |
//! | `reports` | field reports about the order of writes and fdatasyncs |
//! | `watermark` | the scripted runs about acknowledgements ahead of the disk |
#![cfg(feature = "uring")]

mod clock;
mod connection;
mod disk;
pub(crate) mod ear;
mod expected;
mod fate;
#[cfg(test)]
mod faults;
mod ledger;
mod life;
mod net;
mod promises;
mod random;
#[cfg(test)]
mod reports;
mod rows;
mod run;
mod scenario;
mod server;
mod steps;
mod steward;
mod storage;
mod summary;
mod watermark;
mod world;

pub use steps::{CrashPoint, Phase, Trace};
pub use summary::Summary;
pub use watermark::{acked_ahead_of_the_disk, watermark_file_ahead};

use run::Run;
use scenario::Kind;

/// Runs a seed whose processes are killed. Panics where a promise is broken.
pub fn run_kills(seed: u64) -> Summary {
    Run::new(Kind::Kills, seed).go()
}

/// [`run_power_cuts`] on a machine whose wall clock is set back and ahead by an hour, again and
/// again.
pub fn run_with_wall_steps(seed: u64) -> Summary {
    Run::new(Kind::PowerCuts, seed).with_wall_steps().go()
}

/// Runs a seed whose machine loses power. Panics where a promise is broken.
pub fn run_power_cuts(seed: u64) -> Summary {
    Run::new(Kind::PowerCuts, seed).go()
}

/// Runs a seed whose machine loses power, in one mode of `sf_durability`. Panics where a promise is
/// broken.
pub fn run_power_cuts_in(mode: &'static str, seed: u64) -> Summary {
    Run::in_mode(Kind::PowerCuts, seed, Some(mode)).go()
}

/// Runs a seed whose shards panic, at any call of theirs, between kills and power cuts. Panics
/// itself where a promise is broken.
pub fn run_panics(seed: u64) -> Summary {
    Run::new(Kind::Panics, seed).go()
}

/// Runs a seed with kills and a disk that fails now and then. Panics where a promise is broken.
pub fn run_faults(seed: u64) -> Summary {
    Run::new(Kind::Faults, seed).go()
}
