//! One producer, one row a batch, a shard that never parks: the time of the call alone.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay::Engine;

use super::HandoffOptions;
use crate::limits::figures::{nanos, quantile_micros};
use crate::quotes::{self, Columns, Handles};

/// Batches before the measured ones: buffers have grown then, and the ring's memory is there.
const WARM_BATCHES: usize = 20_000;
const BATCHES: usize = 50_000;
/// Between two batches, so that the shard keeps up and has looked at everything.
const PAUSE: Duration = Duration::from_micros(4);

/// Where the ring is, and so which call ends at accepted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// In memory: `try_flush()`.
    Memory,
    /// In a file, with checksums: `flush()`.
    File,
}

/// The median of the call's time in nanoseconds, one reading of the clock included.
pub(super) fn median_ns(
    options: &HandoffOptions,
    dir: &Path,
    place: Place,
) -> Result<f64, Box<dyn Error>> {
    // On a thread of its own, which is pinned.
    let measured = std::thread::scope(|scope| {
        let times = scope.spawn(|| times(options, dir, place).map_err(|error| error.to_string()));
        times.join().map_err(|_| "the producer panicked")
    });
    Ok(quantile_micros(&mut measured??, 0.5) * 1e3)
}

fn times(options: &HandoffOptions, dir: &Path, place: Place) -> Result<Vec<u64>, Box<dyn Error>> {
    core_affinity::set_for_current(core_affinity::CoreId {
        id: options.load_core,
    });
    let intake = match place {
        Place::Memory => "memory",
        Place::File => "file",
    };
    // No server: nobody else works on the producer's core.
    let engine = Engine::connect(&format!(
        "ws::addr=127.0.0.1:1;sf_dir={};sf_max_segment_bytes=64m;sf_max_total_bytes=1g;\
         initial_connect_retry=async;reconnect_initial_backoff_millis=60000;\
         reconnect_max_backoff_millis=60000;cores={};idle=spin;close_flush_timeout_millis=0;\
         intake={intake};",
        dir.display(),
        options.shard_core
    ))?;
    let mut producer = engine.producer()?;
    let columns = Columns::new();
    let handles = Handles::new(&mut producer, &columns);
    let mut times = Vec::with_capacity(BATCHES);
    for batch in 0..WARM_BATCHES + BATCHES {
        quotes::prepared(&mut producer, &columns, &handles, 1);
        let began = Instant::now();
        let outcome = match place {
            Place::Memory => producer.try_flush(),
            Place::File => producer.flush(),
        };
        let took = began.elapsed();
        // The disk has kept the shard waiting for as long as it takes to fill a ring.
        if matches!(outcome, Err(forebay::Error::Backpressure { .. })) {
            producer.publish()?;
            continue;
        }
        outcome?;
        if batch >= WARM_BATCHES {
            times.push(nanos(took));
        }
        while began.elapsed() < took + PAUSE {
            std::hint::spin_loop();
        }
    }
    drop(producer);
    // Nothing was acked.
    let _ = engine.close();
    Ok(times)
}
