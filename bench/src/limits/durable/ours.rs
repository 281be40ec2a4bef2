//! The same work done by the engine: a producer on one core, a shard on another, no server.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay::{Chunk, Engine, Nulls, Producer, Stage, TimestampNanos};

use crate::limits::figures::{float, nanos};
use crate::limits::noise;

/// Bytes of a frame beside its text.
const FRAME_EXTRA: usize = 60;
/// What an engine is given before it is measured: its spares are made, and in durable modes filled.
const SETTLE: Duration = Duration::from_secs(1);
const WARM_FRAME_BYTES: usize = 32 << 10;
/// `memory_budget_bytes`.
const MEMORY_BYTES: u64 = 128 << 20;
const PATIENCE: Duration = Duration::from_mins(1);

/// How an engine is opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    /// Where its slot goes.
    pub(super) dir: &'a Path,
    /// `sf_durability`.
    pub(super) mode: &'a str,
    /// Segment size in bytes.
    pub(super) segment_bytes: u64,
    /// Core of the shard.
    pub(super) core: usize,
    /// The shard never parks.
    pub(super) spins: bool,
}

impl Setting<'_> {
    pub(super) fn open(self) -> Result<(Engine, Producer), Box<dyn Error>> {
        let Self {
            dir,
            mode,
            segment_bytes,
            core,
            spins,
        } = self;
        let idle = if spins { "spin" } else { "park" };
        let engine = Engine::connect(&format!(
            "ws::addr=127.0.0.1:1;sf_dir={};sender_id=bench;sf_max_segment_bytes={segment_bytes};\
             sf_max_total_bytes=8g;sf_durability={mode};initial_connect_retry=async;\
             reconnect_initial_backoff_millis=60000;reconnect_max_backoff_millis=60000;\
             cores={core};idle={idle};close_flush_timeout_millis=0;memory_budget_bytes={MEMORY_BYTES};\
             intake_ring_bytes=4m;",
            dir.display()
        ))?;
        let producer = engine.producer()?;
        Ok((engine, producer))
    }

    /// An engine in the state that lasts: it has left its first segment, which nobody fills with
    /// zeros, for a spare, and its memory is in use for the second time. Memory that is touched for
    /// the first time costs milliseconds a MiB where a hypervisor has to find it.
    fn open_warm(self, stage: Stage) -> Result<(Engine, Producer), Box<dyn Error>> {
        let (engine, mut producer) = self.open()?;
        let columns = Columns::of(WARM_FRAME_BYTES);
        let chunk = columns.chunk()?;
        let segments = MEMORY_BYTES / self.segment_bytes + 2;
        while engine.stats().segments_written < segments {
            producer.publish_chunk(&chunk)?;
        }
        producer.publish()?.wait(stage, PATIENCE)?;
        std::thread::sleep(SETTLE);
        Ok((engine, producer))
    }
}

/// Ends an engine whose backlog nobody wants.
pub(super) fn leave(engine: Engine, producer: Producer) {
    drop(producer);
    let _ = engine.close();
}

/// A text that makes a frame of about `frame_bytes`, the same noise that the raw loop writes.
pub(super) fn text(frame_bytes: usize) -> String {
    let letters = noise().map(|x| char::from(b' ' + (x % 94) as u8));
    letters.take(frame_bytes - FRAME_EXTRA).collect()
}

/// Fills one frame.
pub(super) fn fill(producer: &mut Producer, number: i64, text: &str) -> Result<(), forebay::Error> {
    let row = producer.table("t")?.column_i64("n", number)?;
    row.column_str("v", text)?.at(TimestampNanos(number + 1))
}

/// Bytes per second until all of `bytes` have reached `stage`, in frames of `frame_bytes`. The
/// frames are columns of the caller's, which cost the producer one copy: what is measured is the
/// journal.
pub(super) fn groups(
    setting: Setting<'_>,
    bytes: u64,
    frame_bytes: usize,
    stage: Stage,
) -> Result<f64, Box<dyn Error>> {
    let (engine, mut producer) = setting.open_warm(stage)?;
    let columns = Columns::of(frame_bytes);
    let chunk = columns.chunk()?;
    let began = Instant::now();
    for _ in 0..bytes / frame_bytes as u64 {
        producer.publish_chunk(&chunk)?;
    }
    producer.publish()?.wait(stage, PATIENCE)?;
    let seconds = began.elapsed().as_secs_f64();
    leave(engine, producer);
    Ok(float(bytes) / seconds)
}

/// One frame as the caller's columns: noise, and times.
struct Columns {
    values: Vec<i64>,
    times: Vec<i64>,
}

impl Columns {
    /// For a frame of about `frame_bytes`.
    fn of(frame_bytes: usize) -> Self {
        let rows = (frame_bytes - FRAME_EXTRA) / (2 * size_of::<i64>());
        let values = noise().map(u64::cast_signed);
        Self {
            values: values.take(rows).collect(),
            times: (1..).take(rows).collect(),
        }
    }

    fn chunk(&self) -> Result<Chunk<'_>, forebay::Error> {
        let mut chunk = Chunk::new("t");
        chunk.i64("v", &self.values, Nulls::NONE)?;
        chunk.at_nanos(&self.times)?;
        Ok(chunk)
    }
}

/// Time of each of `count` calls of `flush()` with a frame of 4 KiB, with a pause before each.
pub(super) fn singles(
    setting: Setting<'_>,
    count: usize,
    pause: Duration,
) -> Result<Vec<u64>, Box<dyn Error>> {
    let (engine, mut producer) = setting.open_warm(Stage::Stable)?;
    let text = text(4096);
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let began = Instant::now();
        fill(&mut producer, i64::try_from(number)?, &text)?;
        producer.flush()?;
        times.push(nanos(began.elapsed()));
    }
    leave(engine, producer);
    Ok(times)
}
