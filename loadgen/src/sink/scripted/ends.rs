//! How a connection ends.

use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::transport::Transport;
use crate::sink::connection::{DISCARD_BYTES_MAX, LINGER};
use crate::sink::server::Shared;

/// A piece of a longer sleep; how late the end of the sink may be noticed.
const NAP: Duration = Duration::from_millis(5);

/// What is left to do with the socket, once nothing else refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sink) enum Last {
    /// End it in both directions.
    ShutDown,
    /// Close it; with what [`reset`] did, that is a reset.
    Close,
}

/// Makes the close of the socket a reset.
pub(super) fn reset(stream: &TcpStream) -> io::Result<Last> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))?;
    Ok(Last::Close)
}

/// Half-closes and reads on for a while, so that no reset overtakes what was written.
pub(super) fn linger(transport: &mut Transport<'_>, shared: &Shared) -> io::Result<Last> {
    transport.half_close()?;
    let until = Instant::now() + LINGER;
    let mut piece = [0; 16 * 1024];
    let mut discarded = 0;
    while discarded <= DISCARD_BYTES_MAX && Instant::now() < until && !shared.is_stopping() {
        match transport.read_within(&mut piece, NAP)? {
            Some(0) => break,
            Some(count) => discarded += count,
            None => {}
        }
    }
    Ok(Last::ShutDown)
}

/// Leaves the connection open and does nothing with it until the sink stops.
pub(super) fn half_open(shared: &Shared) -> Last {
    while !shared.is_stopping() {
        thread::sleep(NAP);
    }
    Last::ShutDown
}

/// Sleeps; the end of the sink ends it.
pub(super) fn sleep(time: Duration, shared: &Shared) {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || shared.is_stopping() {
            return;
        }
        thread::sleep(left.min(NAP));
    }
}
