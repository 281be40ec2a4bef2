//! Which OKs are held back. All limits are counts: with a limit of 3, messages 0, 1 and 2 may be
//! acknowledged.

use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Limits {
    /// Until a moment.
    hold: Option<(u64, Instant)>,
    /// Until a later message comes, given by its number.
    skip: Option<(u64, u64)>,
    /// For good.
    stuck: Option<u64>,
}

impl Limits {
    /// The count that an OK may cover.
    pub(super) fn limit(&self) -> u64 {
        let hold = self.hold.map_or(u64::MAX, |(limit, _)| limit);
        let skip = self.skip.map_or(u64::MAX, |(limit, _)| limit);
        hold.min(skip).min(self.stuck.unwrap_or(u64::MAX))
    }

    pub(super) fn hold(&mut self, limit: u64, until: Instant) {
        let limit = self.hold.map_or(limit, |(before, _)| before.min(limit));
        self.hold = Some((limit, until));
    }

    /// Message `limit` and the next ones get no OK of their own until message `resume` comes.
    pub(super) fn skip(&mut self, limit: u64, resume: u64) {
        let limit = self.skip.map_or(limit, |(before, _)| before.min(limit));
        self.skip = Some((limit, resume));
    }

    pub(super) fn stick(&mut self, limit: u64) {
        self.stuck = Some(self.stuck.map_or(limit, |before| before.min(limit)));
    }

    /// Message `seq` came.
    pub(super) fn arrive(&mut self, seq: u64) {
        if self.skip.is_some_and(|(_, resume)| seq >= resume) {
            self.skip = None;
        }
    }

    /// When the held OKs are free.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.hold.map(|(_, until)| until)
    }

    /// Frees held OKs whose time has come; true if there were any.
    pub(super) fn release(&mut self, now: Instant) -> bool {
        self.hold.take_if(|(_, until)| *until <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_lowest_limit_counts_until_it_is_lifted() {
        let mut limits = Limits::default();
        let now = Instant::now();
        limits.hold(4, now + Duration::from_secs(1));
        limits.skip(3, 5);
        assert_eq!(limits.limit(), 3);
        limits.arrive(4);
        assert_eq!(limits.limit(), 3);
        limits.arrive(5);
        assert_eq!(limits.limit(), 4);
        assert!(!limits.release(now));
        assert!(limits.release(now + Duration::from_secs(1)));
        assert_eq!(limits.limit(), u64::MAX);
    }
}
