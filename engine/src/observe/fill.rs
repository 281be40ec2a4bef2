//! How fast the journal fills: a smoothed rate, sampled about once a second.

use std::sync::atomic::{AtomicU64, Ordering};

/// Weight of a sample of one second; older ones fade with a half-life of about 7 s.
const WEIGHT: f64 = 0.1;

/// A smoothed rate in bytes per second, written by one thread.
#[derive(Debug, Default)]
pub(crate) struct FillRate {
    /// Bits of an f64.
    rate: AtomicU64,
}

/// The sampling side.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    last: Option<(u64, u64)>,
}

impl Sampler {
    /// Takes a sample: `bytes` unacked at `now` (nanoseconds).
    pub(crate) fn sample(&mut self, rate: &FillRate, now: u64, bytes: u64) {
        let Some((then, before)) = self.last.replace((now, bytes)) else {
            return;
        };
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let (seconds, grown) = (
            now.saturating_sub(then) as f64 / 1e9,
            bytes as f64 - before as f64,
        );
        if seconds <= 0.0 {
            self.last = Some((then, before));
            return;
        }
        let weight = 1.0 - (1.0 - WEIGHT).powf(seconds);
        let old = rate.get();
        rate.set(old + weight * (grown / seconds - old));
    }
}

impl FillRate {
    fn get(&self) -> f64 {
        f64::from_bits(self.rate.load(Ordering::Relaxed))
    }

    fn set(&self, rate: f64) {
        self.rate.store(rate.to_bits(), Ordering::Relaxed);
    }

    /// Seconds until `room` bytes are used up; `None` if that is not in sight (30 days).
    pub(crate) fn seconds_until(&self, room: u64) -> Option<u64> {
        const SIGHT: f64 = 30.0 * 86_400.0;
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let seconds = room as f64 / self.get();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 30 days"
        )]
        (0.0..SIGHT).contains(&seconds).then_some(seconds as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_steady_rate_is_found_and_an_emptying_journal_is_never_full() {
        let (rate, mut sampler) = (FillRate::default(), Sampler::default());
        assert_eq!(rate.seconds_until(1000), None);
        for second in 0..120 {
            sampler.sample(&rate, second * SECOND, second * 500);
        }
        assert_eq!(rate.seconds_until(50_000), Some(100));
        assert_eq!(rate.seconds_until(0), Some(0));
        for second in 120..240 {
            sampler.sample(&rate, second * SECOND, 60_000 - (second - 120) * 500);
        }
        assert_eq!(rate.seconds_until(50_000), None);
    }

    #[test]
    fn a_burst_alone_fades() {
        let (rate, mut sampler) = (FillRate::default(), Sampler::default());
        sampler.sample(&rate, 0, 0);
        sampler.sample(&rate, SECOND, 1_000_000);
        let soon = rate.seconds_until(10_000_000).expect("filling");
        for second in 2..60 {
            sampler.sample(&rate, second * SECOND, 1_000_000);
        }
        let later = rate.seconds_until(10_000_000).unwrap_or(u64::MAX);
        assert!(later > 20 * soon, "{soon} {later}");
    }
}
