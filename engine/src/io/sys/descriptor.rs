//! A descriptor of this process that its children do not keep.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use super::Registered;

/// Closes with its owner, and in a forked child at once.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: RawFd,
    owned: Option<OwnedFd>,
    registered: Option<Registered>,
}

impl From<OwnedFd> for Descriptor {
    fn from(owned: OwnedFd) -> Self {
        let fd = owned.as_raw_fd();
        Self {
            fd,
            owned: Some(owned),
            registered: Some(Registered::new(fd)),
        }
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let here = self.registered.as_ref().is_some_and(Registered::is_here);
        // Struck off first: once it is closed, the number may be anybody's.
        self.registered = None;
        if !here {
            // Closed by the child's handler, and the number may be anybody's already.
            self.owned.take().map(IntoRawFd::into_raw_fd);
        }
    }
}
