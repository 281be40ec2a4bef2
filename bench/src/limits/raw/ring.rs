//! The yardstick's ring: one write, with or without an fdatasync linked behind it, waited for.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode, types};

/// How a ring tells of what is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::limits) enum Completions {
    /// When its thread waits for them: the flags that are best for a thread which does nothing else.
    Deferred,
    /// At any time, without a call: no flags, as in the engine, whose thread does not wait.
    Plain,
}

/// An io_uring ring.
pub(super) struct RawRing(IoUring);

impl RawRing {
    pub(super) fn new(completions: Completions) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        if completions == Completions::Deferred {
            builder.setup_single_issuer().setup_defer_taskrun();
        }
        Ok(Self(builder.build(8)?))
    }

    /// Writes `bytes` at `offset` and, if `sync`, flushes the file; returns when it is done.
    pub(super) fn write(
        &mut self,
        file: &File,
        bytes: &[u8],
        offset: u64,
        sync: bool,
    ) -> io::Result<()> {
        let fd = types::Fd(file.as_raw_fd());
        let len = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let link = if sync { Flags::IO_LINK } else { Flags::empty() };
        let write = opcode::Write::new(fd, bytes.as_ptr(), len).offset(offset);
        let write = write.build().flags(link).user_data(u64::from(len));
        // SAFETY: `bytes` and `file` outlive this call, which ends only after the completion; a
        // ring that fails to wait is a panic below, not a return.
        unsafe { self.0.submission().push(&write) }.map_err(io::Error::other)?;
        if sync {
            let flags = types::FsyncFlags::DATASYNC;
            let flush = opcode::Fsync::new(fd).flags(flags).build().user_data(0);
            // SAFETY: as above; it has no memory of its own.
            unsafe { self.0.submission().push(&flush) }.map_err(io::Error::other)?;
        }
        let mut left = 1 + usize::from(sync);
        let mut outcome = Ok(());
        while left > 0 {
            match self.0.submit_and_wait(left) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => panic!("waiting for a write in flight: {error}"),
            }
            for entry in self.0.completion() {
                left -= 1;
                let wanted = i64::try_from(entry.user_data()).unwrap_or(i64::MAX);
                if i64::from(entry.result()) != wanted {
                    let code = entry.result();
                    outcome = Err(io::Error::other(format!("{code} instead of {wanted}")));
                }
            }
        }
        outcome
    }
}
