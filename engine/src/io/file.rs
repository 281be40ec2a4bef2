//! A handle to an open file, the same for the kernel and for the simulated disk.

use std::fmt;
use std::sync::Arc;

/// What keeps an open file open: a descriptor, or an inode of the simulated disk.
pub(crate) trait FileOwner: Send + Sync {
    /// The descriptor, or the inode number.
    fn raw(&self) -> i32;
}

/// An open file. Clones share it; it closes with the last clone, so an operation in flight that
/// holds one can never meet a reused descriptor.
#[derive(Clone)]
pub(crate) struct File(Arc<dyn FileOwner>);

impl File {
    /// Wraps an owner.
    pub(crate) fn new(owner: impl FileOwner + 'static) -> Self {
        Self(Arc::new(owner))
    }

    /// The descriptor, or the inode number of the simulated disk.
    pub(crate) fn raw(&self) -> i32 {
        self.0.raw()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({})", self.raw())
    }
}
