//! The commit window: how long frames gather before a commit takes them.
//!
//! Closed (the default) a commit begins as soon as the one before it has ended, and what gathers
//! meanwhile goes with it. Open, it begins when the oldest frame that no commit holds has waited
//! for `commit_window_micros`, or when `commit_window_bytes` have gathered: fewer and larger
//! fdatasyncs for producers that wait in parallel, paid with latency.

/// Bounds, and since when frames gather.
#[derive(Debug, Default)]
pub(super) struct Window {
    nanos: u64,
    bytes: u64,
    since: Option<u64>,
}

impl Window {
    /// A window of `nanos` nanoseconds (0 for none) and `bytes` bytes.
    pub(super) fn new(nanos: u64, bytes: u64) -> Self {
        Self {
            nanos,
            bytes,
            since: None,
        }
    }

    /// There are frames that no commit holds.
    pub(super) fn gather(&mut self, now: u64) {
        if self.nanos > 0 && self.since.is_none() {
            self.since = Some(now);
        }
    }

    /// Whether a commit may take the `bytes` that have gathered.
    pub(super) fn is_over(&self, now: u64, bytes: u64) -> bool {
        bytes >= self.bytes || self.deadline().is_none_or(|end| now >= end)
    }

    /// A commit took what had gathered.
    pub(super) fn taken(&mut self) {
        self.since = None;
    }

    /// When the window ends by time; `None` if nothing gathers.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.since.map(|since| since + self.nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_window_everything_goes_at_once() {
        let mut window = Window::new(0, 1 << 20);
        window.gather(5);
        assert!(window.is_over(5, 1));
        assert_eq!(window.deadline(), None);
    }

    #[test]
    fn a_window_ends_by_the_age_of_its_first_frame_or_by_bytes() {
        let mut window = Window::new(100, 4096);
        window.gather(10);
        window.gather(90);
        assert!(!window.is_over(109, 4095));
        assert!(window.is_over(110, 1), "by age");
        assert!(window.is_over(20, 4096), "by bytes");
        window.taken();
        window.gather(120);
        assert_eq!(window.deadline(), Some(220));
    }
}
