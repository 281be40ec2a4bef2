//! The loop of a connection: read with a time limit, one receive pass, look at the clock.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use forebay_wire::server::{Ending, Flow, Session, SessionConfig};
use forebay_wire::ws::{self, Opcode, close};
use socket2::SockRef;

use super::ends::{Last, half_open, linger, reset, sleep};
use super::handler::{Injected, Scripted};
use super::output::Output;
use super::transport::Transport;
use super::upgrade::{Outcome, Upgraded, upgrade};
use crate::sink::connection::PATIENCE;
use crate::sink::script::{Action, When, ok};
use crate::sink::server::Shared;

/// How often a connection that hears nothing looks at the clock and at the sink.
const TICK: Duration = Duration::from_millis(5);

/// Serves one connection. An error is the socket's.
pub(in crate::sink) fn serve(stream: &TcpStream, id: u64, shared: &Shared) -> io::Result<Last> {
    let accepted = Instant::now();
    let result = talk(stream, id, accepted, shared);
    if let Some(log) = &shared.log {
        log.note(id, |conn, now| conn.ended_at = Some(now));
    }
    result
}

fn talk(stream: &TcpStream, id: u64, accepted: Instant, shared: &Shared) -> io::Result<Last> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut transport = Transport::new(stream, shared.config.tls.as_ref())?;
    match upgrade(&mut transport, id, shared)? {
        Outcome::Ended(last) => Ok(last),
        Outcome::Upgraded(upgraded) => {
            Connection::new(shared, id, accepted, transport, &upgraded).run(&upgraded.early)
        }
    }
}

struct Connection<'s> {
    shared: &'s Shared,
    id: u64,
    accepted: Instant,
    upgraded: Instant,
    transport: Transport<'s>,
    session: Session,
    handler: Scripted<'s>,
    output: Output,
    /// The kernel's receive buffer was made small, for slow reads.
    has_small_buffer: bool,
    /// Rules of the script of this generation that have acted and act once a connection.
    fired: (u64, Vec<bool>),
}

impl<'s> Connection<'s> {
    fn new(
        shared: &'s Shared,
        id: u64,
        accepted: Instant,
        transport: Transport<'s>,
        upgraded: &Upgraded,
    ) -> Self {
        let recv_buffer_bytes = upgraded.recv_buffer_bytes;
        let session = Session::new(SessionConfig {
            recv_buffer_bytes,
            recv_buffer_bytes_at_start: recv_buffer_bytes.min(64 * 1024),
            message_bytes_max: recv_buffer_bytes,
            ok_every: shared.config.ok_every,
            strict: shared.config.strict,
            durable: upgraded.durable,
            ..SessionConfig::default()
        });
        Self {
            shared,
            id,
            accepted,
            upgraded: Instant::now(),
            transport,
            session,
            handler: Scripted::new(shared, id, upgraded.durable.is_some()),
            output: Output::default(),
            has_small_buffer: false,
            fired: (0, Vec::new()),
        }
    }

    fn run(mut self, early: &[u8]) -> io::Result<Last> {
        self.moments(true);
        let flow = if early.is_empty() {
            Flow::Continue
        } else {
            self.session
                .on_bytes(early, &mut self.handler, &mut self.output.fresh)
        };
        if let Some(last) = self.after_pass(flow, early.len())? {
            return Ok(last);
        }
        loop {
            self.moments(false);
            if let Some(last) = self.after_pass(Flow::Continue, 0)? {
                return Ok(last);
            }
            let Some(count) = self.read()? else { continue };
            if count == 0 {
                return Ok(Last::ShutDown);
            }
            self.advance_durable();
            let (handler, out) = (&mut self.handler, &mut self.output.fresh);
            let flow = self.session.received(count, handler, out);
            if let Some(last) = self.after_pass(flow, count)? {
                return Ok(last);
            }
        }
    }

    /// Reads what comes until the next thing is due.
    fn read(&mut self) -> io::Result<Option<usize>> {
        let mut room = self.shared.config.read_bytes.max(1);
        if let Some((bytes, period)) = self.handler.slow {
            room = room.min(bytes);
            if !std::mem::replace(&mut self.has_small_buffer, true) {
                // Else the kernel goes on to take megabytes.
                let socket = SockRef::from(self.transport.socket());
                socket.set_recv_buffer_size(bytes.max(4096))?;
            }
            sleep(period, self.shared);
        }
        let due = [self.output.next_due(), self.handler.limits.held_until()];
        let due = due.into_iter().flatten().min();
        let wait = due.map_or(TICK, |due| {
            due.saturating_duration_since(Instant::now()).min(TICK)
        });
        let spare = self.session.spare();
        let room = room.min(spare.len());
        self.transport.read_within(&mut spare[..room], wait)
    }

    /// Rules whose moment is a time or the start, and what changed on the sink.
    fn moments(&mut self, start: bool) {
        let script = self.shared.live.script();
        if self.fired.0 != script.generation || self.fired.1.len() != script.rules.len() {
            self.fired = (script.generation, vec![false; script.rules.len()]);
        }
        let now = Instant::now();
        for (at, rule) in script.rules.iter().enumerate() {
            let matches = match rule.when {
                When::Start => start,
                When::Acked(seq) => self.session.messages_acked() > seq,
                When::After(time) => now >= self.upgraded + time,
                When::At(time) => {
                    let due = script.since + time;
                    now >= due && self.accepted < due && !rule.action.is_of_sink()
                }
                _ => false,
            };
            if !matches || self.fired.1[at] || !rule.conn.contains(self.id) {
                continue;
            }
            self.fired.1[at] = true;
            if script.fire(at) {
                let next = self.session.messages_received();
                self.handler
                    .perform(&rule.action, next, next.saturating_sub(1));
            }
        }
    }

    /// Tells the session what is durable by now.
    fn advance_durable(&mut self) {
        self.handler.see_recreated();
        for table in std::mem::take(&mut self.handler.to_forget) {
            self.session.forget_durable(&table);
        }
        let manners = self.shared.live.durable();
        self.handler
            .durable
            .advance(manners, Instant::now(), &mut self.session);
    }

    /// What follows a pass, or a look at the clock without one: held OKs, injected answers, the
    /// connection's end.
    fn after_pass(&mut self, flow: Flow, count: usize) -> io::Result<Option<Last>> {
        if count > 0 {
            self.handler.applier.end_pass(count);
        }
        let now = Instant::now();
        let out = &mut self.output.fresh;
        let wants_end = self.handler.end.is_some() && flow == Flow::Continue;
        if self.handler.limits.release(now) || wants_end {
            self.session.flush(&mut self.handler, out);
        }
        let mut flow = flow;
        if flow == Flow::Continue && self.shared.live.refuses_writes() {
            flow = self.session.close(close::NORMAL, "", out);
        }
        self.inject();
        if let Some(log) = &self.shared.log {
            let acked = self.session.messages_acked();
            log.note(self.id, |conn, _| conn.acked = acked);
        }
        self.output.delay = self.handler.delay;
        self.output.queue(now);
        let used_up = self.shared.config.drop_after;
        let used_up = used_up.is_some_and(|most| self.session.messages_received() >= most);
        if flow == Flow::Continue && self.handler.end.is_none() && !used_up {
            self.output.write_due(&mut self.transport, now)?;
            return Ok(None);
        }
        if used_up && flow == Flow::Continue {
            flow = Flow::Close(Ending::Drop);
        }
        self.end(flow).map(Some)
    }

    fn inject(&mut self) {
        for injected in self.handler.injected.drain(..) {
            match injected {
                Injected::Bytes(bytes) => self.output.fresh.extend_from_slice(&bytes),
                Injected::DuplicateOk => {
                    if let Some(last) = self.session.messages_acked().checked_sub(1) {
                        self.session.inject(&ok(last), &mut self.output.fresh);
                    }
                }
            }
        }
    }

    /// Writes what is left and ends the connection as the script or the session wants it.
    fn end(&mut self, flow: Flow) -> io::Result<Last> {
        let counters = &self.shared.counters;
        let counter = match (&self.handler.end, flow) {
            (Some(Action::Close { .. }), _)
            | (None, Flow::Close(Ending::Answered | Ending::Initiated)) => &counters.closes,
            _ => &counters.drops,
        };
        counter.fetch_add(1, Relaxed);
        let ending = self.handler.end.take();
        if let Some(Action::Close { code, reason }) = &ending {
            let payload = close::payload(*code, reason);
            ws::append_server_frame(&mut self.output.fresh, Opcode::Close, &payload);
            self.output.queue(Instant::now());
        }
        while let Some(due) = self.output.next_due() {
            sleep(due.saturating_duration_since(Instant::now()), self.shared);
            if self.shared.is_stopping() {
                return Ok(Last::ShutDown);
            }
            self.output.write_due(&mut self.transport, Instant::now())?;
        }
        match (ending, flow) {
            (Some(Action::Rst), _) => reset(self.transport.socket()),
            (Some(Action::HalfOpen), _) => Ok(half_open(self.shared)),
            (None, Flow::Close(Ending::Drop)) => Ok(Last::ShutDown),
            _ => linger(&mut self.transport, self.shared),
        }
    }
}
