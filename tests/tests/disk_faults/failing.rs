//! A disk in memory that refuses writes which hold rows, as many as it is told.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_tests::block::{Backing, Errno, Image, ReplyWrite, answer};

/// What rows are made of.
const MARK: [u8; 64] = [b'x'; 64];

/// The disk. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct FailingRows {
    image: Arc<Mutex<Image>>,
    failures: Arc<AtomicU32>,
}

impl FailingRows {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            image: Arc::new(Mutex::new(Image::zeros(bytes))),
            failures: Arc::default(),
        }
    }

    /// The next `count` writes of rows fail.
    pub(crate) fn fail(&self, count: u32) {
        self.failures.store(count, Ordering::Relaxed);
    }

    fn image(&self) -> MutexGuard<'_, Image> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backing for FailingRows {
    const WRITE_BYTES_MAX: u32 = 1 << 20;

    fn bytes(&self) -> usize {
        self.image().bytes()
    }

    fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, Errno> {
        Ok(self.image().read(offset, len))
    }

    fn write(&self, offset: usize, data: &[u8], reply: ReplyWrite) {
        let rows = data.windows(MARK.len()).any(|window| window == MARK);
        let left = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if rows && self.failures.fetch_update(order, order, left).is_ok() {
            return reply.error(Errno::EIO);
        }
        answer(reply, self.image().write(offset, data));
    }
}
