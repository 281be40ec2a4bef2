//! The bytes of a disk in memory.

use fuser::{Errno, ReplyWrite};

/// The bytes. Their number never changes, but for [`load`](Self::load).
#[derive(Debug, Clone, Default)]
pub struct Image(Vec<u8>);

impl Image {
    /// A disk of zeros.
    #[must_use]
    pub fn zeros(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// All of it.
    #[must_use]
    pub fn contents(&self) -> &[u8] {
        &self.0
    }

    /// Replaces all of it.
    pub fn load(&mut self, contents: &[u8]) {
        self.0.clear();
        self.0.extend_from_slice(contents);
    }

    /// Up to `len` bytes from `offset` on; fewer at the end.
    #[must_use]
    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let start = offset.min(self.0.len());
        let end = start.saturating_add(len).min(self.0.len());
        self.0[start..end].to_vec()
    }

    /// Takes a write, if it fits; what [`answer`] tells the writer.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> Result<u32, Errno> {
        let place = self.0.get_mut(offset..offset + data.len());
        place.ok_or(Errno::ENOSPC)?.copy_from_slice(data);
        Ok(u32::try_from(data.len()).expect("at most WRITE_BYTES_MAX"))
    }
}

/// Answers a write.
pub fn answer(reply: ReplyWrite, written: Result<u32, Errno>) {
    match written {
        Ok(bytes) => reply.written(bytes),
        Err(error) => reply.error(error),
    }
}
