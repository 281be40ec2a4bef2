//! The poison-frame detector (protocol.md section 13.1): a frame that the server keeps refusing
//! ends the sender instead of being retried for ever.

/// Strikes since the last progress.
#[derive(Debug)]
pub(crate) struct Poison {
    limit: u32,
    window: u64,
    strikes: u32,
    first_at: u64,
}

impl Poison {
    /// Escalates at `limit` strikes that span at least `window` nanoseconds.
    pub(crate) fn new(limit: u32, window: u64) -> Self {
        Self {
            limit,
            window,
            strikes: 0,
            first_at: 0,
        }
    }

    /// The server refused what we sent. `true` when both limits are reached.
    pub(crate) fn strike(&mut self, now: u64) -> bool {
        if self.strikes == 0 {
            self.first_at = now;
        }
        self.strikes = self.strikes.saturating_add(1);
        self.strikes >= self.limit && now - self.first_at >= self.window
    }

    /// Acknowledgements advanced.
    pub(crate) fn clear(&mut self) {
        self.strikes = 0;
    }

    /// Strikes so far.
    pub(crate) fn strikes(&self) -> u32 {
        self.strikes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_must_be_reached_and_progress_clears() {
        let mut poison = Poison::new(3, 100);
        assert!(!poison.strike(0));
        assert!(!poison.strike(10));
        assert!(!poison.strike(50), "the window has not passed");
        assert!(poison.strike(100));
        poison.clear();
        assert!(!poison.strike(200));
        assert_eq!(poison.strikes(), 1);
    }
}
