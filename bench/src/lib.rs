//! Measurements of Forebay: what `forebay-bench` prints, and helpers of the criterion benches.

pub mod limits;
pub mod ok_probe;
pub mod turn;
pub mod versus;
