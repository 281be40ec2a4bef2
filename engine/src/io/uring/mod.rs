//! The kernel behind the seam: one raw io_uring ring per shard, a non-blocking socket polled
//! through it, and a glommio executor that hosts the turns.

mod cores;
mod driver;
mod fault;
mod here;
mod host;
mod probe;
mod revive;
pub(crate) mod tls;
mod transport;

pub(crate) use cores::{Placement, shard_count, usable_cores};
pub(crate) use driver::{Tap, UringIo};
pub(crate) use here::run_here;
pub(crate) use host::{Hosted, spawn};
pub(crate) use probe::{probe, probe_locked_memory, with_locked_memory};
