//! The producer that waits for room in its ring: there is one at most.
//!
//! It names the position up to which the shard must have given room back before it is woken. While
//! less is free the shard makes no system call, however many entries it gives back: a producer that
//! is faster than its shard is woken once for many batches, not once for each.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use crate::io::sys::{futex_wait, futex_wake};

/// So long it sleeps for much room; from then on for what it needs.
const GREEDY: Duration = Duration::from_millis(5);
/// The longest sleep: makes a lost wake-up a delay instead of a hang.
const SLEEP_MAX: Duration = Duration::from_millis(100);
const NOBODY: u64 = u64::MAX;

/// How far the shard must have given room back: positions of the ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// For what the producer has at hand.
    pub(crate) need: u64,
    /// For so much that waking is worth its price; at least `need`.
    pub(crate) much: u64,
}

impl Wanted {
    /// What the producer waits for when it has waited for so long, and for how long at most.
    fn after(self, spent: Duration) -> (u64, Duration) {
        match GREEDY.checked_sub(spent) {
            Some(left) if !left.is_zero() => (self.much, left),
            _ => (self.need, SLEEP_MAX),
        }
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waited {
    /// What was waited for holds.
    pub(crate) reached: bool,
    /// Times the thread slept.
    pub(crate) sleeps: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Room {
    /// The position that the sleeper waits for.
    wanted: AtomicU64,
    /// Bumped at every wake-up.
    event: AtomicU32,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            wanted: AtomicU64::new(NOBODY),
            event: AtomicU32::new(0),
        }
    }
}

impl Room {
    /// The shard has given back everything below `released`, stored before. `true` if that woke the
    /// producer.
    #[inline]
    pub(super) fn freed(&self, released: u64) -> bool {
        fence(Ordering::SeqCst);
        let enough = self.wanted.load(Ordering::Relaxed) <= released;
        if enough {
            self.wake();
        }
        enough
    }

    /// Ends the sleep, whatever is free: the producer looks why.
    #[cold]
    pub(super) fn wake(&self) {
        // Until it sleeps again nobody does.
        self.wanted.store(NOBODY, Ordering::Relaxed);
        self.event.fetch_add(1, Ordering::AcqRel);
        futex_wake(&self.event);
    }

    /// Waits until `done`, which follows from [`Wanted::need`], holds or `limit` has passed. Without
    /// spinning: a full ring is emptied in pieces that take longer than a wake-up, and the core may
    /// be what the shard or the server waits for.
    pub(super) fn wait(
        &self,
        wanted: Wanted,
        limit: Duration,
        mut done: impl FnMut() -> bool,
    ) -> Waited {
        let mut sleeps = 0;
        let start = Instant::now();
        let reached = loop {
            let seen = self.event.load(Ordering::Acquire);
            let spent = start.elapsed();
            let (position, longest) = wanted.after(spent);
            self.wanted.store(position, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if done() {
                break true;
            }
            let Some(left) = limit.checked_sub(spent) else {
                break false;
            };
            sleeps += 1;
            futex_wait(&self.event, seen, left.min(longest));
        };
        self.wanted.store(NOBODY, Ordering::Relaxed);
        Waited { reached, sleeps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: Duration = Duration::from_mins(1);

    #[test]
    fn the_shard_wakes_a_sleeper_only_when_what_it_waits_for_is_free() {
        let (room, released) = (Room::default(), AtomicU64::new(0));
        let event = || room.event.load(Ordering::Acquire);
        let wanted = Wanted {
            need: 1_000,
            much: 1_000,
        };
        std::thread::scope(|scope| {
            let producer = scope
                .spawn(|| room.wait(wanted, ENOUGH, || released.load(Ordering::Acquire) >= 1_000));
            while room.wanted.load(Ordering::Acquire) == NOBODY {
                std::thread::yield_now();
            }
            for position in [0, 1, 500, 999] {
                released.store(position, Ordering::Release);
                assert!(!room.freed(position), "{position}");
            }
            assert_eq!(event(), 0, "no wake-up so far");
            // In this order here: a producer that saw it before would not have to be woken.
            assert!(room.freed(1_000));
            released.store(1_000, Ordering::Release);
            assert_eq!(event(), 1);
            assert!(producer.join().unwrap().reached);
        });
        assert!(!room.freed(5_000), "nobody sleeps any more");
        assert_eq!(event(), 1);
    }

    #[test]
    fn much_is_waited_for_only_for_a_while() {
        let wanted = Wanted { need: 7, much: 900 };
        let third = GREEDY / 3;
        assert_eq!(wanted.after(Duration::ZERO), (900, GREEDY));
        assert_eq!(wanted.after(third), (900, GREEDY.saturating_sub(third)));
        assert_eq!(wanted.after(GREEDY), (7, SLEEP_MAX));
        assert_eq!(wanted.after(GREEDY * 9), (7, SLEEP_MAX));
    }

    #[test]
    fn a_wait_ends_with_its_limit_or_at_once_where_there_is_room() {
        let (room, wanted) = (Room::default(), Wanted { need: 1, much: 1 });
        let outcome = room.wait(wanted, Duration::ZERO, || false);
        assert!(!outcome.reached, "{outcome:?}");
        let outcome = room.wait(wanted, Duration::from_millis(20), || false);
        assert!(!outcome.reached && outcome.sleeps > 0, "{outcome:?}");
        let outcome = room.wait(wanted, ENOUGH, || true);
        assert_eq!((outcome.reached, outcome.sleeps), (true, 0));
        assert_eq!(room.wanted.load(Ordering::Relaxed), NOBODY);
    }

    #[test]
    fn the_end_wakes_whoever_sleeps() {
        let (room, over) = (Room::default(), AtomicU64::new(0));
        let wanted = Wanted {
            need: 1 << 40,
            much: 1 << 40,
        };
        std::thread::scope(|scope| {
            let producer =
                scope.spawn(|| room.wait(wanted, ENOUGH, || over.load(Ordering::Acquire) == 1));
            while room.wanted.load(Ordering::Acquire) == NOBODY {
                std::thread::yield_now();
            }
            over.store(1, Ordering::Release);
            room.wake();
            assert!(producer.join().unwrap().reached);
        });
    }
}
