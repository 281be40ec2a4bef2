//! What this machine must allow, found out before the first batch: one clear error each.

use std::io;

use io_uring::{IoUring, Probe, opcode};

use crate::error::Error;
use crate::io::sys::locked_memory_limit;

/// Below this glommio makes no executor, whatever it would lock.
const LOCKED_BYTES_LEAST: u64 = 512 << 10;
/// What a shard's four rings lock in Linux 6.18, with the buffers that glommio registers: measured,
/// 272 KiB and a little.
const LOCKED_BYTES_EACH: u64 = 280 << 10;

/// Tries io_uring and the operations a shard uses. Each of its three calls may be forbidden by
/// itself.
pub(crate) fn probe() -> Result<(), Error> {
    let mut ring = IoUring::new(4).map_err(|error| refused("setting up io_uring", &error))?;
    let nothing = opcode::Nop::new().build();
    // SAFETY: the operation uses no memory.
    let pushed = unsafe { ring.submission().push(&nothing) };
    pushed.expect("an empty queue has room");
    ring.submit_and_wait(1)
        .map_err(|error| refused("entering io_uring", &error))?;
    let mut probe = Probe::new();
    ring.submitter()
        .register_probe(&mut probe)
        .map_err(|error| refused("registering with io_uring", &error))?;
    let needed = [
        ("WRITE", opcode::Write::CODE),
        ("WRITEV", opcode::Writev::CODE),
        ("READ", opcode::Read::CODE),
        ("FSYNC", opcode::Fsync::CODE),
        ("POLL_ADD", opcode::PollAdd::CODE),
        ("POLL_REMOVE", opcode::PollRemove::CODE),
    ];
    for (name, code) in needed {
        if !probe.is_supported(code) {
            return Err(Error::Unsupported {
                what: format!("io_uring operation {name}"),
                reason: "the kernel does not know it".to_owned(),
                remedy: "Linux 5.15 or newer is needed",
            });
        }
    }
    Ok(())
}

/// Whether so many shards may be started under the limit on locked memory: before anything is
/// touched, so that none of them is without the others.
pub(crate) fn probe_locked_memory(shards: usize) -> Result<(), Error> {
    match locked_memory_limit() {
        Ok(bytes) if bytes < LOCKED_BYTES_LEAST => Err(Error::Unsupported {
            what: format!("starting {shards} shards"),
            reason: format!(
                "the limit on locked memory is {bytes} bytes, each executor asks for one of at \
                 least {LOCKED_BYTES_LEAST}"
            ),
            remedy: "Raise it (ulimit -l 512, LimitMEMLOCK=512K)",
        }),
        // What cannot be found out is left to the start itself.
        _ => Ok(()),
    }
}

/// Why shards could not be started, with what the limit on locked memory may have to do with it:
/// rings are made until there is none left to lock, so any step may be the one that fails.
pub(crate) fn with_locked_memory(shards: usize, error: Error) -> Error {
    let needed = LOCKED_BYTES_EACH.saturating_mul(shards as u64);
    match locked_memory_limit() {
        Ok(bytes) if bytes < needed => Error::Unsupported {
            what: format!("starting {shards} shards"),
            reason: format!(
                "{error}; the limit on locked memory is {bytes} bytes for all processes of the \
                 user together, {shards} shards need about {needed}"
            ),
            remedy: "Raise it (ulimit -l, LimitMEMLOCK=) or start fewer shards",
        },
        _ => error,
    }
}

fn refused(what: &str, error: &io::Error) -> Error {
    let remedy = match error.raw_os_error() {
        Some(libc::EPERM) => {
            "io_uring is forbidden here: set the sysctl kernel.io_uring_disabled to 0 (or 1 with \
             membership in kernel.io_uring_group), and let the container's seccomp profile allow \
             io_uring_setup, io_uring_enter and io_uring_register"
        }
        Some(libc::ENOSYS) => {
            "the kernel has no io_uring, or a seccomp profile hides it: Linux 5.15 or newer with \
             io_uring_setup, io_uring_enter and io_uring_register allowed is needed"
        }
        Some(libc::EOPNOTSUPP) => {
            "this sandbox has no io_uring (gVisor without it, for example): run on a kernel that \
             has, Linux 5.15 or newer"
        }
        Some(libc::ENOMEM) => "raise the limit on locked memory (ulimit -l, LimitMEMLOCK=)",
        Some(libc::EMFILE) => "raise the descriptor limit (ulimit -n)",
        _ => "check that io_uring is allowed for this process",
    };
    Error::Unsupported {
        what: what.to_owned(),
        reason: error.to_string(),
        remedy,
    }
}
