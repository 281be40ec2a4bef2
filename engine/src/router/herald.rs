//! The thread that wakes tasks which await receipts.
//!
//! A waker is the code of somebody's executor, and thousands of them may be due at once. The shard
//! runs none of it: it calls the herald, at the price of one futex wake a commit, and only if
//! somebody's stage was reached. The thread starts with the first task that waits and ends with
//! the engine.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::gate::lock;
use super::lane::Lane;
use crate::io::sys::{block_signals, futex_wait, futex_wake};

/// Makes a lost call a delay instead of a hang.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What lanes, shard and the thread share.
#[derive(Debug, Default)]
pub(crate) struct Herald {
    /// Bumped at every call.
    calls: AtomicU32,
    asleep: AtomicBool,
    over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Lanes that tasks wait on.
    lanes: Vec<Arc<Lane>>,
    thread: Option<JoinHandle<()>>,
}

impl Herald {
    /// A task waits on `lane`. `false` if there is no thread to wake it.
    pub(crate) fn enlist(self: &Arc<Self>, lane: &Arc<Lane>) -> bool {
        let mut state = lock(&self.state);
        if self.over.load(Ordering::Acquire) {
            return false;
        }
        if state.thread.is_none() {
            let herald = Arc::clone(self);
            let thread = std::thread::Builder::new().name("forebay-hrd".to_owned());
            state.thread = thread.spawn(move || herald.run()).ok();
        }
        if !state.lanes.iter().any(|known| Arc::ptr_eq(known, lane)) {
            state.lanes.push(Arc::clone(lane));
        }
        state.thread.is_some()
    }

    /// Somebody's stage was reached, or everybody is to look again.
    #[inline]
    pub(crate) fn call(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            futex_wake(&self.calls);
        }
    }

    /// Ends the thread after a last round; the engine is over.
    pub(crate) fn stop(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.call();
        let thread = lock(&self.state).thread.take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // It runs wakers only; a panic of one was told by the panic hook.
            let _ = thread.join();
        }
    }

    fn run(&self) {
        block_signals();
        loop {
            let seen = self.calls.load(Ordering::SeqCst);
            let over = self.over.load(Ordering::SeqCst);
            let lanes = lock(&self.state).lanes.clone();
            for lane in &lanes {
                lane.run_wakers();
            }
            let mut state = lock(&self.state);
            state.lanes.retain(|lane| !over && lane.has_wakers());
            drop(state);
            if over {
                return;
            }
            self.asleep.store(true, Ordering::SeqCst);
            if self.calls.load(Ordering::SeqCst) == seen {
                futex_wait(&self.calls, seen, LOOK_EVERY);
            }
            self.asleep.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::task::{Wake, Waker};

    use super::super::lane::{Stage, lane};
    use super::super::region::Region;
    use super::*;

    struct Tell(Mutex<Sender<Option<String>>>);

    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            let name = std::thread::current().name().map(str::to_owned);
            lock(&self.0).send(name).expect("the test listens");
        }
    }

    #[test]
    fn the_herald_wakes_who_is_due_and_everybody_when_it_stops() {
        let region = Region::private(64).expect("memory for a ring");
        let (_writer, _end, lane) = lane(region, None, &Arc::default());
        let (sender, woken) = channel();
        let waker = Waker::from(Arc::new(Tell(Mutex::new(sender))));
        lane.watch(Stage::Written, 1, 0, &waker);
        lane.watch(Stage::Written, 2, 0, &waker);
        lane.watch(Stage::Acked, 1, 0, &waker);
        lane.advance(Stage::Written, 1);
        lane.notify(Stage::Written);
        let patience = Duration::from_secs(30);
        let by = woken.recv_timeout(patience).expect("one is due");
        assert_eq!(by.as_deref(), Some("forebay-hrd"));
        let calls = lane.herald().calls.load(Ordering::SeqCst);
        lane.advance(Stage::Stable, 1);
        lane.notify(Stage::Stable);
        assert_eq!(
            lane.herald().calls.load(Ordering::SeqCst),
            calls,
            "nobody waits for that"
        );
        assert!(woken.try_recv().is_err());
        lane.wake_everybody();
        lane.herald().stop();
        assert_eq!(woken.try_iter().count(), 2);
        assert!(lock(&lane.herald().state).lanes.is_empty());
    }
}
