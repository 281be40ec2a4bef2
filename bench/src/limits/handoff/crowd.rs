//! Producers as fast as they can, each with a thread of its own, into one shard.

use std::error::Error;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use forebay::{Engine, Producer};
use forebay_loadgen::sink::{Sink, SinkConfig};

use crate::limits::figures::float;
use crate::quotes::{self, Columns, Handles};

const PATIENCE: Duration = Duration::from_mins(1);

/// Rows per second of all producers together, until the last batch was accepted and until the
/// server had confirmed it: `(producers, rows, batch)`.
pub(super) fn rates(
    shard_core: usize,
    dir: &Path,
    (producers, rows, batch): (usize, u64, usize),
) -> Result<[f64; 2], Box<dyn Error>> {
    let sink = Sink::start(SinkConfig::default())?;
    let engine = Engine::connect(&format!(
        "ws::addr={};sf_dir={};sf_max_segment_bytes=64m;cores={shard_core};\
         initial_connect_retry=sync;close_flush_timeout_millis=60000;",
        sink.addr(),
        dir.display(),
    ))?;
    let columns = Columns::new();
    let batches = rows / batch as u64 / producers as u64;
    let start = Barrier::new(producers + 1);
    let (began, accepted) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..producers)
            .map(|_| {
                let producer = engine.producer();
                scope.spawn(|| publish(producer, &columns, (batches, batch), &start))
            })
            .collect();
        start.wait();
        // This thread may be the last to go on: the first producer's start counts.
        let mut began = Instant::now();
        for thread in threads {
            began = began.min(thread.join().map_err(|_| "a producer panicked")??);
        }
        Ok::<_, Box<dyn Error>>((began, began.elapsed()))
    })?;
    engine.wait_acked(PATIENCE)?;
    let acked = began.elapsed();
    engine.close()?;
    sink.stop();
    let rows = float(batches * (batch * producers) as u64);
    Ok([accepted, acked].map(|time| rows / time.as_secs_f64()))
}

fn publish(
    producer: Result<Producer, forebay::Error>,
    columns: &Columns,
    (batches, batch): (u64, usize),
    start: &Barrier,
) -> Result<Instant, forebay::Error> {
    let warmed = producer.and_then(|mut producer| {
        let handles = Handles::new(&mut producer, columns);
        quotes::prepared(&mut producer, columns, &handles, batch);
        producer.publish()?;
        Ok((producer, handles))
    });
    // Whoever failed must not keep the others waiting.
    start.wait();
    let began = Instant::now();
    let (mut producer, handles) = warmed?;
    for _ in 0..batches {
        quotes::prepared(&mut producer, columns, &handles, batch);
        producer.publish()?;
    }
    Ok(began)
}
