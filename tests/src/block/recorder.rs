//! A backing that keeps every write and flush in their order, so that the disk of any moment can
//! be made again: what an unflushed write left, chance may decide.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{Errno, ReplyEmpty, ReplyWrite};

use super::{Backing, Image, answer};

/// Something the disk was asked.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A write.
    Write {
        /// Where, in bytes.
        offset: usize,
        /// What.
        bytes: Arc<[u8]>,
        /// The mark when it came ([`Recorder::mark`]).
        mark: u64,
    },
    /// A flush: all entries before it survive from here on.
    Flush {
        /// The mark when it came.
        mark: u64,
    },
}

impl Entry {
    /// The mark when it came.
    #[must_use]
    pub fn mark(&self) -> u64 {
        match self {
            Self::Write { mark, .. } | Self::Flush { mark } => *mark,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    image: Image,
    log: Vec<Entry>,
    recording: bool,
}

/// The recorder. Clones share it.
#[derive(Debug, Clone)]
pub struct Recorder {
    state: Arc<Mutex<State>>,
    mark: Arc<AtomicU64>,
}

impl Recorder {
    /// A disk of zeros that records nothing yet.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let state = State {
            image: Image::zeros(bytes),
            ..State::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            mark: Arc::default(),
        }
    }

    /// A number that every entry notes when it comes: something the test knows grows with time.
    #[must_use]
    pub fn mark(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.mark)
    }

    /// Records from now on; the disk as it is now.
    #[must_use]
    pub fn start(&self) -> Vec<u8> {
        let mut state = self.state();
        state.recording = true;
        state.log.clear();
        state.image.contents().to_vec()
    }

    /// Entries so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.state().log.len()
    }

    /// Records no more; what was recorded.
    #[must_use]
    pub fn stop(&self) -> Vec<Entry> {
        let mut state = self.state();
        state.recording = false;
        std::mem::take(&mut state.log)
    }

    /// Replaces the contents of the disk, which nobody has open.
    pub fn load(&self, image: &[u8]) {
        self.state().image.load(image);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backing for Recorder {
    const WRITE_BYTES_MAX: u32 = 128 << 10;

    fn bytes(&self) -> usize {
        self.state().image.bytes()
    }

    fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, Errno> {
        Ok(self.state().image.read(offset, len))
    }

    fn write(&self, offset: usize, data: &[u8], reply: ReplyWrite) {
        let mut state = self.state();
        let written = state.image.write(offset, data);
        if written.is_ok() && state.recording {
            let mark = self.mark.load(Ordering::Acquire);
            state.log.push(Entry::Write {
                offset,
                bytes: data.into(),
                mark,
            });
        }
        drop(state);
        answer(reply, written);
    }

    fn flush(&self, reply: ReplyEmpty) {
        let mut state = self.state();
        if state.recording {
            let mark = self.mark.load(Ordering::Acquire);
            state.log.push(Entry::Flush { mark });
        }
        drop(state);
        reply.ok();
    }
}
