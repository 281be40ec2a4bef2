//! Tasks that await receipts, ordered by what they wait for: one pass over those that are due.

use std::collections::BTreeMap;
use std::task::Waker;

/// Wakers by entry count and ticket.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    waiting: BTreeMap<(u64, u64), Waker>,
    tickets: u64,
}

impl Wakers {
    /// Wakes `waker` when `count` entries are reached; replaces the one that `ticket` registered
    /// before. Returns the ticket, a new one for 0.
    pub(crate) fn insert(&mut self, count: u64, ticket: u64, waker: &Waker) -> u64 {
        let ticket = if ticket == 0 {
            self.tickets += 1;
            self.tickets
        } else {
            ticket
        };
        self.waiting
            .entry((count, ticket))
            .and_modify(|known| known.clone_from(waker))
            .or_insert_with(|| waker.clone());
        ticket
    }

    /// Forgets what `ticket` registered.
    pub(crate) fn remove(&mut self, count: u64, ticket: u64) {
        self.waiting.remove(&(count, ticket));
    }

    /// Lowest count that somebody waits for.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(key, _)| key.0)
    }

    /// Takes out everybody who waits for at most `count` entries.
    pub(crate) fn take_due(&mut self, count: u64) -> BTreeMap<(u64, u64), Waker> {
        let later = self.waiting.split_off(&(count.saturating_add(1), 0));
        std::mem::replace(&mut self.waiting, later)
    }

    /// Takes out everybody.
    pub(crate) fn take_all(&mut self) -> BTreeMap<(u64, u64), Waker> {
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_who_is_due_is_woken_and_only_once() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut wakers = Wakers::default();
        let tickets: Vec<u64> = (1..=10)
            .map(|entry| wakers.insert(entry, 0, &waker))
            .collect();
        assert_eq!(wakers.insert(3, tickets[2], &waker), tickets[2]);
        wakers.remove(4, tickets[3]);
        assert_eq!(wakers.lowest(), Some(1));
        assert_eq!(wakers.take_due(0).len(), 0);
        assert_eq!(wakers.take_due(5).len(), 4, "1, 2, 3 and 5");
        assert_eq!(wakers.take_due(5).len(), 0);
        assert_eq!(wakers.lowest(), Some(6));
        assert_eq!(wakers.take_all().len(), 5);
        assert_eq!(wakers.lowest(), None);
    }
}
