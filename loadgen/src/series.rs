//! A run over time: what was acked and what waits, ten times a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay::Engine;

const PERIOD: Duration = Duration::from_millis(100);
/// Most samples: of a longer run every second one is dropped, again and again.
const SAMPLES_MAX: usize = 4096;

/// The counters at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Since the start.
    pub at: Duration,
    /// Rows acked so far.
    pub rows_acked: u64,
    /// Frames in the slot without confirmation.
    pub frames_unacked: u64,
}

/// Runs `work` and takes samples beside it; the last one when it has ended.
pub fn watch<T>(engine: &Engine, work: impl FnOnce() -> T) -> (T, Vec<Sample>) {
    let ended = AtomicBool::new(false);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut samples = vec![take(engine, start)];
            let mut every = 1;
            while !ended.load(Ordering::Acquire) {
                std::thread::park_timeout(PERIOD * every);
                samples.push(take(engine, start));
                if samples.len() >= SAMPLES_MAX {
                    thin_out(&mut samples);
                    every *= 2;
                }
            }
            samples
        });
        let end = EndOnDrop(&ended, sampler.thread().clone());
        let result = work();
        drop(end);
        (result, sampler.join().unwrap_or_default())
    })
}

/// Ends the sampler also when the work panics.
struct EndOnDrop<'a>(&'a AtomicBool, std::thread::Thread);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}

fn take(engine: &Engine, start: Instant) -> Sample {
    let stats = engine.stats();
    Sample {
        at: start.elapsed(),
        rows_acked: stats.rows_acked,
        frames_unacked: stats.unacked_frames,
    }
}

/// Leaves every second one.
fn thin_out(samples: &mut Vec<Sample>) {
    let mut index = 0;
    samples.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}

#[cfg(test)]
mod tests {
    use super::{Sample, thin_out};

    #[test]
    fn a_long_run_keeps_its_first_sample_and_every_second_one() {
        let sample = |rows_acked| Sample {
            at: std::time::Duration::ZERO,
            rows_acked,
            frames_unacked: 0,
        };
        let mut samples: Vec<_> = (0..5).map(sample).collect();
        thin_out(&mut samples);
        let left: Vec<_> = samples.iter().map(|sample| sample.rows_acked).collect();
        assert_eq!(left, [0, 2, 4]);
    }
}
