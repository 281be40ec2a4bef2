//! What the file of the filesystem is made of.

use fuser::{Errno, ReplyEmpty, ReplyWrite};

/// The bytes behind the file, and what becomes of a write or a flush. Clones share them. Called
/// from one thread, one request after the other; a reply that is kept makes the writer wait while
/// others go on.
pub trait Backing: Clone + Send + Sync + 'static {
    /// Largest write that the kernel hands over, in bytes.
    const WRITE_BYTES_MAX: u32;

    /// Size of the file in bytes.
    fn bytes(&self) -> usize;

    /// Up to `len` bytes from `offset` on; fewer at the end.
    fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>, Errno>;

    /// Takes a write: answers it now or later.
    fn write(&self, offset: usize, data: &[u8], reply: ReplyWrite);

    /// Takes a flush: what was answered before must survive a power cut.
    fn flush(&self, reply: ReplyEmpty) {
        reply.ok();
    }

    /// Answers everything that is kept, now and from now on: the device goes away.
    fn release_all(&self) {}
}
