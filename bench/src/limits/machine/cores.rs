//! How long a cache line takes from one core to another: two pinned threads that answer each other.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use core_affinity::{CoreId, get_core_ids, set_for_current};

use crate::limits::figures::{Spread, float};

const TRIPS: u32 = 500;
const SAMPLES: u32 = 2_000;
/// Ends the thread that answers.
const OVER: u32 = u32::MAX;

/// A number with a cache line, and its neighbour that is fetched with it, of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    fn wait_for(&self, number: u32) {
        while self.0.load(Ordering::Acquire) != number {
            spin_loop();
        }
    }
}

/// Nanoseconds one way between the first and the last core allowed, the median of many samples; not
/// a number where there is one core.
pub(super) fn one_way_ns() -> f64 {
    let cores = get_core_ids().unwrap_or_default();
    match (cores.first(), cores.last()) {
        (Some(first), Some(last)) if first.id != last.id => between(*first, *last),
        _ => f64::NAN,
    }
}

fn between(here: CoreId, there: CoreId) -> f64 {
    let (question, answer) = (Line::default(), Line::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set_for_current(there);
            let mut answered = 0;
            while answered != OVER {
                let asked = question.0.load(Ordering::Acquire);
                if asked == answered {
                    spin_loop();
                    continue;
                }
                answer.0.store(asked, Ordering::Release);
                answered = asked;
            }
        });
        let samples = scope.spawn(|| {
            set_for_current(here);
            let mut number = 0;
            let mut samples = Vec::new();
            for _ in 0..SAMPLES {
                let begun = Instant::now();
                for _ in 0..TRIPS {
                    number += 1;
                    question.0.store(number, Ordering::Release);
                    answer.wait_for(number);
                }
                samples.push(begun.elapsed().as_secs_f64() * 1e9 / float(u64::from(2 * TRIPS)));
            }
            question.0.store(OVER, Ordering::Release);
            samples
        });
        let samples = samples.join().unwrap_or_default();
        Spread::of(samples.into_iter()).median
    })
}
