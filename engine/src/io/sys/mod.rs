//! The kernel through libc: mappings, files, sockets, futexes, event descriptors, threads.
//!
//! Every wrapper here is small, safe to call, and the only place where its system call is made.

mod barrier;
mod bounded;
mod crc;
mod descriptor;
mod direct;
mod event;
mod filesystem;
mod fill;
mod fork;
mod fs;
mod futex;
#[cfg(feature = "uring")]
mod limit;
mod memory;
#[cfg(all(feature = "uring", any(test, feature = "internals")))]
mod pinned_io;
mod region;
mod resident;
mod socket;
mod space;
mod thread;
mod unnamed;

#[cfg(any(test, feature = "internals"))]
#[cfg_attr(
    not(feature = "internals"),
    allow(unused_imports, unreachable_pub, reason = "public through `internals`")
)]
pub use barrier::set_halves;
pub(crate) use barrier::{heavy, light, lighten};
pub(crate) use bounded::read_bounded;
pub(crate) use crc::{crc32c, crc32c_append};
pub(crate) use descriptor::Descriptor;
pub(crate) use event::EventFd;
pub(crate) use filesystem::{Filesystem, filesystem};
#[cfg(any(test, feature = "internals"))]
#[cfg_attr(
    not(feature = "internals"),
    allow(unused_imports, unreachable_pub, reason = "public through `internals`")
)]
pub use fork::fork;
pub(crate) use fork::{Home, Registered};
pub(crate) use fs::RealFs;
pub(crate) use futex::{futex_wait, futex_wake};
#[cfg(feature = "uring")]
pub(crate) use limit::locked_memory_limit;
pub(crate) use memory::Memory;
#[cfg(all(feature = "uring", any(test, feature = "internals")))]
pub(crate) use pinned_io::{read_pinned, write_pinned};
pub(crate) use region::{BLOCK, HUGE, Pinned, Region};
pub(crate) use socket::Socket;
pub(crate) use space::{filesystem_type, free_bytes};
pub(crate) use thread::{
    block_signals, coarse_nanos, cpu_nanos, monotonic_nanos, name_thread, random_u64, wall_micros,
    wall_nanos, with_signals_blocked, yield_to_others,
};

use std::io;

/// Turns a `-1` return into the kernel's error.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Repeats a call that a signal interrupted.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
