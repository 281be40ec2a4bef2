//! What a sink remembers of its connections, for tests to look at. Bounded: what exceeds a limit
//! is counted and not kept.

use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How much is kept. Memory: about 300 bytes a connection, 64 bytes a message, and the payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// Connections; of later ones nothing is kept.
    pub connections_max: usize,
    /// Messages and control frames, over all connections.
    pub events_max: usize,
    /// Bytes of payloads, over all connections; 0 keeps hashes only.
    pub payload_bytes_max: usize,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self {
            connections_max: 100_000,
            events_max: 1_000_000,
            payload_bytes_max: 64 * 1024 * 1024,
        }
    }
}

/// What was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// In the order of their accept: the place is the connection's number.
    pub connections: Vec<ConnectionRecord>,
    /// Connections and events that were not kept.
    pub dropped: u64,
}

/// One connection. Times count from the start of the sink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionRecord {
    /// When it was accepted.
    pub accepted_at: Duration,
    /// Headers of the upgrade request, in their order; the request line comes first, with an
    /// empty name.
    pub request: Vec<(String, String)>,
    /// HTTP status of the answer to it.
    pub http_status: Option<u16>,
    /// Messages, by their sequence number unless some were not kept.
    pub messages: Vec<MessageRecord>,
    /// PINGs of the client: when, and the payload.
    pub pings: Vec<(Duration, Vec<u8>)>,
    /// PONGs of the client.
    pub pongs: Vec<(Duration, Vec<u8>)>,
    /// CLOSE frames of the client: when, and the code.
    pub closes: Vec<(Duration, Option<u16>)>,
    /// Messages that OKs of this connection cover, as a count.
    pub acked: u64,
    /// When it ended.
    pub ended_at: Option<Duration>,
}

impl ConnectionRecord {
    /// A header of the upgrade request, by its name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.request.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// When its receive pass took it.
    pub at: Duration,
    /// Its sequence number on the connection.
    pub seq: u64,
    /// Its length, bytes.
    pub bytes: usize,
    /// [`payload_hash`] of it.
    pub hash: u64,
    /// The message, if there was room.
    pub payload: Option<Vec<u8>>,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Applied and committed.
    Applied,
    /// Applied, waits for a later message to commit it.
    Deferred,
    /// Refused with this status byte.
    Refused(u8),
    /// Consumed in silence, because an earlier one was refused.
    Silenced,
    /// Met the end of the connection that the script wanted; not applied.
    Cut,
    /// Applied (and stored); then the end of the connection, or an error, came in place of its OK.
    AppliedAndCut,
}

/// A message in one number; equal for equal bytes, in every process.
pub fn payload_hash(message: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(message);
    hasher.finish()
}

impl Records {
    /// Messages of all connections in the order of connections.
    pub fn messages(&self) -> impl Iterator<Item = &MessageRecord> {
        self.connections.iter().flat_map(|conn| &conn.messages)
    }

    /// The most connections that were accepted within any stretch of time of that length: what a
    /// client that paces its attempts keeps low.
    pub fn most_connects_within(&self, window: Duration) -> usize {
        let times: Vec<Duration> = self.connections.iter().map(|c| c.accepted_at).collect();
        let mut first = 0;
        let mut most = 0;
        for (last, time) in times.iter().enumerate() {
            while first < last && time.saturating_sub(times[first]) >= window {
                first += 1;
            }
            most = most.max(last + 1 - first);
        }
        most
    }

    /// As JSON: an object of `connections` and `dropped`, with the names of the fields; times in
    /// nanoseconds, hashes in hexadecimal. Payloads and credentials are left out.
    pub fn to_json(&self) -> Value {
        let connections: Vec<Value> = self.connections.iter().map(connection_json).collect();
        json!({ "connections": connections, "dropped": self.dropped })
    }
}

fn connection_json(conn: &ConnectionRecord) -> Value {
    let request: Vec<Value> = conn
        .request
        .iter()
        .map(|(name, value)| {
            if name.eq_ignore_ascii_case("authorization") {
                json!([name, value.split(' ').next()])
            } else {
                json!([name, value])
            }
        })
        .collect();
    let frames = |frames: &[(Duration, Vec<u8>)]| -> Vec<Value> {
        frames
            .iter()
            .map(|(at, payload)| json!({ "at": nanos(*at), "bytes": payload.len() }))
            .collect()
    };
    let closes: Vec<Value> = conn
        .closes
        .iter()
        .map(|(at, code)| json!({ "at": nanos(*at), "code": code }))
        .collect();
    let messages: Vec<Value> = conn.messages.iter().map(message_json).collect();
    json!({
        "accepted_at": nanos(conn.accepted_at),
        "request": request,
        "http_status": conn.http_status,
        "messages": messages,
        "pings": frames(&conn.pings),
        "pongs": frames(&conn.pongs),
        "closes": closes,
        "acked": conn.acked,
        "ended_at": conn.ended_at.map(nanos),
    })
}

fn message_json(message: &MessageRecord) -> Value {
    let fate = match message.fate {
        Fate::Applied => "applied".to_owned(),
        Fate::Deferred => "deferred".to_owned(),
        Fate::Refused(status) => format!("refused 0x{status:02x}"),
        Fate::Silenced => "silenced".to_owned(),
        Fate::Cut => "cut".to_owned(),
        Fate::AppliedAndCut => "applied and cut".to_owned(),
    };
    json!({
        "at": nanos(message.at),
        "seq": message.seq,
        "bytes": message.bytes,
        "hash": format!("{:016x}", message.hash),
        "fate": fate,
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Records under construction, shared by the connections.
#[derive(Debug)]
pub(super) struct Log {
    started: Instant,
    limits: RecordLimits,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    records: Records,
    events: usize,
    payload_bytes: usize,
}

impl Log {
    pub(super) fn new(limits: RecordLimits, started: Instant) -> Self {
        Self {
            started,
            limits,
            inner: Mutex::default(),
        }
    }

    pub(super) fn look<T>(&self, at: impl FnOnce(&Records) -> T) -> T {
        self.with(|inner| at(&inner.records))
    }

    /// A connection was accepted. They come in the order of their numbers.
    pub(super) fn accept(&self) {
        let accepted_at = self.started.elapsed();
        self.with(|inner| {
            if inner.records.connections.len() < self.limits.connections_max {
                inner.records.connections.push(ConnectionRecord {
                    accepted_at,
                    ..ConnectionRecord::default()
                });
            } else {
                inner.records.dropped += 1;
            }
        });
    }

    /// Changes the record of a connection.
    pub(super) fn note(&self, id: u64, change: impl FnOnce(&mut ConnectionRecord, Duration)) {
        let now = self.started.elapsed();
        self.with(|inner| {
            let place = usize::try_from(id).ok();
            if let Some(conn) = place.and_then(|at| inner.records.connections.get_mut(at)) {
                change(conn, now);
            }
        });
    }

    /// The same for something that counts as an event.
    pub(super) fn event(&self, id: u64, change: impl FnOnce(&mut ConnectionRecord, Duration)) {
        if self.with(|inner| self.take_event(inner)) {
            self.note(id, change);
        }
    }

    pub(super) fn message(&self, id: u64, seq: u64, message: &[u8], fate: Fate) {
        let keeps_payload = self.with(|inner| {
            let room = self.limits.payload_bytes_max - inner.payload_bytes;
            let keeps = message.len() <= room;
            inner.payload_bytes += if keeps { message.len() } else { 0 };
            keeps && self.limits.payload_bytes_max > 0
        });
        let (hash, bytes) = (payload_hash(message), message.len());
        let payload = keeps_payload.then(|| message.to_vec());
        self.event(id, |conn, at| {
            conn.messages.push(MessageRecord {
                at,
                seq,
                bytes,
                hash,
                payload,
                fate,
            });
        });
    }

    fn take_event(&self, inner: &mut Inner) -> bool {
        let has_room = inner.events < self.limits.events_max;
        if has_room {
            inner.events += 1;
        } else {
            inner.records.dropped += 1;
        }
        has_room
    }

    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_densest_stretch_of_connects_is_found() {
        let connections = [0, 5, 9, 20, 29, 30].map(|millis| ConnectionRecord {
            accepted_at: Duration::from_millis(millis),
            ..ConnectionRecord::default()
        });
        let records = Records {
            connections: connections.to_vec(),
            dropped: 0,
        };
        let within = |millis| records.most_connects_within(Duration::from_millis(millis));
        assert_eq!(
            (within(1), within(10), within(11), within(100)),
            (1, 3, 3, 6)
        );
        assert_eq!(Records::default().most_connects_within(Duration::MAX), 0);
    }
}
