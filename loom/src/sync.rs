//! `engine/src/router/sync.rs`, from loom.

pub(crate) use loom::sync::Arc;
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
