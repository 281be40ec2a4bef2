//! Addresses for servers that come later, or never.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

/// An address where nobody listens yet: of loopback, but of this call alone, so that no other
/// test's server can be given its port meanwhile.
///
/// # Panics
/// If loopback has no free port.
#[must_use]
pub fn free_address() -> SocketAddr {
    static CALLS: AtomicU8 = AtomicU8::new(2);
    let [low, high, ..] = std::process::id().to_le_bytes();
    let host = [127, high | 1, low, CALLS.fetch_add(1, Ordering::Relaxed)];
    let listener = TcpListener::bind(SocketAddr::from((host, 0))).expect("a free port");
    listener.local_addr().expect("bound")
}
