//! `engine/src/router/sync.rs`, from loom.

pub(crate) use loom::sync::Arc;
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

use loom::sync::atomic::fence;

/// A fence: loom knows no kernel that runs one on other cores.
pub(crate) fn light() {
    fence(Ordering::SeqCst);
}

/// The same.
pub(crate) fn heavy() {
    fence(Ordering::SeqCst);
}
