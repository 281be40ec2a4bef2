//! Operations that came back without having been done: interrupted, cancelled, or not begun for
//! want of resources. They say nothing about the file, and are submitted again.

use std::io;

use super::{Journal, token};
use crate::io::Token;

/// Whether an operation ended without having been done.
pub(super) fn is_passing(result: &io::Result<u32>) -> bool {
    let code = result.as_ref().err().and_then(io::Error::raw_os_error);
    matches!(code, Some(libc::EINTR | libc::EAGAIN | libc::ECANCELED))
}

impl Journal {
    /// Marks the operation as one that is still to be submitted.
    pub(super) fn again(&mut self, token: Token) {
        self.gate.counters.disk_retries.add(1);
        match token {
            token::DICTIONARY | token::SEGMENT | token::SYNC_DICTIONARY | token::SYNC_SEGMENT => {
                self.commit.as_mut().expect("was in flight").again();
            }
            token::HEADER
            | token::SYNC_OLD
            | token::SYNC_NEW
            | token::MANIFEST
            | token::SYNC_MANIFEST => {
                self.rotation.as_mut().expect("was in flight").again(token);
            }
            token::WATERMARK => self.watermark.again(),
            _ => self.trim.as_mut().expect("was in flight").again(token),
        }
    }
}
