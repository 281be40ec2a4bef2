//! Appending to one slot while another one is written, synced, rotated and trimmed: what does the
//! application that appends notice?

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use core_affinity::CoreId;
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
    let stop = AtomicBool::new(false);
    let (ready, started) = sync_channel(1);
    let times = std::thread::scope(|scope| {
        if disturbed {
            // On the core of the shard, with all of its threads: this thread never leaves its own,
            // and what is measured is the disk and the locks, not who gets the core.
            scope.spawn(|| {
                core_affinity::set_for_current(CoreId { id: core });
                let other = Other::start(dir).map_err(|error| error.to_string());
                let _ = ready.send(other.as_ref().err().cloned());
                if let Ok(other) = other {
                    other.work(&stop);
                }
            });
            if let Some(reason) = started.recv()? {
                return Err(reason.into());
            }
        }
        let times = pace(&mut producer);
        stop.store(true, Ordering::Relaxed);
        Ok::<_, Box<dyn Error>>(times?)
    });
    leave(engine, producer);
    times
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
