//! Tasks that await receipts, ordered by what they wait for: one pass over those that are due.

use std::collections::BTreeMap;
use std::task::Waker;

use super::lane::Stage;

/// Wakers by stage, then by entry count and ticket.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    stages: [BTreeMap<(u64, u64), Waker>; 5],
    tickets: u64,
}

fn index(stage: Stage) -> usize {
    match stage {
        Stage::Accepted => 0,
        Stage::Written => 1,
        Stage::Stable => 2,
        Stage::Acked => 3,
        Stage::Durable => 4,
    }
}

impl Wakers {
    /// Wakes `waker` when `count` entries have reached `stage`; replaces the one that `ticket`
    /// registered before. Returns the ticket, a new one for 0.
    pub(crate) fn insert(&mut self, stage: Stage, count: u64, ticket: u64, waker: &Waker) -> u64 {
        let ticket = if ticket == 0 {
            self.tickets += 1;
            self.tickets
        } else {
            ticket
        };
        let waiting = &mut self.stages[index(stage)];
        waiting
            .entry((count, ticket))
            .and_modify(|known| known.clone_from(waker))
            .or_insert_with(|| waker.clone());
        ticket
    }

    /// Forgets what `ticket` registered.
    pub(crate) fn remove(&mut self, stage: Stage, count: u64, ticket: u64) {
        self.stages[index(stage)].remove(&(count, ticket));
    }

    /// Takes out everybody who waits for at most `count` entries at `stage`.
    pub(crate) fn take_due(&mut self, stage: Stage, count: u64, due: &mut Vec<Waker>) {
        let waiting = &mut self.stages[index(stage)];
        if waiting
            .first_key_value()
            .is_none_or(|(key, _)| key.0 > count)
        {
            return;
        }
        let later = waiting.split_off(&(count.saturating_add(1), 0));
        due.extend(std::mem::replace(waiting, later).into_values());
    }

    /// The lowest count that somebody waits for at `stage`.
    pub(crate) fn next(&self, stage: Stage) -> Option<u64> {
        let first = self.stages[index(stage)].first_key_value();
        first.map(|((count, _), _)| *count)
    }

    /// Takes out everybody.
    pub(crate) fn take_all(&mut self) -> Vec<Waker> {
        let stages = std::mem::take(&mut self.stages);
        stages.into_iter().flat_map(BTreeMap::into_values).collect()
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.stages.iter().all(BTreeMap::is_empty)
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
            .map(|entry| wakers.insert(Stage::Written, entry, 0, &waker))
            .collect();
        assert_eq!(
            wakers.insert(Stage::Written, 3, tickets[2], &waker),
            tickets[2]
        );
        wakers.remove(Stage::Written, 4, tickets[3]);
        let mut due = Vec::new();
        wakers.take_due(Stage::Acked, 10, &mut due);
        assert!(due.is_empty());
        wakers.take_due(Stage::Written, 5, &mut due);
        assert_eq!(due.len(), 4, "1, 2, 3 and 5");
        wakers.take_due(Stage::Written, 5, &mut due);
        assert_eq!(due.len(), 4);
        assert_eq!(wakers.next(Stage::Written), Some(6));
        assert_eq!(wakers.next(Stage::Acked), None);
        assert_eq!(wakers.take_all().len(), 5);
        assert!(wakers.is_empty());
    }
}
