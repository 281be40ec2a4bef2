//! The intake that survives a kill: rings in files, and what becomes of them.
//!
//! A producer's ring lies in a file (`.intake-<n>` in the slot, or under `intake_dir`), mapped and
//! shared. What was accepted is in the page cache before `flush()` returns, so the death of the
//! process does not lose it; power loss does. [`store`] makes and removes the files of a running
//! engine; [`find`] and [`recover`] take over what a dead one left, on the caller of `connect` or a
//! drainer's thread, while the slot's lock is held and before its shard starts. [`header`], [`walk`]
//! and [`record`] are codecs; bytes from files never panic and size no allocation.
//!
//! Layout: docs/on-disk.md, "Intake".

mod find;
pub(crate) mod header;
mod proof;
mod record;
mod recover;
mod report;
mod rescue;
mod store;
#[cfg(any(test, feature = "internals"))]
pub mod view;
pub(crate) mod walk;

#[cfg(test)]
mod tests;

pub(crate) use find::is_filled;
pub(crate) use recover::{LeftRing, recover};
pub(crate) use report::IntakeReport;
pub(crate) use rescue::rescue;
pub(crate) use store::{RingFile, Store};
