//! The upgrade request, and what the script does about it.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use forebay_wire::upgrade::{self, Answer, DurableTier, FixedReply, UpgradePolicy};
use forebay_wire::ws;

use super::ends::{Last, half_open, linger, reset, sleep};
use super::transport::Transport;
use crate::sink::connection::PATIENCE;
use crate::sink::script::{Action, When};
use crate::sink::server::Shared;

/// A connection that was upgraded.
pub(super) struct Upgraded {
    /// Bytes that came behind the request.
    pub(super) early: Vec<u8>,
    pub(super) durable: Option<DurableTier>,
    /// Receive buffer that goes with the advertised batch size.
    pub(super) recv_buffer_bytes: usize,
}

/// The upgrade, or the connection's end.
pub(super) enum Outcome {
    Upgraded(Upgraded),
    Ended(Last),
}

/// What the script wants of one upgrade.
#[derive(Default)]
struct Wanted {
    headers: Vec<(String, Option<String>)>,
    recv_buffer_bytes: Option<usize>,
    half: bool,
    raw: Option<Vec<u8>>,
    end: Option<Action>,
}

pub(super) fn upgrade(
    transport: &mut Transport<'_>,
    id: u64,
    shared: &Shared,
) -> io::Result<Outcome> {
    let mut head = Vec::with_capacity(1024);
    let mut piece = [0; 4096];
    let until = Instant::now() + PATIENCE;
    // Judged once to know that it is whole, and again when the script has spoken.
    while upgrade::answer(&head, &UpgradePolicy::default()).is_none() {
        if shared.is_stopping() || Instant::now() >= until {
            return Ok(Outcome::Ended(Last::ShutDown));
        }
        match transport.read_within(&mut piece, Duration::from_millis(20))? {
            Some(0) => return Ok(Outcome::Ended(Last::ShutDown)),
            Some(count) => head.extend_from_slice(&piece[..count]),
            None => {}
        }
    }
    record_request(&head, id, shared);
    let mut policy = shared.live.policy();
    let wanted = ask_script(&mut policy, id, shared);
    if let Some(raw) = &wanted.raw {
        transport.write(raw)?;
    }
    match &wanted.end {
        Some(Action::Rst) => return Ok(Outcome::Ended(reset(transport.socket())?)),
        Some(Action::HalfOpen) => return Ok(Outcome::Ended(half_open(shared))),
        Some(_) => return linger(transport, shared).map(Outcome::Ended),
        None => {}
    }
    if wanted.raw.is_some() {
        return linger(transport, shared).map(Outcome::Ended);
    }
    // The role may have changed while the script paused.
    let live = shared.live.policy();
    (policy.role, policy.authorization) = (live.role, live.authorization);
    reply(transport, head, &policy, &wanted, id, shared)
}

fn reply(
    transport: &mut Transport<'_>,
    mut head: Vec<u8>,
    policy: &UpgradePolicy,
    wanted: &Wanted,
    id: u64,
    shared: &Shared,
) -> io::Result<Outcome> {
    match upgrade::answer(&head, policy) {
        None => Ok(Outcome::Ended(Last::ShutDown)),
        Some(Answer::Reject { status, response }) => {
            shared.counters.upgrades_rejected.fetch_add(1, Relaxed);
            note_status(status, id, shared);
            transport.write(&response)?;
            linger(transport, shared).map(Outcome::Ended)
        }
        Some(Answer::Accept(accepted)) => {
            let response = edit(&accepted.response, &wanted.headers);
            note_status(101, id, shared);
            if wanted.half {
                transport.write(&response[..response.len() / 2])?;
                return Ok(Outcome::Ended(half_open(shared)));
            }
            shared.counters.upgrades.fetch_add(1, Relaxed);
            transport.write(&response)?;
            let recv_buffer_bytes = wanted.recv_buffer_bytes;
            Ok(Outcome::Upgraded(Upgraded {
                early: head.split_off(accepted.consumed),
                durable: accepted.durable,
                recv_buffer_bytes: recv_buffer_bytes.unwrap_or(shared.config.recv_buffer_bytes),
            }))
        }
    }
}

fn ask_script(policy: &mut UpgradePolicy, id: u64, shared: &Shared) -> Wanted {
    let script = shared.live.script();
    let mut wanted = Wanted::default();
    for (at, rule) in script.rules.iter().enumerate() {
        if rule.when != When::Upgrade || !rule.conn.contains(id) || !script.fire(at) {
            continue;
        }
        match &rule.action {
            Action::Http { status, headers } => {
                policy.fixed = Some(FixedReply {
                    status: *status,
                    headers: headers.clone(),
                });
            }
            Action::Header { name, value } => wanted.headers.push((name.clone(), value.clone())),
            Action::Cap(cap) => {
                policy.max_batch_size = *cap;
                let buffer = cap.map(|cap| usize::try_from(cap).unwrap_or(usize::MAX));
                wanted.recv_buffer_bytes =
                    buffer.map(|buffer| buffer.saturating_add(ws::HEADER_BYTES_MAX));
            }
            Action::HalfResponse => wanted.half = true,
            Action::Raw(bytes) => wanted.raw = Some(bytes.clone()),
            Action::Pause(time) => sleep(*time, shared),
            ending if ending.is_ending() => wanted.end = Some(ending.clone()),
            of_sink => shared.live.perform(of_sink, &shared.counters),
        }
    }
    wanted
}

/// Sets and takes out headers of a response.
fn edit(response: &[u8], changes: &[(String, Option<String>)]) -> Vec<u8> {
    let text = String::from_utf8_lossy(response);
    let mut lines: Vec<String> = text.trim_end().split("\r\n").map(str::to_owned).collect();
    for (name, value) in changes {
        let is_it = |line: &String| {
            let named = line.split_once(':').map(|(known, _)| known);
            named.is_some_and(|known| known.eq_ignore_ascii_case(name))
        };
        match (lines.iter().position(is_it), value) {
            (Some(at), Some(value)) => lines[at] = format!("{name}: {value}"),
            (Some(at), None) => drop(lines.remove(at)),
            (None, Some(value)) => lines.push(format!("{name}: {value}")),
            (None, None) => {}
        }
    }
    (lines.join("\r\n") + "\r\n\r\n").into_bytes()
}

fn record_request(head: &[u8], id: u64, shared: &Shared) {
    let Some(log) = &shared.log else { return };
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n\r\n").next().unwrap_or("").split("\r\n");
    let first = lines.next().unwrap_or("").to_owned();
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    let request: Vec<_> = std::iter::once((String::new(), first))
        .chain(headers)
        .collect();
    log.note(id, |conn, _| conn.request = request);
}

fn note_status(status: u16, id: u64, shared: &Shared) {
    if let Some(log) = &shared.log {
        log.note(id, |conn, _| conn.http_status = Some(status));
    }
}
