//! One connection from accept to its end, on its own thread.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use forebay_wire::server::{Ending, Flow, Session, SessionConfig};
use forebay_wire::upgrade::{self, Answer};

use super::apply::Applier;
use super::delayed::DelayedWriter;
use super::server::Shared;

/// How long a client may take for its upgrade request, and a write to be taken.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection that the server ended is still read, so that no RST overtakes the CLOSE.
pub(super) const LINGER: Duration = Duration::from_secs(5);
/// Bytes that are discarded at most after a client's CLOSE.
pub(super) const DISCARD_BYTES_MAX: usize = 256 * 1024;

/// Serves one connection. An error is the socket's.
pub(super) fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some((early, durable)) = upgrade(stream, shared)? else {
        return Ok(());
    };
    let config = &shared.config;
    let mut session = Session::new(SessionConfig {
        recv_buffer_bytes: config.recv_buffer_bytes,
        recv_buffer_bytes_at_start: config.recv_buffer_bytes.min(config.read_bytes),
        message_bytes_max: config.recv_buffer_bytes,
        ok_every: config.ok_every,
        strict: config.strict,
        durable,
        ..SessionConfig::default()
    });
    let mut applier = Applier::new(shared);
    let mut answers = Answers::new(stream, config.ack_delay)?;
    let mut flow = session.on_bytes(&early, &mut applier, &mut answers.pending);
    answers.write()?;
    while flow == Flow::Continue && !is_used_up(&session, shared) {
        let spare = session.spare();
        let room = spare.len().min(config.read_bytes.max(1));
        let count = read(stream, &mut spare[..room])?;
        if count == 0 {
            break;
        }
        flow = session.received(count, &mut applier, &mut answers.pending);
        applier.end_pass(count);
        answers.write()?;
    }
    // The totals must be complete before the client can see the connection's end.
    drop(applier);
    answers.finish();
    match flow {
        Flow::Continue if is_used_up(&session, shared) => {
            shared.counters.drops.fetch_add(1, Relaxed);
            Ok(())
        }
        Flow::Continue => Ok(()),
        Flow::Close(ending) => end(stream, ending, shared),
    }
}

/// Answers the upgrade request. Gives the bytes that came behind it, and the durable grant.
fn upgrade(
    mut stream: &TcpStream,
    shared: &Shared,
) -> io::Result<Option<(Vec<u8>, Option<upgrade::DurableTier>)>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let policy = shared.live.policy();
    let mut head = Vec::with_capacity(1024);
    let mut piece = [0; 4096];
    loop {
        let count = read(stream, &mut piece)?;
        if count == 0 {
            return Ok(None);
        }
        head.extend_from_slice(&piece[..count]);
        match upgrade::answer(&head, &policy) {
            None => {}
            Some(Answer::Accept(accepted)) => {
                shared.counters.upgrades.fetch_add(1, Relaxed);
                stream.write_all(&accepted.response)?;
                stream.set_read_timeout(None)?;
                let early = head.split_off(accepted.consumed);
                return Ok(Some((early, accepted.durable)));
            }
            Some(Answer::Reject { response, .. }) => {
                shared.counters.upgrades_rejected.fetch_add(1, Relaxed);
                stream.write_all(&response)?;
                discard(stream, Instant::now() + LINGER, DISCARD_BYTES_MAX)?;
                return Ok(None);
            }
        }
    }
}

/// Whether the connection has had its share of messages.
fn is_used_up(session: &Session, shared: &Shared) -> bool {
    shared
        .config
        .drop_after
        .is_some_and(|most| session.messages_received() >= most)
}

fn end(stream: &TcpStream, ending: Ending, shared: &Shared) -> io::Result<()> {
    let counter = match ending {
        Ending::Drop => &shared.counters.drops,
        Ending::Answered | Ending::Initiated => &shared.counters.closes,
    };
    counter.fetch_add(1, Relaxed);
    let most = match ending {
        Ending::Drop => return Ok(()),
        Ending::Answered => DISCARD_BYTES_MAX,
        Ending::Initiated => usize::MAX,
    };
    discard(stream, Instant::now() + LINGER, most)
}

/// Half-closes, then reads what still comes until the peer ends, too.
fn discard(stream: &TcpStream, until: Instant, most: usize) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let mut piece = [0; 16 * 1024];
    let mut discarded = 0_usize;
    while discarded <= most {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        stream.set_read_timeout(Some(left))?;
        match read(stream, &mut piece)? {
            0 => break,
            count => discarded += count,
        }
    }
    Ok(())
}

fn read(mut stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The way of answers to the socket: at once, or through the delay line.
struct Answers<'a> {
    stream: &'a TcpStream,
    pending: Vec<u8>,
    delayed: Option<DelayedWriter>,
}

impl<'a> Answers<'a> {
    fn new(stream: &'a TcpStream, delay: Duration) -> io::Result<Self> {
        let delayed = if delay.is_zero() {
            None
        } else {
            Some(DelayedWriter::start(stream, delay)?)
        };
        Ok(Self {
            stream,
            pending: Vec::with_capacity(1024),
            delayed,
        })
    }

    fn write(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let Some(delayed) = &self.delayed else {
            self.stream.write_all(&self.pending)?;
            self.pending.clear();
            return Ok(());
        };
        if delayed.send(std::mem::take(&mut self.pending)) {
            Ok(())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    /// Waits until everything is written.
    fn finish(&mut self) {
        if let Some(delayed) = &mut self.delayed {
            delayed.finish();
        }
    }
}
