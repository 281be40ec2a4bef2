//! A non-blocking TCP socket.

use std::io::{self, IoSlice};
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::{Descriptor, check, retry};

#[expect(
    clippy::cast_possible_truncation,
    reason = "address families are small constants"
)]
const AF_INET: libc::sa_family_t = libc::AF_INET as libc::sa_family_t;
#[expect(
    clippy::cast_possible_truncation,
    reason = "address families are small constants"
)]
const AF_INET6: libc::sa_family_t = libc::AF_INET6 as libc::sa_family_t;

/// Most parts of one send (the kernel's `UIO_MAXIOV`).
const PARTS_MAX: usize = 1024;

/// Size of a structure as the socket calls want it.
fn length<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("socket structures are small")
}

/// A TCP socket whose calls never wait and never raise SIGPIPE.
#[derive(Debug)]
pub(crate) struct Socket(Descriptor);

impl Socket {
    /// Creates a socket and starts connecting it.
    pub(crate) fn dial(address: SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::socket(family, kind, 0) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        let owned = unsafe { OwnedFd::from_raw_fd(fd) };
        let socket = Self(owned.into());
        socket.set_nodelay()?;
        let outcome = match address {
            SocketAddr::V4(v4) => {
                let raw = libc::sockaddr_in {
                    sin_family: AF_INET,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                socket.connect(&raw)
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: AF_INET6,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                socket.connect(&raw)
            }
        };
        match outcome {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket),
        }
    }

    fn connect<A>(&self, address: &A) -> io::Result<()> {
        let bytes = length::<A>();
        let address = std::ptr::from_ref(address).cast();
        // SAFETY: the address structure is live and `bytes` long.
        retry(|| check(unsafe { libc::connect(self.as_raw_fd(), address, bytes) })).map(drop)
    }

    fn set_nodelay(&self) -> io::Result<()> {
        let on = 1i32;
        // SAFETY: the option value is a live i32 of the given size.
        check(unsafe {
            libc::setsockopt(
                self.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_NODELAY,
                (&raw const on).cast(),
                length::<i32>(),
            )
        })
        .map(drop)
    }

    /// Whether connecting has ended, and how.
    pub(crate) fn connected(&self) -> Option<io::Result<()>> {
        let mut poll = libc::pollfd {
            fd: self.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one live pollfd; a zero timeout never waits.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        if ready <= 0 {
            return None;
        }
        let (mut error, mut bytes) = (0i32, length::<i32>());
        // SAFETY: the kernel fills a live i32 of the given size.
        let got = check(unsafe {
            libc::getsockopt(
                self.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut error).cast(),
                &raw mut bytes,
            )
        });
        Some(match (got, error) {
            (Err(error), _) => Err(error),
            (_, 0) => Ok(()),
            (_, code) => Err(io::Error::from_raw_os_error(code)),
        })
    }

    /// Ends both directions: pending polls fire, the peer sees the end even while an operation
    /// still holds the socket.
    pub(crate) fn shut_down(&self) {
        // SAFETY: no pointers.
        unsafe { libc::shutdown(self.as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// Sends a prefix of `bytes`.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        retry(|| {
            let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
            // SAFETY: reads `bytes.len()` bytes from a live slice.
            let sent =
                unsafe { libc::send(self.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
            usize::try_from(sent).map_err(|_| io::Error::last_os_error())
        })
    }

    /// Sends a prefix of `parts`, one behind the other.
    pub(crate) fn send_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // SAFETY: all zeroes is a message without address, buffers and control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // An `IoSlice` has the layout of an `iovec`; the kernel only reads through it.
        message.msg_iov = parts.as_ptr().cast::<libc::iovec>().cast_mut();
        message.msg_iovlen = parts.len().min(PARTS_MAX);
        retry(|| {
            let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
            // SAFETY: `message` points at `msg_iovlen` live slices.
            let sent = unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, flags) };
            usize::try_from(sent).map_err(|_| io::Error::last_os_error())
        })
    }

    /// Receives into `bytes`; `Ok(0)` is the end of the stream.
    pub(crate) fn recv(&self, bytes: &mut [u8]) -> io::Result<usize> {
        retry(|| {
            // SAFETY: writes at most `bytes.len()` bytes into a live slice.
            let got = unsafe {
                libc::recv(
                    self.as_raw_fd(),
                    bytes.as_mut_ptr().cast(),
                    bytes.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            usize::try_from(got).map_err(|_| io::Error::last_os_error())
        })
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
