//! From producers to shards: the ring that hands bytes over, the lane around it, the doorbell.

pub(crate) mod entry;
pub(crate) mod gate;
pub(crate) mod herald;
pub(crate) mod lane;
pub(crate) mod marks;
#[cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, reason = "public through `internals`")
)]
pub mod ring;
mod waiters;
mod wakers;
