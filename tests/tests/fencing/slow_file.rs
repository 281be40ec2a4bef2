//! The disk of these tests: writes that carry the mark wait until they are let go.
//!
//! Marked are the bytes of test rows only, so a filesystem on a loop device over this file stays
//! usable (its metadata and journal go through) while the rows' own writes hang in the kernel.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_tests::block::{Backing, Errno, Image, ReplyWrite, answer};

/// A sector of nothing but this byte marks a write.
pub(crate) const MARK: u8 = b'x';
const SECTOR: usize = 512;

/// A write that the kernel waits for.
struct Held {
    offset: usize,
    bytes: Vec<u8>,
    reply: ReplyWrite,
}

#[derive(Default)]
struct State {
    image: Image,
    holding: bool,
    held: VecDeque<Held>,
    landed: u64,
}

impl State {
    /// The bytes are in the file before anybody hears of it.
    fn land(&mut self, write: Held) {
        self.landed += 1;
        self.store(write.offset, &write.bytes, write.reply);
    }

    fn store(&mut self, offset: usize, bytes: &[u8], reply: ReplyWrite) {
        answer(reply, self.image.write(offset, bytes));
    }
}

/// The file as the test holds it.
#[derive(Clone)]
pub(crate) struct SlowFile(Arc<Mutex<State>>);

impl SlowFile {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            image: Image::zeros(bytes),
            ..State::default()
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on marked writes wait.
    pub(crate) fn hold(&self) {
        self.state().holding = true;
    }

    /// Marked writes that wait.
    pub(crate) fn held(&self) -> usize {
        self.state().held.len()
    }

    /// Marked writes that waited and are in the file now.
    pub(crate) fn landed(&self) -> u64 {
        self.state().landed
    }

    /// Lets the write go that came last; false when none waits.
    pub(crate) fn release_one(&self) -> bool {
        let mut state = self.state();
        let write = state.held.pop_back();
        write.map(|write| state.land(write)).is_some()
    }

    /// No write waits any more.
    pub(crate) fn release_all(&self) {
        self.state().holding = false;
        while self.release_one() {}
    }
}

fn is_marked(bytes: &[u8]) -> bool {
    let mut sectors = bytes.chunks_exact(SECTOR);
    sectors.any(|sector| sector.iter().all(|byte| *byte == MARK))
}

impl Backing for SlowFile {
    // Small, so that one write of a process becomes many.
    const WRITE_BYTES_MAX: u32 = 4096;

    fn bytes(&self) -> usize {
        self.state().image.bytes()
    }

    fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, Errno> {
        Ok(self.state().image.read(offset, len))
    }

    fn write(&self, offset: usize, data: &[u8], reply: ReplyWrite) {
        let mut state = self.state();
        if state.holding && is_marked(data) {
            state.held.push_back(Held {
                offset,
                bytes: data.to_vec(),
                reply,
            });
        } else {
            state.store(offset, data, reply);
        }
    }

    fn release_all(&self) {
        SlowFile::release_all(self);
    }
}
