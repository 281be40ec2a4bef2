//! Measurements of Forebay: what `forebay-bench` prints, and helpers of the criterion benches.

mod busy;
pub mod count;
pub mod limits;
pub mod ok_probe;
pub mod quotes;
pub mod turn;
pub mod versus;
pub mod world;
