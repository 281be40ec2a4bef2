//! A counting allocator: how often each thread asked for memory.
//!
//! Programs that measure install [`Counting`] as their global allocator; a run then tells what
//! its producers and shards asked for ([`Tally`]). Counting costs an increment on a cache line of
//! the thread's own. Without the allocator nothing is counted, and [`is_counting`] says so.

#![allow(
    unsafe_code,
    reason = "an allocator is unsafe by its trait; it passes every call on"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::cpu;

/// Threads with a count of their own; those that start later share the last one.
const SLOTS_COUNT: usize = 512;
/// A thread that has not asked for memory yet.
const NONE: usize = usize::MAX;

/// One thread's count, on a cache line of its own.
#[repr(align(64))]
struct Slot {
    tid: AtomicU32,
    count: AtomicU64,
}

static SLOTS: [Slot; SLOTS_COUNT] = [const {
    Slot {
        tid: AtomicU32::new(0),
        count: AtomicU64::new(0),
    }
}; SLOTS_COUNT];
static SLOTS_USED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // Without a destructor, so that it lives as long as its thread asks for memory.
    static OWN: Cell<usize> = const { Cell::new(NONE) };
}

/// The system's allocator, counted: calls that give or move memory, and not those that free it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

fn count() {
    let index = OWN.get();
    let index = if index == NONE { enter() } else { index };
    SLOTS[index].count.fetch_add(1, Ordering::Relaxed);
}

/// Gives the calling thread its slot.
#[cold]
fn enter() -> usize {
    let next = SLOTS_USED.fetch_add(1, Ordering::Relaxed);
    let index = next.min(SLOTS_COUNT - 1);
    // SAFETY: takes no argument and cannot fail.
    let tid = unsafe { libc::gettid() };
    SLOTS[index]
        .tid
        .store(tid.unsigned_abs(), Ordering::Relaxed);
    OWN.set(index);
    index
}

/// Whether this program counts.
pub fn is_counting() -> bool {
    SLOTS_USED.load(Ordering::Relaxed) > 0
}

/// Calls of the calling thread so far.
pub fn own() -> u64 {
    match OWN.get() {
        NONE => 0,
        index => SLOTS[index].count.load(Ordering::Relaxed),
    }
}

/// Calls of all threads so far.
pub fn all() -> u64 {
    let counts = SLOTS.iter().map(|slot| slot.count.load(Ordering::Relaxed));
    counts.sum()
}

/// Calls of the threads with these kernel ids so far.
pub fn of(tids: &[u32]) -> u64 {
    let known = SLOTS
        .iter()
        .filter(|slot| tids.contains(&slot.tid.load(Ordering::Relaxed)));
    known.map(|slot| slot.count.load(Ordering::Relaxed)).sum()
}

/// The shards' threads of this process.
pub fn shard_threads() -> Vec<u32> {
    let threads = cpu::threads();
    let shards = threads.iter().filter(|thread| thread.is_shard());
    shards.map(|thread| thread.tid).collect()
}

/// What producers and shards asked for while so many frames went by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// By the threads that produce.
    pub producer: u64,
    /// By the shards' threads.
    pub shard: u64,
    /// Frames of those producers meanwhile.
    pub frames: u64,
}

impl Tally {
    /// Adds that of another producer. The shards are the same and were watched by the first.
    pub fn add(&mut self, other: &Self) {
        self.producer += other.producer;
        self.shard += other.shard;
        self.frames += other.frames;
    }
}
