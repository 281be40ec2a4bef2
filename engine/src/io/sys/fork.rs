//! What a forked child must not have of its parent, and how a handle knows that it is in one.
//!
//! A child inherits descriptors and memory, but none of the threads. The open lock of a slot would
//! keep the slot taken for as long as the child lives, and so would the shard's ring, in which the
//! lock is registered; a connection would look alive to its server. So descriptors stand in a table
//! ([`Registered`]), and a `pthread_atfork` handler closes all of them in the child. It does nothing
//! else that could wait: the thread that held some lock is not there to release it. The handler also
//! bumps the generation, by which every handle finds out ([`Home`]) before it touches memory that
//! is not mapped in the child, a lock that nobody will open, or a descriptor that is somebody
//! else's by now.
//!
//! `fork` of libc runs such handlers; the bare system call and `vfork` do not.

use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::error::Error;

/// How often this process is the child of one that had handles.
static GENERATION: AtomicU32 = AtomicU32::new(0);
static TABLE: Block = Block::new();
/// Places of a block; there are as many blocks as were ever needed at once.
const PLACES: usize = 128;
const FREE: RawFd = -1;
const FORKED: Error = Error::Misuse(
    "a handle of the parent in a forked child, which has neither its threads nor its rings: \
     connect an engine of the child's own (with another sender_id while the parent runs), or leave \
     publishing to the parent. Dropping the handle here is fine and does nothing",
);

/// The process that something belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home(u32);

impl Home {
    /// This process. From now on its children are told apart.
    pub(crate) fn here() -> Self {
        watch();
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether this is the process, and no child of it: a load and a comparison.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        GENERATION.load(Ordering::Relaxed) == self.0
    }

    /// The error of a handle that is used in a child.
    #[inline]
    pub(crate) fn check(self) -> Result<(), Error> {
        if self.is_here() { Ok(()) } else { Err(FORKED) }
    }
}

/// A part of the table. Blocks are never freed.
struct Block {
    places: [AtomicI32; PLACES],
    next: AtomicPtr<Block>,
}

impl Block {
    const fn new() -> Self {
        Self {
            places: [const { AtomicI32::new(FREE) }; PLACES],
            next: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn next(&self) -> Option<&'static Self> {
        // SAFETY: null, or a block that `extend` leaked after it was complete.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// The next block, made if there is none. No lock: the thread that holds one may be missing.
    fn extend(&self) -> &'static Self {
        let new = Box::into_raw(Box::new(Self::new()));
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let null = std::ptr::null_mut();
        let known = match self.next.compare_exchange(null, new, success, failure) {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: made above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        // SAFETY: not null, complete, and never freed once it is linked.
        unsafe { &*known }
    }
}

/// A descriptor that children close. To be dropped before its descriptor is closed.
#[derive(Debug)]
pub(crate) struct Registered {
    place: &'static AtomicI32,
    home: Home,
}

impl Registered {
    /// Notes a descriptor.
    pub(crate) fn new(fd: RawFd) -> Self {
        let home = Home::here();
        let mut block = &TABLE;
        loop {
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            for place in &block.places {
                let taken = place.compare_exchange(FREE, fd, success, failure);
                if taken.is_ok() {
                    return Self { place, home };
                }
            }
            block = block.next().unwrap_or_else(|| block.extend());
        }
    }

    /// Whether this is the process that has the descriptor: in a child the handler closed it, and
    /// its number may mean another file.
    pub(crate) fn is_here(&self) -> bool {
        self.home.is_here()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.is_here() {
            self.place.store(FREE, Ordering::Release);
        }
    }
}

fn watch() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the handler is async-signal-safe, as a child of a process with threads needs
        // it, and part of this program for as long as it runs.
        let result = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // It fails for want of memory only; handles in children are then not told apart.
        debug_assert_eq!(result, 0);
    });
}

/// Runs in the child, on the only thread that it has, before `fork` returns there.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let mut block = Some(&TABLE);
    while let Some(known) = block {
        for place in &known.places {
            let fd = place.swap(FREE, Ordering::Relaxed);
            if fd != FREE {
                // SAFETY: no pointers; the descriptor was the engine's, whose handles do not use
                // it here any more.
                unsafe { libc::close(fd) };
            }
        }
        block = known.next();
    }
}

/// Forks: `None` in the child, its process id in the parent. For tests of what a child may do.
#[cfg(any(test, feature = "internals"))]
#[cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, reason = "public through `internals`")
)]
pub fn fork() -> std::io::Result<Option<u32>> {
    // SAFETY: the caller's child keeps to what a child of a process with threads may do.
    let pid = super::check(unsafe { libc::fork() })?;
    Ok(u32::try_from(pid).ok().filter(|pid| *pid > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_there_are_always_enough() {
        let many: Vec<_> = (0..3 * PLACES)
            .map(|n| Registered::new(1_000_000 + RawFd::try_from(n).unwrap()))
            .collect();
        let mut places: Vec<_> = many.iter().map(|it| it.place.as_ptr() as usize).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 3 * PLACES, "one each");
        drop(many);
        let again = Registered::new(2_000_000);
        assert!(places.contains(&(again.place.as_ptr() as usize)));
    }
}
