//! One life of a slot, from its hand-over to its release: the steward's licence to touch its files.
//!
//! A request may outlive the shard that made it: the steward was slow, or dead, when the engine
//! closed. By then the slot may belong to somebody else, and names of segments may stand for new
//! files. So a request carries the incarnation that it was made in. Whoever changes files enters it
//! first; releasing the slot closes it, waits until nobody is inside, and only then unlocks. Who
//! is still inside when the patience ends keeps the lock: the descriptor closes with the last clone
//! of the incarnation.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::io::{File, Fs};
use crate::router::gate::lock;

/// How long [`Incarnation::release`] waits for a file call under way.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// See the module documentation. Clones are the same incarnation.
#[derive(Debug, Clone)]
pub(crate) struct Incarnation(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    left: Condvar,
    /// The slot's lock file.
    lock: File,
    /// The next life of the slot under the same lock.
    successor: Mutex<Option<Incarnation>>,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    inside: usize,
}

/// Somebody changes files of the slot while this lives.
#[derive(Debug)]
pub(crate) struct Entered<'a>(&'a Incarnation);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        lock(&self.0.0.state).inside -= 1;
        self.0.0.left.notify_all();
    }
}

impl Incarnation {
    /// Begins with a slot whose `lock` is held.
    pub(crate) fn new(lock: File) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::default(),
            left: Condvar::new(),
            lock,
            successor: Mutex::default(),
        }))
    }

    /// The slot's lock file.
    pub(crate) fn lock_file(&self) -> &File {
        &self.0.lock
    }

    /// Permission to change files of the slot; `None` when it is released.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let mut state = lock(&self.0.state);
        if state.is_over {
            return None;
        }
        state.inside += 1;
        Some(Entered(self))
    }

    /// Lets nobody in any more, and waits until nobody is inside.
    ///
    /// # Errors
    /// `TimedOut` when a file call does not return: the slot stays locked until it does.
    pub(crate) fn close(&self) -> io::Result<()> {
        self.close_within(RELEASE_LIMIT)
    }

    /// Ends this life of the slot and begins the next, under the same lock: what was asked of the
    /// steward before is void.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub(crate) fn succeed(&self) -> io::Result<Self> {
        self.close()?;
        let next = Self::new(self.0.lock.clone());
        *lock(&self.0.successor) = Some(next.clone());
        Ok(next)
    }

    /// Closes it and those that succeeded it, and unlocks the slot. Doing it again is fine.
    ///
    /// # Errors
    /// As [`close`](Self::close), or what unlocking says.
    pub(crate) fn release(&self, fs: &dyn Fs) -> io::Result<()> {
        let mut last = self.clone();
        last.close()?;
        loop {
            let Some(next) = lock(&last.0.successor).clone() else {
                return fs.unlock(&last.0.lock);
            };
            next.close()?;
            last = next;
        }
    }

    fn close_within(&self, limit: Duration) -> io::Result<()> {
        let mut state = lock(&self.0.state);
        state.is_over = true;
        let waited = self
            .0
            .left
            .wait_timeout_while(state, limit, |state| state.inside > 0);
        let (state, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        if state.inside > 0 {
            let reason = "a file call of the steward does not return: the slot stays locked until \
                          it does or the process ends";
            return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::OpenMode;
    use crate::io::sys::RealFs;

    fn locked(dir: &std::path::Path) -> File {
        let file = RealFs.open(&dir.join(".lock"), OpenMode::Create).unwrap();
        assert!(RealFs.try_lock(&file).unwrap());
        file
    }

    fn is_free(dir: &std::path::Path) -> bool {
        let file = RealFs.open(&dir.join(".lock"), OpenMode::Create).unwrap();
        RealFs.try_lock(&file).unwrap()
    }

    #[test]
    fn nobody_enters_a_released_slot() {
        let dir = tempfile::tempdir().unwrap();
        let incarnation = Incarnation::new(locked(dir.path()));
        drop(incarnation.enter().expect("current"));
        assert!(!is_free(dir.path()));
        incarnation.release(&RealFs).unwrap();
        assert!(incarnation.enter().is_none());
        assert!(is_free(dir.path()));
        incarnation.release(&RealFs).unwrap();
    }

    #[test]
    fn a_release_ends_the_last_life_whoever_asks_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = Incarnation::new(locked(dir.path()));
        let second = first.succeed().unwrap();
        let third = second.succeed().unwrap();
        assert!(first.enter().is_none() && second.enter().is_none());
        drop(third.enter().expect("current"));
        assert!(!is_free(dir.path()));
        first.release(&RealFs).unwrap();
        assert!(third.enter().is_none());
        assert!(is_free(dir.path()));
    }

    #[test]
    fn a_slot_stays_locked_while_a_call_hangs_and_is_free_when_its_maker_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let incarnation = Incarnation::new(locked(dir.path()));
        let hanging = incarnation.clone();
        let entered = hanging.enter().expect("current");
        let error = incarnation
            .close_within(Duration::from_millis(1))
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(incarnation);
        assert!(!is_free(dir.path()), "still inside");
        drop(entered);
        drop(hanging);
        assert!(is_free(dir.path()), "the descriptor closed");
    }
}
