//! Inner parts for this workspace's tests, benches and tools. No promise of stability.

#[cfg(feature = "uring")]
pub use crate::io::instant::InstantLoop;
#[cfg(feature = "uring")]
pub use crate::orphan::tool as orphans;
pub use crate::router::ring;
pub use crate::slot::view as slot;

/// The real shard on a simulated disk, network and clock.
#[cfg(feature = "uring")]
pub mod sim {
    pub use crate::io::sim::{
        CrashPoint, Phase, Summary, Trace, acked_ahead_of_the_disk, run_faults, run_kills,
        run_power_cuts, watermark_file_ahead,
    };
}
