//! Repeats folded: within a window the first event of a kind is logged as it comes, the others are
//! counted and appear as one line when the window ends.

use std::collections::HashMap;

/// Length of a window in nanoseconds.
pub(crate) const WINDOW: u64 = 10_000_000_000;
/// Kinds told apart; what is beyond is logged as it comes.
const KINDS_MAX: usize = 256;

/// One kind in its window.
#[derive(Debug)]
struct Fold<E> {
    since: u64,
    repeats: u64,
    /// The latest of them.
    last: Option<E>,
}

/// What happened lately, by kind. The clock is the caller's.
#[derive(Debug)]
pub(crate) struct Folder<E> {
    kinds: HashMap<String, Fold<E>>,
}

impl<E> Default for Folder<E> {
    fn default() -> Self {
        Self {
            kinds: HashMap::new(),
        }
    }
}

impl<E> Folder<E> {
    /// Takes an event of `kind` at `now`; gives it back if it is to be logged at once.
    pub(crate) fn offer(&mut self, kind: String, event: E, now: u64) -> Option<E> {
        if let Some(fold) = self.kinds.get_mut(&kind) {
            fold.repeats += 1;
            fold.last = Some(event);
            return None;
        }
        if self.kinds.len() < KINDS_MAX {
            let fold = Fold {
                since: now,
                repeats: 0,
                last: None,
            };
            self.kinds.insert(kind, fold);
        }
        Some(event)
    }

    /// Calls `log` with the latest event and the number of repeats of each kind whose window has
    /// ended. A kind that repeats stays folded, one line a window; one that was quiet is forgotten.
    pub(crate) fn expire(&mut self, now: u64, mut log: impl FnMut(E, u64)) {
        self.kinds.retain(|_, fold| {
            if now < fold.since.saturating_add(WINDOW) {
                return true;
            }
            let Some(last) = fold.last.take() else {
                return false;
            };
            log(last, fold.repeats);
            fold.repeats = 0;
            fold.since = now;
            true
        });
    }

    /// Ends every window.
    pub(crate) fn finish(&mut self, mut log: impl FnMut(E, u64)) {
        for (_, fold) in self.kinds.drain() {
            if let Some(last) = fold.last {
                log(last, fold.repeats);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_within_a_window_become_one_line_with_their_count() {
        let mut folder = Folder::default();
        let mut lines = Vec::new();
        for n in 0..100u64 {
            let now = n * WINDOW / 100;
            assert_eq!(
                folder.offer("down".to_owned(), n, now),
                (n == 0).then_some(0)
            );
            folder.expire(now, |event, repeats| lines.push((event, repeats)));
        }
        assert_eq!(lines, []);
        assert_eq!(folder.offer("other".to_owned(), 7, WINDOW), Some(7));
        folder.expire(WINDOW, |event, repeats| lines.push((event, repeats)));
        assert_eq!(lines, [(99, 99)]);
        // It goes on: one line a window, and silence ends it.
        assert_eq!(folder.offer("down".to_owned(), 100, WINDOW + 1), None);
        folder.expire(2 * WINDOW, |event, repeats| lines.push((event, repeats)));
        assert_eq!(lines, [(99, 99), (100, 1)]);
        folder.expire(3 * WINDOW, |event, repeats| lines.push((event, repeats)));
        assert_eq!(lines.len(), 2);
        assert_eq!(
            folder.offer("down".to_owned(), 101, 3 * WINDOW + 1),
            Some(101)
        );
    }

    #[test]
    fn the_end_tells_what_was_still_folded() {
        let mut folder = Folder::default();
        for n in 0..3 {
            folder.offer("a".to_owned(), n, 0);
        }
        folder.offer("b".to_owned(), 9, 0);
        let mut lines = Vec::new();
        folder.finish(|event, repeats| lines.push((event, repeats)));
        assert_eq!(lines, [(2, 2)]);
    }

    #[test]
    fn kinds_are_bounded_and_the_rest_is_not_swallowed() {
        let mut folder = Folder::default();
        for n in 0..1000 {
            assert_eq!(folder.offer(format!("k{n}"), n, 0), Some(n));
        }
        assert_eq!(folder.kinds.len(), KINDS_MAX);
        assert_eq!(folder.offer("k999".to_owned(), 1, 0), Some(1));
    }
}
