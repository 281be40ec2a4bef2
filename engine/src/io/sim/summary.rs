//! What runs did, as counts.

use std::fmt;
use std::ops::AddAssign;

macro_rules! summary {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts of one run, or of many.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Summary {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl AddAssign for Summary {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl fmt::Display for Summary {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let counts = [$((stringify!($name), self.$name)),*];
                for (index, (name, count)) in counts.into_iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{name} {count}")?;
                }
                Ok(())
            }
        }
    };
}

summary! {
    /// Seeds run.
    seeds,
    /// Processes that ran.
    lives,
    /// Processes killed, while opening included.
    kills,
    /// Power cuts.
    power_cuts,
    /// Shards that panicked.
    panics,
    /// Shards that took the place of one that panicked.
    revivals,
    /// Shards that could not: their journal waited for its repair.
    given_up,
    /// Restarts of a shard that a kill cut short.
    revivals_interrupted,
    /// Frames below the first one that was not stable, over all power cuts: they must be found.
    stable_at_cuts,
    /// Frames that were written, not stable, and gone after a crash.
    unstable_lost,
    /// Openings that a crash cut short.
    opens_interrupted,
    /// Closes that a crash cut short.
    closes_interrupted,
    /// Slots closed with everything acked.
    drained,
    /// Frames published.
    frames,
    /// Frames that arrived at the server.
    arrivals,
    /// Frames that arrived again.
    repeats,
    /// Unacked frames found by openings.
    recovered,
    /// Active segments found with a torn tail.
    torn_tails,
    /// Damaged slots that an opening set aside.
    set_aside,
    /// Segments that became active.
    rotations,
    /// Segments removed after acknowledgement.
    trims,
    /// Dictionary chunks written.
    dictionary_writes,
    /// Reads of the disk for replay.
    disk_reads,
    /// Times the cap was reached.
    times_full,
    /// Frames sent again on a new connection.
    replays,
    /// Connections that reached the server.
    dials,
    /// Connections after the first of a process.
    reconnects,
    /// Connections that vanished without a word.
    vanished,
    /// Connections given up because the server fell silent.
    half_open_drops,
    /// Durable acknowledgements received.
    durable_acks,
    /// Frames that the server lost before they were durable.
    lost_by_server,
    /// Disk operations that failed.
    disk_errors,
    /// Dictionary epochs begun.
    epochs,
    /// Crashes while one was about to begin.
    epochs_interrupted,
    /// Batches refused because the dictionary was full.
    symbols_refused,
    /// Turns of the shard.
    turns,
    /// Virtual time.
    virtual_millis,
}
