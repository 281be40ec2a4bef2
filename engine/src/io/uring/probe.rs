//! What this machine must allow, found out before the first batch: one clear error each.

use std::io;

use io_uring::{IoUring, Probe, opcode};

use crate::error::Error;

/// Tries io_uring and the operations a shard uses.
pub(crate) fn probe() -> Result<(), Error> {
    let ring = IoUring::new(4).map_err(|error| refused(&error))?;
    let mut probe = Probe::new();
    ring.submitter()
        .register_probe(&mut probe)
        .map_err(|error| refused(&error))?;
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

fn refused(error: &io::Error) -> Error {
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
        Some(libc::ENOMEM) => "raise the limit on locked memory (ulimit -l, LimitMEMLOCK=)",
        Some(libc::EMFILE) => "raise the descriptor limit (ulimit -n)",
        _ => "check that io_uring is allowed for this process",
    };
    Error::Unsupported {
        what: "setting up io_uring".to_owned(),
        reason: error.to_string(),
        remedy,
    }
}
