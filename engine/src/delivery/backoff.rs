//! Pauses between rounds of connection attempts (protocol.md section 13.2, design.md section 7:
//! equal jitter, never below the base).

use std::time::Duration;

/// Doubling pauses with jitter.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    initial: u64,
    max: u64,
    round: u32,
}

impl Backoff {
    pub(crate) fn new(initial: Duration, max: Duration) -> Self {
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self {
            initial: nanos(initial),
            max: nanos(max).max(nanos(initial)),
            round: 0,
        }
    }

    /// The pause after one more failed round, in nanoseconds: uniformly from `[base, 2*base)`
    /// with `base = min(initial * 2^(n-1), max)`.
    pub(crate) fn next(&mut self, random: u64) -> u64 {
        let base = self
            .initial
            .saturating_mul(1 << self.round.min(20))
            .min(self.max);
        self.round = self.round.saturating_add(1);
        base.saturating_add(random % base)
    }

    /// The way is clear again.
    pub(crate) fn reset(&mut self) {
        self.round = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum_and_start_over() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(500));
        let millis: Vec<u64> = (0..5).map(|_| backoff.next(0) / 1_000_000).collect();
        assert_eq!(millis, [100, 200, 400, 500, 500]);
        backoff.reset();
        assert_eq!(
            backoff.next(u64::MAX) / 1_000_000,
            100 + u64::MAX % 100_000_000 / 1_000_000
        );
    }
}
