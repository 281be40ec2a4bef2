//! The same work done by the engine: a producer on one core, a shard on another, no server.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay::{Engine, Producer, Stage, TimestampNanos};

use super::noise;
use crate::limits::figures::{float, nanos};

/// Bytes of a frame beside its text.
const FRAME_EXTRA: usize = 60;
/// What an engine is given before it is measured: its spares are made, and in durable modes filled.
const SETTLE: Duration = Duration::from_secs(1);
const WARM_FRAME_BYTES: usize = 32 << 10;
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
             cores={core};idle={idle};close_flush_timeout_millis=0;memory_budget_bytes=256m;",
            dir.display()
        ))?;
        let producer = engine.producer()?;
        Ok((engine, producer))
    }

    /// An engine that has left its first segment, which nobody fills with zeros, for a spare.
    fn open_rotated(self, stage: Stage) -> Result<(Engine, Producer), Box<dyn Error>> {
        let (engine, mut producer) = self.open()?;
        let text = text(WARM_FRAME_BYTES);
        while engine.stats().segments_written == 0 {
            fill(&mut producer, 0, &text)?;
            producer.publish()?;
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

/// Bytes per second until all of `bytes` have reached `stage`, in frames of `frame_bytes`.
pub(super) fn groups(
    setting: Setting<'_>,
    bytes: u64,
    frame_bytes: usize,
    stage: Stage,
) -> Result<f64, Box<dyn Error>> {
    let (engine, mut producer) = setting.open_rotated(stage)?;
    let text = text(frame_bytes);
    let frames = i64::try_from(bytes / frame_bytes as u64)?;
    let began = Instant::now();
    for number in 0..frames {
        fill(&mut producer, number, &text)?;
        producer.publish()?;
    }
    producer.publish()?.wait(stage, PATIENCE)?;
    let seconds = began.elapsed().as_secs_f64();
    leave(engine, producer);
    Ok(float(bytes) / seconds)
}

/// Time of each of `count` calls of `flush()` with a frame of 4 KiB, with a pause before each.
pub(super) fn singles(
    setting: Setting<'_>,
    count: usize,
    pause: Duration,
) -> Result<Vec<u64>, Box<dyn Error>> {
    let (engine, mut producer) = setting.open_rotated(Stage::Stable)?;
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
