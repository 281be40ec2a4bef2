//! The engine's ring and doorbell (`engine/src/router`), the same two files, compiled against
//! loom's atomics and cells instead of the standard library's: `tests/` tries every interleaving of
//! a few steps of two threads.
//!
//! Only the memory of the ring is another one: [`Region`] keeps each word in a cell that notices
//! two threads that touch it without an order between them.

#![allow(
    dead_code,
    reason = "the engine uses more of the two files than the models do"
)]
#![allow(
    missing_docs,
    reason = "public for the tests of this crate alone; described in the engine"
)]

mod crc;
#[path = "../../engine/src/router/doorbell.rs"]
mod doorbell;
mod region;
#[path = "../../engine/src/router/ring/mod.rs"]
pub mod ring;
mod sync;

pub use region::Region;
pub use ring::{Reader, Writer};

/// A ring of `capacity` bytes; `sealed` as one that survives its process.
pub fn ring_over(capacity: usize, sealed: bool) -> (Writer, Reader) {
    ring::over(Region::new(capacity, sealed))
}

/// The bell of a model: a flag that a thread can wait for.
#[derive(Debug, Default)]
pub struct Bell(loom::sync::Mutex<bool>, loom::sync::Condvar);

impl Bell {
    /// Waits for a ring.
    pub fn wait(&self) {
        let mut rung = self.0.lock().expect("nobody panics with it");
        while !*rung {
            rung = self.1.wait(rung).expect("nobody panics with it");
        }
        *rung = false;
    }
}

impl doorbell::Bell for Bell {
    fn ring(&self) {
        *self.0.lock().expect("nobody panics with it") = true;
        self.1.notify_one();
    }
}

/// A doorbell with such a bell.
#[derive(Debug)]
pub struct Door(doorbell::Doorbell<Bell>);

impl Door {
    #[must_use]
    pub fn new() -> Self {
        Self(doorbell::Doorbell::new(Bell::default()))
    }

    pub fn knock(&self) {
        self.0.knock();
    }

    pub fn park(&self) {
        self.0.park();
    }

    pub fn unpark(&self) {
        self.0.unpark();
    }

    pub fn sleep(&self) {
        self.0.bell().wait();
    }
}

impl Default for Door {
    fn default() -> Self {
        Self::new()
    }
}
