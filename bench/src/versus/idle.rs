//! What a spinning shard's idle turns cost, apart from its work.
//!
//! The engine counts turns that found nothing. What one takes is measured in the same process with
//! an engine that does nothing else: connected, and never parking.

use std::error::Error;
use std::time::{Duration, Instant};

use forebay::{Engine, Stats};

use super::figures::Figures;
use crate::limits::figures::float;

/// The shard tells its CPU time every 100 ms; so many times are watched.
const SAMPLES: u32 = 3;
const LIMIT: Duration = Duration::from_secs(5);

/// Turns of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    all: u64,
    idle: u64,
}

impl Turns {
    pub(super) fn between(before: Stats, after: Stats) -> Self {
        Self {
            all: after.turns - before.turns,
            idle: after.turns_idle - before.turns_idle,
        }
    }

    /// Adds what the idle ones took, by row, and what is left of the figures without them.
    pub(super) fn tell(
        self,
        conf: &str,
        rows: u64,
        figures: &mut Figures,
    ) -> Result<(), Box<dyn Error>> {
        let idle_turn_ns = idle_turn_ns(conf)?;
        let idle_ns_row = idle_turn_ns * float(self.idle) / float(rows);
        figures.set("idle_turn_ns", idle_turn_ns);
        figures.set(
            "idle_turns_share",
            float(self.idle) / float(self.all.max(1)),
        );
        figures.set("idle_ns_row", idle_ns_row);
        for name in ["io_ns_row", "whole_ns_row"] {
            let all = figures.get(name).unwrap_or(f64::NAN);
            figures.set(&format!("busy_{name}"), (all - idle_ns_row).max(0.0));
        }
        Ok(())
    }
}

/// CPU time of a turn of a shard that is connected and has nothing to do, nanoseconds.
fn idle_turn_ns(conf: &str) -> Result<f64, Box<dyn Error>> {
    let conf = conf.replace("sender_id=versus;", "sender_id=idle;idle=spin;");
    let engine = Engine::connect(&conf)?;
    let begun = Instant::now();
    // A sample is taken where the CPU time has just been told.
    let mut samples: Vec<Stats> = Vec::new();
    while samples.len() < SAMPLES as usize + 1 {
        let stats = engine.stats();
        let told = samples.last().map_or(0, |last| last.shard_cpu_nanos);
        if stats.connected == 1 && stats.shard_cpu_nanos != told {
            samples.push(stats);
        }
        if begun.elapsed() > LIMIT {
            return Err("a spinning shard does not tell its CPU time".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    let spent = float(last.shard_cpu_nanos - first.shard_cpu_nanos);
    drop(engine);
    Ok(spent / float((last.turns - first.turns).max(1)))
}
