//! Appending to one slot while another one is written, synced, rotated and trimmed: what does the
//! application that appends notice?

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay::{Engine, Producer};
use forebay_loadgen::sink::{Sink, SinkConfig};

use super::ours::{Setting, fill, leave, text};
use crate::limits::figures::nanos;

/// Appends of one measurement, and the time from one to the next.
const APPENDS: u32 = 10_000;
const PERIOD: Duration = Duration::from_micros(300);
/// Time between two frames of 32 KiB of the other slot: a segment of 256 KiB every 40 ms.
const OTHER_PERIOD: Duration = Duration::from_millis(5);

/// Times of appends of a small frame, at a fixed pace, with or without another slot at work.
pub(super) fn appends(
    dir: &Path,
    core: usize,
    disturbed: bool,
) -> Result<Vec<u64>, Box<dyn Error>> {
    std::fs::create_dir(dir)?;
    let setting = Setting {
        dir,
        mode: "memory",
        segment_bytes: 64 << 20,
        core,
        spins: false,
    };
    let (engine, mut producer) = setting.open()?;
    let other = disturbed.then(|| Other::start(dir)).transpose()?;
    let stop = AtomicBool::new(false);
    let times = std::thread::scope(|scope| {
        if let Some(other) = other {
            scope.spawn(|| other.work(&stop));
        }
        let times = pace(&mut producer);
        stop.store(true, Ordering::Relaxed);
        times
    });
    leave(engine, producer);
    Ok(times?)
}

fn pace(producer: &mut Producer) -> Result<Vec<u64>, forebay::Error> {
    let text = text(200);
    let mut times = Vec::new();
    let start = Instant::now();
    for number in 0..APPENDS {
        while start.elapsed() < PERIOD * number {
            std::hint::spin_loop();
        }
        let began = Instant::now();
        fill(producer, i64::from(number), &text)?;
        producer.publish()?;
        times.push(nanos(began.elapsed()));
    }
    Ok(times)
}

/// The other slot: small segments, every frame stable, a server that confirms.
struct Other {
    engine: Engine,
    producer: Producer,
    _sink: Sink,
}

impl Other {
    fn start(dir: &Path) -> Result<Self, Box<dyn Error>> {
        let sink = Sink::start(SinkConfig::default())?;
        let engine = Engine::connect(&format!(
            "ws::addr={};sf_dir={};sender_id=other;sf_max_segment_bytes=256k;\
             sf_durability=flush;pin=off;close_flush_timeout_millis=0;",
            sink.addr(),
            dir.display()
        ))?;
        let producer = engine.producer()?;
        Ok(Self {
            engine,
            producer,
            _sink: sink,
        })
    }

    fn work(mut self, stop: &AtomicBool) {
        let text = text(32 << 10);
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            let done = fill(&mut self.producer, number, &text);
            if done.and_then(|()| self.producer.flush()).is_err() {
                break;
            }
            number += 1;
            std::thread::sleep(OTHER_PERIOD);
        }
        leave(self.engine, self.producer);
    }
}
