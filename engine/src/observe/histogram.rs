//! A latency histogram of fixed layout: the shard records, anybody reads.
//!
//! Values are nanoseconds. Buckets are logarithmic with 32 linear steps per power of two, so a
//! value is known to 1/32 (3 %). Everything above 2^40 ns (18 minutes) falls into the last bucket.

use std::sync::atomic::{AtomicU64, Ordering};

const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;
const POWERS: usize = 36;
const BUCKETS: usize = STEPS * (POWERS + 1);

/// Counts per bucket, written by one thread.
#[repr(C)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram({} values)", self.snapshot().count())
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

/// Index of the bucket that holds `nanos`.
fn bucket(nanos: u64) -> usize {
    let nanos = nanos.min((1 << (STEP_BITS as usize + POWERS - 1)) - 1);
    if nanos < STEPS as u64 {
        return usize::try_from(nanos).expect("below 32");
    }
    let power = nanos.ilog2() - STEP_BITS;
    let step = usize::try_from((nanos >> power) & (STEPS as u64 - 1)).expect("below 32");
    (power as usize + 1) * STEPS + step
}

/// Lowest value of a bucket.
fn lowest(bucket: usize) -> u64 {
    let (power, step) = (bucket / STEPS, (bucket % STEPS) as u64);
    if power == 0 {
        step
    } else {
        (STEPS as u64 + step) << (power - 1)
    }
}

impl Histogram {
    /// Adds `count` values of `nanos`. One writing thread only.
    #[inline]
    pub(crate) fn record(&self, nanos: u64, count: u64) {
        let bucket = &self.buckets[bucket(nanos)];
        bucket.store(bucket.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    /// Begins to add values one after the other, most of which lie near the one before.
    pub(crate) fn burst(&self) -> Burst<'_> {
        Burst {
            histogram: self,
            lowest: 0,
            width: 0,
            count: 0,
        }
    }

    /// A copy of the counts.
    pub(crate) fn snapshot(&self) -> LatencyHistogram {
        LatencyHistogram(
            self.buckets
                .iter()
                .map(|b| b.load(Ordering::Relaxed))
                .collect(),
        )
    }
}

/// Values on their way into a histogram: those of one bucket go there together.
pub(crate) struct Burst<'a> {
    histogram: &'a Histogram,
    /// Of the bucket at hand.
    lowest: u64,
    /// Of the bucket at hand, 0 before the first value.
    width: u64,
    count: u64,
}

impl Burst<'_> {
    /// Adds a value.
    #[inline]
    pub(crate) fn add(&mut self, nanos: u64) {
        if nanos.wrapping_sub(self.lowest) >= self.width {
            self.turn_to(nanos);
        }
        self.count += 1;
    }

    #[inline(never)]
    fn turn_to(&mut self, nanos: u64) {
        self.put();
        let bucket = bucket(nanos);
        self.lowest = lowest(bucket);
        self.width = lowest(bucket + 1) - self.lowest;
    }

    fn put(&mut self) {
        if self.count > 0 {
            self.histogram.record(self.lowest, self.count);
            self.count = 0;
        }
    }
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        self.put();
    }
}

/// A copy of a latency histogram.
#[derive(Debug, Clone)]
pub struct LatencyHistogram(Vec<u64>);

impl LatencyHistogram {
    /// Adds the counts of another one.
    pub(crate) fn merge(mut self, other: &Self) -> Self {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
        self
    }

    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// `(value in nanoseconds, count)` of every bucket that is not empty, ascending. The value is
    /// the middle of the bucket.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| (u64::midpoint(lowest(index), lowest(index + 1)), *count))
    }

    /// The value (nanoseconds) that a fraction `q` of the recorded values does not exceed; 0 when
    /// nothing was recorded.
    pub fn quantile(&self, q: f64) -> u64 {
        let total = self.count();
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0..=total"
        )]
        let wanted = ((total as f64 * q.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for (value, count) in self.iter() {
            seen += count;
            if seen >= wanted {
                return value;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_that_contains_it() {
        for shift in 0..40 {
            for value in [(1u64 << shift), (1 << shift) + 1, (3 << shift) >> 1] {
                let index = bucket(value);
                assert!(
                    lowest(index) <= value && value < lowest(index + 1),
                    "{value} in {index}"
                );
            }
        }
        assert_eq!(bucket(u64::MAX), bucket(1 << 41));
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn a_burst_counts_as_its_values_one_by_one() {
        let (together, apart) = (Histogram::default(), Histogram::default());
        let near = (0..500_u64).map(|n| 100_000 + n * n * 7);
        let far = [0, 1, 31, 32, 33, 1 << 39, 1 << 40, u64::MAX, u64::MAX, 0];
        let mut burst = together.burst();
        for nanos in near.chain(far) {
            burst.add(nanos);
            apart.record(nanos, 1);
        }
        drop(burst);
        assert_eq!(together.snapshot().0, apart.snapshot().0);
    }

    #[test]
    fn quantiles_follow_the_counts() {
        let histogram = Histogram::default();
        histogram.record(1000, 99);
        histogram.record(1_000_000, 1);
        let seen = histogram.snapshot();
        assert_eq!(seen.count(), 100);
        assert!((970..=1030).contains(&seen.quantile(0.99)));
        assert!((970_000..=1_030_000).contains(&seen.quantile(1.0)));
    }
}
