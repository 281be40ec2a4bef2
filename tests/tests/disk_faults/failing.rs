//! A disk in memory that refuses writes which hold rows, as many as it is told.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_tests::block::{Backing, Errno, ReplyWrite};

/// What rows are made of.
const MARK: [u8; 64] = [b'x'; 64];

/// The disk. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct FailingRows {
    bytes: Arc<Mutex<Vec<u8>>>,
    failures: Arc<AtomicU32>,
}

impl FailingRows {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            bytes: Arc::new(Mutex::new(vec![0; bytes])),
            failures: Arc::default(),
        }
    }

    /// The next `count` writes of rows fail.
    pub(crate) fn fail(&self, count: u32) {
        self.failures.store(count, Ordering::Relaxed);
    }
}

impl Backing for FailingRows {
    const WRITE_BYTES_MAX: u32 = 1 << 20;

    fn bytes(&self) -> usize {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.len()
    }

    fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, Errno> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let end = bytes.len().min(offset.saturating_add(len));
        Ok(bytes.get(offset..end).unwrap_or_default().to_vec())
    }

    fn write(&self, offset: usize, data: &[u8], reply: ReplyWrite) {
        let rows = data.windows(MARK.len()).any(|window| window == MARK);
        let left = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if rows && self.failures.fetch_update(order, order, left).is_ok() {
            return reply.error(Errno::EIO);
        }
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(target) = bytes.get_mut(offset..offset + data.len()) else {
            return reply.error(Errno::ENOSPC);
        };
        target.copy_from_slice(data);
        reply.written(u32::try_from(data.len()).expect("at most 1 MiB"));
    }
}
