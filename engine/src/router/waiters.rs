//! Who waits on a lane: threads asleep on a futex and wakers of futures, apart by stage.
//! Wakers are run by the herald.
//!
//! The shard reports a stage once per commit, so a waiter is woken at most once per commit, and by
//! no stage but its own: thousands of them cost one look at two words while nobody's turn has come.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::gate::lock;
use super::wakers::Wakers;
use crate::io::sys::{futex_wait, futex_wake};

/// Before a thread sleeps it looks for this long whether its wait is over.
const SPIN: Duration = Duration::from_micros(20);
/// The longest sleep: makes a lost wake-up a delay instead of a hang.
const SLEEP_MAX: Duration = Duration::from_millis(100);
const NOBODY: u64 = u64::MAX;

/// Those who wait for one stage of one lane.
#[derive(Debug)]
pub(super) struct Waiters {
    /// Bumped at every progress while somebody sleeps.
    event: AtomicU32,
    sleepers: AtomicU32,
    /// Lowest count that a waker waits for.
    lowest: AtomicU64,
    /// All wakers are to run.
    ended: AtomicBool,
    wakers: Mutex<Wakers>,
}

impl Default for Waiters {
    fn default() -> Self {
        Self {
            event: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            lowest: AtomicU64::new(NOBODY),
            ended: AtomicBool::new(false),
            wakers: Mutex::default(),
        }
    }
}

impl Waiters {
    /// The stage's count is `reached` now, stored before: wakes the threads that sleep, which look
    /// for themselves. `true` if it is some waker's count: see [`run_wakers`](Self::run_wakers).
    #[inline]
    pub(super) fn notify(&self, reached: u64) -> bool {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.event.fetch_add(1, Ordering::Release);
            futex_wake(&self.event);
        }
        self.lowest.load(Ordering::Relaxed) <= reached
    }

    /// Runs the wakers whose count is reached, or all of them after the end.
    pub(super) fn run_wakers(&self, reached: u64) {
        let ready = {
            let mut wakers = lock(&self.wakers);
            let ready = if self.ended.swap(false, Ordering::AcqRel) {
                wakers.take_all()
            } else {
                wakers.take_due(reached)
            };
            self.note_lowest(&wakers);
            ready
        };
        for waker in ready.into_values() {
            // One executor's panic, which the panic hook has told, is not the others' end.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }

    fn note_lowest(&self, wakers: &Wakers) {
        let lowest = wakers.lowest().unwrap_or(NOBODY);
        self.lowest.store(lowest, Ordering::Release);
    }

    /// Whether there are wakers.
    pub(super) fn has_wakers(&self) -> bool {
        self.lowest.load(Ordering::Acquire) != NOBODY
    }

    /// Ends every wait: the threads look at the gate's state, the next
    /// [`run_wakers`](Self::run_wakers) runs all.
    pub(super) fn wake_everybody(&self) {
        self.event.fetch_add(1, Ordering::AcqRel);
        futex_wake(&self.event);
        self.ended.store(true, Ordering::Release);
    }

    /// Waits until `done` holds or `limit` has passed; spins first, then sleeps.
    pub(super) fn wait(&self, limit: Duration, mut done: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        while start.elapsed() < SPIN.min(limit) {
            if done() {
                return true;
            }
            std::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let reached = loop {
            let seen = self.event.load(Ordering::Acquire);
            fence(Ordering::SeqCst);
            if done() {
                break true;
            }
            let Some(left) = limit.checked_sub(start.elapsed()) else {
                break false;
            };
            futex_wait(&self.event, seen, left.min(SLEEP_MAX));
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        reached
    }

    /// Registers `waker` for a count of `count`, instead of what `ticket` registered before;
    /// returns the ticket (0 asks for a new one), and whether it is the only one. The caller looks
    /// again afterwards.
    pub(super) fn watch(&self, count: u64, ticket: u64, waker: &Waker) -> (u64, bool) {
        let mut wakers = lock(&self.wakers);
        let first = wakers.lowest().is_none();
        let ticket = wakers.insert(count, ticket, waker);
        self.note_lowest(&wakers);
        (ticket, first)
    }

    /// Forgets what `ticket` registered.
    pub(super) fn unwatch(&self, count: u64, ticket: u64) {
        let mut wakers = lock(&self.wakers);
        wakers.remove(count, ticket);
        self.note_lowest(&wakers);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What a lane does where there is no herald.
    fn notify(waiters: &Waiters, reached: u64) {
        if waiters.notify(reached) {
            waiters.run_wakers(reached);
        }
    }

    #[test]
    fn a_waker_is_woken_once_and_not_before_its_count_is_reached() {
        let waiters = Waiters::default();
        let counts: Vec<_> = (0..4_000).map(|_| Arc::new(Counting::default())).collect();
        for (index, counting) in counts.iter().enumerate() {
            let waker = Waker::from(Arc::clone(counting));
            // Polled again meanwhile: still one wake-up.
            let ticket = waiters.watch(index as u64 + 1, 0, &waker).0;
            assert_eq!(
                waiters.watch(index as u64 + 1, ticket, &waker),
                (ticket, false)
            );
        }
        let woken = || -> Vec<usize> {
            let all = counts.iter().map(|c| c.0.load(Ordering::Relaxed));
            all.collect()
        };
        notify(&waiters, 0);
        assert_eq!(woken(), vec![0; 4_000]);
        notify(&waiters, 1_500);
        assert_eq!(woken(), [vec![1; 1_500], vec![0; 2_500]].concat());
        notify(&waiters, 4_000);
        notify(&waiters, 4_000);
        assert_eq!(woken(), vec![1; 4_000]);
    }

    #[test]
    fn the_end_wakes_everybody_whatever_was_reached() {
        let waiters = Waiters::default();
        let counting = Arc::new(Counting::default());
        waiters.watch(7, 0, &Waker::from(Arc::clone(&counting)));
        waiters.wake_everybody();
        waiters.run_wakers(0);
        notify(&waiters, 7);
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
    }
}
