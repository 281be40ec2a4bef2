//! From producers to shards: the ring that hands bytes over, the lane around it, the doorbell.

pub(crate) mod entry;
pub(crate) mod gate;
pub(crate) mod lane;
pub mod ring;
