//! The memory of a ring in a model: every word is a cell that loom watches.
//!
//! A slice that is given out counts as an access at that moment: whoever writes into it or reads it
//! later does so before it publishes or releases, on the same thread.

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;

/// See the module documentation. Same methods as the engine's.
#[derive(Debug)]
pub struct Region {
    head: AtomicU64,
    tail: AtomicU64,
    /// One for each word of `words`.
    watched: Vec<UnsafeCell<()>>,
    words: Box<[std::cell::UnsafeCell<u64>]>,
    sealed: bool,
}

// SAFETY: the words are only reached through `watched`, which ends the model when two threads
// could touch one at the same time.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn new(capacity: usize, sealed: bool) -> Self {
        let words = capacity / 8;
        Self {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            watched: (0..words).map(|_| UnsafeCell::new(())).collect(),
            words: (0..words).map(|_| std::cell::UnsafeCell::new(0)).collect(),
            sealed,
        }
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    pub(crate) fn head(&self) -> &AtomicU64 {
        &self.head
    }

    pub(crate) fn tail(&self) -> &AtomicU64 {
        &self.tail
    }

    fn place(&self, position: u64) -> usize {
        usize::try_from(position & (self.capacity() - 1)).expect("small")
    }

    fn at(&self, place: usize) -> *mut u8 {
        let start = std::cell::UnsafeCell::raw_get(self.words.as_ptr());
        start.cast::<u8>().wrapping_add(place)
    }

    fn word(&self, position: u64) -> *mut u64 {
        self.words[self.place(position) / 8].get()
    }

    /// # Safety
    /// As the engine's.
    pub(crate) unsafe fn get(&self, position: u64) -> u64 {
        self.watched[self.place(position) / 8].with(|_| ());
        // SAFETY: loom would have ended the model if somebody else could write it now.
        unsafe { self.word(position).read() }
    }

    /// # Safety
    /// As the engine's.
    pub(crate) unsafe fn put(&self, position: u64, word: u64) {
        self.watched[self.place(position) / 8].with_mut(|_| ());
        // SAFETY: loom would have ended the model if somebody else could touch it now.
        unsafe { self.word(position).write(word) };
    }

    /// # Safety
    /// As the engine's.
    pub(crate) unsafe fn put_last(&self, position: u64, word: u64) {
        // SAFETY: as the caller says.
        unsafe { self.put(position, word) };
    }

    /// # Safety
    /// As the engine's.
    pub(crate) unsafe fn bytes(&self, position: u64, bytes: usize) -> &[u8] {
        let place = self.place(position);
        for watched in &self.watched[place / 8..(place + bytes).div_ceil(8)] {
            watched.with(|_| ());
        }
        // SAFETY: inside the words, and nobody writes there now (as above).
        unsafe { std::slice::from_raw_parts(self.at(place), bytes) }
    }

    /// # Safety
    /// As the engine's.
    #[expect(clippy::mut_from_ref, reason = "as the engine's")]
    pub(crate) unsafe fn bytes_mut(&self, position: u64, bytes: usize) -> &mut [u8] {
        let place = self.place(position);
        for watched in &self.watched[place / 8..(place + bytes).div_ceil(8)] {
            watched.with_mut(|_| ());
        }
        // SAFETY: inside the words, and nobody else touches them now (as above).
        unsafe { std::slice::from_raw_parts_mut(self.at(place), bytes) }
    }
}
