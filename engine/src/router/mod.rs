//! From producers to shards: the ring that hands bytes over, the lane around it, the doorbell.

mod crc;
pub(crate) mod doorbell;
pub(crate) mod entry;
pub(crate) mod gate;
pub(crate) mod hall;
pub(crate) mod herald;
pub(crate) mod lane;
pub(crate) mod marks;
pub(crate) mod region;
#[cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, reason = "public through `internals`")
)]
pub(crate) mod ring;
#[cfg(test)]
mod ring_tests;
pub(crate) mod room;
pub(crate) mod route;
mod sync;
mod waiters;
mod wakers;
