//! What a handler can see and hold back beyond messages, for records and fault injection.

use super::*;
use crate::response;
use crate::upgrade::DurableTier;
use crate::ws::{self, Opcode};
use std::sync::Arc;

/// Takes every message; commits table `t`.
#[derive(Default)]
struct Watcher {
    limit: Option<u64>,
    silent_to_pings: bool,
    silent_to_closes: bool,
    refuse_at: Option<u64>,
    seen: Vec<(Opcode, Vec<u8>)>,
    silenced: Vec<u64>,
    committed: Vec<i64>,
}

impl MessageHandler for Watcher {
    fn message(&mut self, _: &[u8], seq: u64, commits: &mut Commits) -> Result<Outcome, Refusal> {
        if self.refuse_at == Some(seq) {
            return Err(Refusal::new(response::Status::WriteError, "no"));
        }
        commits.push(Arc::from("t"), seq.cast_signed() + 1);
        self.committed.extend(commits.iter().map(|(_, txn)| txn));
        Ok(Outcome::Committed)
    }

    fn control_frame(&mut self, opcode: Opcode, payload: &[u8]) -> bool {
        self.seen.push((opcode, payload.to_vec()));
        match opcode {
            Opcode::Ping => !self.silent_to_pings,
            _ => !self.silent_to_closes,
        }
    }

    fn silenced(&mut self, _: &[u8], seq: u64) {
        self.silenced.push(seq);
    }

    fn ok_limit(&self) -> u64 {
        self.limit.unwrap_or(u64::MAX)
    }
}

fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ws::append_client_frame(&mut bytes, opcode, payload, [1, 2, 3, 4]);
    bytes
}

fn ok(seq: i64, txn: i64) -> Vec<u8> {
    let (mut payload, mut out) = (Vec::new(), Vec::new());
    response::write_ok(&mut payload, seq, [("t", txn)]);
    ws::append_server_frame(&mut out, Opcode::Binary, &payload);
    out
}

#[test]
fn a_limit_holds_oks_back_until_a_flush_without_it() {
    let mut watcher = Watcher {
        limit: Some(1),
        ..Watcher::default()
    };
    let (mut session, mut out) = (Session::new(SessionConfig::default()), Vec::new());
    let three = frame(Opcode::Binary, b"m").repeat(3);
    session.on_bytes(&three, &mut watcher, &mut out);
    assert_eq!(out, ok(0, 1));
    session.flush(&mut watcher, &mut out);
    assert_eq!((out.len(), session.messages_acked()), (ok(0, 1).len(), 1));
    watcher.limit = None;
    out.clear();
    session.flush(&mut watcher, &mut out);
    assert_eq!(out, ok(2, 3));
    assert_eq!(watcher.committed, [1, 2, 3]);
}

#[test]
fn control_frames_are_seen_and_may_go_without_an_answer() {
    let mut watcher = Watcher {
        silent_to_pings: true,
        silent_to_closes: true,
        ..Watcher::default()
    };
    let (mut session, mut out) = (Session::new(SessionConfig::default()), Vec::new());
    let bytes = [
        frame(Opcode::Ping, b"?"),
        frame(Opcode::Pong, b"!"),
        frame(Opcode::Binary, b"m"),
        frame(Opcode::Close, &[3, 0xE8]),
    ];
    let flow = session.on_bytes(&bytes.concat(), &mut watcher, &mut out);
    assert_eq!((out, flow), (ok(0, 1), Flow::Close(Ending::Drop)));
    let seen = [
        (Opcode::Ping, b"?".to_vec()),
        (Opcode::Pong, b"!".to_vec()),
        (Opcode::Close, vec![3, 0xE8]),
    ];
    assert_eq!(watcher.seen, seen);
}

#[test]
fn messages_behind_a_refusal_are_seen_as_silenced() {
    let mut watcher = Watcher {
        refuse_at: Some(1),
        ..Watcher::default()
    };
    let (mut session, mut out) = (Session::new(SessionConfig::default()), Vec::new());
    let four = frame(Opcode::Binary, b"m").repeat(4);
    session.on_bytes(&four, &mut watcher, &mut out);
    assert_eq!((watcher.silenced, session.is_broken()), (vec![2, 3], true));
}

#[test]
fn a_forgotten_table_may_become_durable_from_its_start_again() {
    let config = SessionConfig {
        durable: Some(DurableTier::On),
        ..SessionConfig::default()
    };
    let (mut session, mut watcher) = (Session::new(config), Watcher::default());
    let table: Arc<str> = Arc::from("t");
    let mut durable = |session: &mut Session, txn| {
        let mut out = Vec::new();
        session.advance_durable(&table, txn);
        session.on_bytes(&frame(Opcode::Pong, b""), &mut watcher, &mut out);
        !out.is_empty()
    };
    assert!(durable(&mut session, 5));
    assert!(!durable(&mut session, 1));
    session.forget_durable("t");
    assert!(durable(&mut session, 1));
}
