//! One step of a sequence of disk operations.

use std::io;

use crate::io::{DiskOp, Storage, Token};

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// Not submitted yet.
    #[default]
    Waiting,
    /// With the kernel.
    InFlight,
    /// Completed.
    Done,
}

impl Phase {
    /// Submits the step if it is its turn (`ready`) and the queue has room.
    pub(super) fn start(
        &mut self,
        ready: bool,
        io: &mut impl Storage,
        token: Token,
        op: impl FnOnce() -> DiskOp,
    ) {
        if *self == Self::Waiting && ready && io.submit(token, op()).is_ok() {
            *self = Self::InFlight;
        }
    }

    /// Does without the step if it is `needless` and was not submitted.
    pub(super) fn skip(&mut self, needless: bool) {
        if *self == Self::Waiting && needless {
            *self = Self::Done;
        }
    }

    /// Marks the step done, or names what failed.
    pub(super) fn finish(
        &mut self,
        result: io::Result<u32>,
        wanted: usize,
        what: &str,
    ) -> Result<(), String> {
        // Whatever the outcome: it is not in flight any more.
        *self = Self::Waiting;
        match result {
            Ok(got) if got as usize == wanted => {
                *self = Self::Done;
                Ok(())
            }
            Ok(got) => Err(format!("{what}: {got} of {wanted} bytes written")),
            Err(error) => Err(format!("{what}: {error}")),
        }
    }

    pub(super) fn is_done(self) -> bool {
        self == Self::Done
    }

    pub(super) fn is_in_flight(self) -> bool {
        self == Self::InFlight
    }
}
