//! What the ring and the doorbell take from the standard library. The crate `forebay-loom`
//! compiles the same two files with loom's types instead, and tries every interleaving.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use crate::io::sys::{heavy, light};
