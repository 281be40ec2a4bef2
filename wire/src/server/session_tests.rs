//! Scripted clients against [`Session`]: bytes in, bytes out, with the published vectors.

use super::super::talk::DURABLE_POLL;
use super::super::{Commits, Outcome, Refusal};
use super::*;
use crate::response::{self, Status};
use crate::upgrade::DurableTier;
use proptest::prelude::*;

/// Obeys what a message says: `commit`, `commit TABLE`, `defer`, `role`, `refuse STATUS TEXT`.
#[derive(Default)]
struct Script {
    seen: Vec<(u64, String)>,
    settles: usize,
    settle_fails: bool,
    txn: i64,
}

impl MessageHandler for Script {
    fn message(
        &mut self,
        message: &[u8],
        seq: u64,
        commits: &mut Commits,
    ) -> Result<Outcome, Refusal> {
        let text = String::from_utf8_lossy(message).into_owned();
        self.seen.push((seq, text.clone()));
        let mut words = text.splitn(3, ' ');
        match words.next() {
            Some("defer") => Ok(Outcome::Deferred),
            Some("role") => Ok(Outcome::RoleChange),
            Some("drop") => Ok(Outcome::Drop),
            Some("refuse") => {
                let code = words
                    .next()
                    .and_then(|code| code.parse().ok())
                    .expect("a status");
                Err(Refusal::new(
                    Status::from_code(code),
                    words.next().unwrap_or_default(),
                ))
            }
            _ => {
                if let Some(table) = words.next() {
                    self.txn += 1;
                    commits.push(Arc::from(table), self.txn);
                }
                Ok(Outcome::Committed)
            }
        }
    }

    fn settle(&mut self) -> Result<(), Refusal> {
        self.settles += 1;
        if self.settle_fails {
            return Err(Refusal::new(Status::WriteError, "disk full"));
        }
        Ok(())
    }
}

const KEY: [u8; 4] = [0x85, 0xED, 0x68, 0x8E];

/// Frames of a client; `text` as binary messages.
fn messages(texts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        ws::append_client_frame(&mut bytes, Opcode::Binary, text.as_bytes(), KEY);
    }
    bytes
}

fn frame(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ws::append_client_frame(&mut bytes, opcode, payload, KEY);
    bytes
}

/// A server's frame, for comparison.
fn says(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ws::append_server_frame(&mut bytes, opcode, payload);
    bytes
}

fn ok(seq: i64, tables: &[(&str, i64)]) -> Vec<u8> {
    let mut payload = Vec::new();
    response::write_ok(&mut payload, seq, tables.iter().copied());
    says(Opcode::Binary, &payload)
}

fn error(status: Status, seq: i64, text: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    response::write_error(&mut payload, status, seq, text);
    says(Opcode::Binary, &payload)
}

fn closes(code: u16, reason: &str) -> Vec<u8> {
    says(Opcode::Close, &close::payload(code, reason))
}

/// One pass of a fresh session.
fn pass(config: SessionConfig, bytes: &[u8]) -> (Vec<u8>, Flow, Script) {
    let (mut session, mut script, mut out) = (Session::new(config), Script::default(), vec![]);
    let flow = session.on_bytes(bytes, &mut script, &mut out);
    (out, flow, script)
}

fn default_pass(bytes: &[u8]) -> (Vec<u8>, Flow) {
    let (out, flow, _) = pass(SessionConfig::default(), bytes);
    (out, flow)
}

#[test]
fn answers_are_the_published_bytes() {
    let ok_7 = b"\x82\x0b\x00\x07\0\0\0\0\0\0\0\0\0";
    let burst = messages(&["commit"; 8]);
    assert_eq!(default_pass(&burst).0, ok_7);

    let mut session = Session::new(SessionConfig::default());
    let mut script = Script {
        txn: 41,
        ..Script::default()
    };
    let mut out = Vec::new();
    session.on_bytes(&messages(&["commit trades"]), &mut script, &mut out);
    assert_eq!(
        out,
        b"\x82\x1b\0\0\0\0\0\0\0\0\0\x01\0\x06\0trades\x2a\0\0\0\0\0\0\0"
    );

    let mut script = messages(&["commit"; 5]);
    script.extend(messages(&["refuse 3 type mismatch"]));
    let mismatch = b"\x82\x18\x03\x05\0\0\0\0\0\0\0\x0d\0type mismatch";
    assert_eq!(
        default_pass(&script).0,
        [&ok(4, &[]), &mismatch[..]].concat()
    );

    let text = "delta symbol dictionary gap: deltaStartId 3 exceeds dictionary size 0";
    let gap = default_pass(&messages(&[&format!("refuse 13 {text}")])).0;
    assert_eq!(
        gap,
        [b"\x82\x50\x0d\0\0\0\0\0\0\0\0\x45\0", text.as_bytes()].concat()
    );

    assert_eq!(default_pass(&frame(Opcode::Ping, b"")).0, b"\x8a\x00");
    assert_eq!(
        default_pass(&frame(Opcode::Close, b"\x03\xe8")).0,
        b"\x88\x02\x03\xe8"
    );
    let huge = [0x82, 0xFF, 0, 0, 0, 0, 0, 0x20, 0, 1, 1, 2, 3, 4];
    let too_big = b"\x88\x24\x03\xf1frame payload exceeds maximum size";
    assert_eq!(
        default_pass(&huge),
        (too_big.to_vec(), Flow::Close(Ending::Initiated))
    );
}

#[test]
fn a_burst_gets_an_ok_per_eight_and_one_at_its_end() {
    let want = [ok(7, &[]), ok(15, &[]), ok(18, &[])].concat();
    let (out, flow, script) = pass(SessionConfig::default(), &messages(&["commit"; 19]));
    assert_eq!((out, flow), (want, Flow::Continue));
    assert_eq!(script.settles, 3, "once per OK");
}

#[test]
fn after_a_refusal_the_connection_is_silent_but_alive() {
    let (mut session, mut script) = (Session::new(SessionConfig::default()), Script::default());
    let mut out = Vec::new();
    let burst = messages(&["commit t", "refuse 9 full", "commit t", "commit t"]);
    session.on_bytes(&burst, &mut script, &mut out);
    assert_eq!(
        out,
        [ok(0, &[("t", 1)]), error(Status::WriteError, 1, "full")].concat()
    );
    assert_eq!(session.messages_received(), 4, "later messages are counted");
    assert_eq!(script.seen.len(), 2, "and not processed");
    out.clear();
    let later = [frame(Opcode::Ping, b"hi"), messages(&["commit"])].concat();
    assert_eq!(
        session.on_bytes(&later, &mut script, &mut out),
        Flow::Continue
    );
    assert_eq!(out, says(Opcode::Pong, b"hi"));
}

#[test]
fn deferred_messages_wait_for_the_one_that_commits() {
    let (mut session, mut script) = (Session::new(SessionConfig::default()), Script::default());
    let mut out = Vec::new();
    let opening = messages(&["commit", "defer", "defer"]);
    session.on_bytes(&opening, &mut script, &mut out);
    assert_eq!(out, ok(0, &[]));
    out.clear();
    session.on_bytes(&frame(Opcode::Ping, b""), &mut script, &mut out);
    assert_eq!(
        out,
        says(Opcode::Pong, b""),
        "a ping acknowledges nothing of the group"
    );
    out.clear();
    let closing = [messages(&["commit t"]), messages(&["commit"])].concat();
    session.on_bytes(&closing, &mut script, &mut out);
    assert_eq!(
        out,
        [ok(3, &[("t", 1)]), ok(4, &[])].concat(),
        "the group's OK is eager"
    );
}

#[test]
fn pings_are_flush_points_and_pongs_are_ignored() {
    let mut bytes = messages(&["commit"]);
    bytes.extend(frame(Opcode::Pong, b"x"));
    bytes.extend(frame(Opcode::Ping, &[7; 125]));
    bytes.extend(messages(&["commit"]));
    let want = [ok(0, &[]), says(Opcode::Pong, &[7; 125]), ok(1, &[])].concat();
    assert_eq!(default_pass(&bytes), (want, Flow::Continue));
}

#[test]
fn closes_are_answered_after_the_acks_and_end_the_reading() {
    let mut bytes = messages(&["commit"]);
    bytes.extend(frame(Opcode::Close, &2500_u16.to_be_bytes()));
    bytes.extend(messages(&["commit"]));
    let (mut session, mut script) = (Session::new(SessionConfig::default()), Script::default());
    let mut out = Vec::new();
    let end = Flow::Close(Ending::Answered);
    assert_eq!(session.on_bytes(&bytes, &mut script, &mut out), end);
    assert_eq!(out, [ok(0, &[]), closes(1002, "")].concat());
    assert_eq!(
        session.on_bytes(&messages(&["commit"]), &mut script, &mut out),
        end
    );
    assert_eq!(script.seen.len(), 1, "what follows a CLOSE is not read");
}

#[test]
fn illegal_frames_drop_and_unsupported_ones_are_closed_with_a_reason() {
    let before = messages(&["commit"]);
    let drop = default_pass(&[&before[..], &[0x82, 0x00]].concat());
    assert_eq!(drop, (vec![], Flow::Close(Ending::Drop)), "no OK, no CLOSE");
    let initiated = Flow::Close(Ending::Initiated);
    let fragmented = "fragmented WebSocket frames are not supported";
    for lead in [0x02, 0x80, 0x00] {
        let bytes = [&before[..], &[lead, 0x80, 1, 2, 3, 4]].concat();
        let want = [ok(0, &[]), closes(1002, fragmented)].concat();
        assert_eq!(default_pass(&bytes), (want, initiated));
    }
    let text = "text frames are not supported, QWP requires binary frames";
    let want = (closes(1003, text), initiated);
    assert_eq!(default_pass(&frame(Opcode::Text, b"hello")), want);
}

#[test]
fn frames_up_to_the_receive_buffer_are_taken_and_none_above() {
    let config = SessionConfig {
        recv_buffer_bytes: 100_000,
        recv_buffer_bytes_at_start: 1024,
        ..SessionConfig::default()
    };
    let fits = "x".repeat(100_000 - 14 + 6);
    let header = ws::encode_client_header(Opcode::Binary, fits.len(), KEY).len();
    let fits = &fits[..100_000 - header];
    let (out, _, script) = pass(config.clone(), &messages(&[fits]));
    assert_eq!(out, ok(0, &[]));
    assert_eq!(script.seen[0].1, fits);
    let (out, ..) = pass(config.clone(), &messages(&[&format!("{fits}x")]));
    assert_eq!(
        out,
        closes(1009, "frame payload exceeds receive buffer capacity")
    );
    let (out, ..) = pass(config, &messages(&[&"x".repeat(100_001)]));
    assert_eq!(out, closes(1009, "frame payload exceeds maximum size"));
}

#[test]
fn a_handler_can_drop_the_connection_without_an_answer_to_its_message() {
    let (out, flow, script) = pass(
        SessionConfig::default(),
        &messages(&["commit", "drop", "commit"]),
    );
    let end = Flow::Close(Ending::Drop);
    assert_eq!((out, flow, script.seen.len()), (ok(0, &[]), end, 2));
}

#[test]
fn a_role_change_acks_what_is_done_and_closes_1000() {
    let (out, flow, script) = pass(
        SessionConfig::default(),
        &messages(&["commit t", "role", "commit t"]),
    );
    assert_eq!(out, [ok(0, &[("t", 1)]), closes(1000, "")].concat());
    assert_eq!(
        (flow, script.seen.len()),
        (Flow::Close(Ending::Initiated), 2)
    );
}

#[test]
fn what_cannot_be_settled_is_refused_instead_of_acknowledged() {
    let mut script = Script {
        settle_fails: true,
        ..Script::default()
    };
    let (mut session, mut out) = (Session::new(SessionConfig::default()), Vec::new());
    session.on_bytes(&messages(&["commit t", "commit t"]), &mut script, &mut out);
    assert_eq!(out, error(Status::WriteError, 0, "disk full"));
    assert!(session.is_broken());
    assert_eq!(session.messages_acked(), 0);
}

#[test]
fn held_back_oks_are_sent_when_they_are_allowed() {
    let config = SessionConfig {
        auto_ack: false,
        ..SessionConfig::default()
    };
    let (mut session, mut script, mut out) = (Session::new(config), Script::default(), vec![]);
    session.on_bytes(&messages(&["commit t"; 3]), &mut script, &mut out);
    assert_eq!(out, []);
    session.ack_up_to(1, &mut out);
    assert_eq!(out, ok(1, &[("t", 2)]));
    out.clear();
    session.ack_up_to(100, &mut out);
    assert_eq!(out, ok(2, &[("t", 3)]), "never more than is done");
}

#[test]
fn durable_acks_follow_oks_in_passes_that_handled_a_frame() {
    let config = SessionConfig {
        durable: Some(DurableTier::On),
        ..SessionConfig::default()
    };
    let (mut session, mut script, mut out) = (Session::new(config), Script::default(), vec![]);
    let table: Arc<str> = Arc::from("trades");
    session.on_bytes(&messages(&["commit trades"]), &mut script, &mut out);
    out.clear();
    session.advance_durable(&table, 42);
    session.advance_durable(&table, 41);
    session.on_bytes(&[], &mut script, &mut out);
    assert_eq!(out, [], "never without an inbound frame");
    session.on_bytes(&frame(Opcode::Ping, b""), &mut script, &mut out);
    let ack = b"\x82\x13\x02\x01\0\x06\0trades\x2a\0\0\0\0\0\0\0";
    assert_eq!(out, [&ack[..], &says(Opcode::Pong, b"")].concat());
    out.clear();
    session.on_bytes(&frame(Opcode::Binary, &DURABLE_POLL), &mut script, &mut out);
    assert_eq!(
        out,
        ok(1, &[]),
        "a poll takes a number, and nothing advanced"
    );
}

#[test]
fn polls_without_a_grant_are_parse_errors() {
    let (out, ..) = pass(
        SessionConfig::default(),
        &frame(Opcode::Binary, &DURABLE_POLL),
    );
    let want = error(Status::ParseError, 0, "durable ACK poll was not negotiated");
    assert_eq!(out, want);
}

#[test]
fn local_durable_acks_need_the_local_tier() {
    for (tier, acks) in [(DurableTier::Local, 1), (DurableTier::Replicated, 0)] {
        let config = SessionConfig {
            durable: Some(tier),
            ..SessionConfig::default()
        };
        let (mut session, mut out) = (Session::new(config), Vec::new());
        session.advance_local_durable(&Arc::from("trades"), 42);
        let ping = frame(Opcode::Ping, b"");
        session.on_bytes(&ping, &mut Script::default(), &mut out);
        let ack = b"\x82\x13\x0e\x01\0\x06\0trades\x2a\0\0\0\0\0\0\0";
        assert_eq!(
            out,
            [&ack.repeat(acks)[..], &says(Opcode::Pong, b"")].concat()
        );
    }
}

#[test]
fn strict_sessions_refuse_empty_messages_and_long_length_forms() {
    let strict = SessionConfig {
        strict: true,
        ..SessionConfig::default()
    };
    let empty = frame(Opcode::Binary, b"");
    assert_eq!(
        default_pass(&empty).0,
        ok(0, &[]),
        "genuine: an empty message commits"
    );
    let (out, ..) = pass(strict.clone(), &empty);
    assert_eq!(out, error(Status::ParseError, 0, "strict: empty message"));
    let long_form = [0x82, 0xFE, 0, 1, 0, 0, 0, 0, b'c'];
    assert_eq!(default_pass(&long_form).0, ok(0, &[]));
    let (out, ..) = pass(strict, &long_form);
    let text = "strict: WebSocket length not in its shortest form";
    assert_eq!(out, error(Status::ParseError, 0, text));
}

#[test]
fn read_only_and_small_message_servers_refuse_by_status() {
    let read_only = SessionConfig {
        read_only: true,
        ..SessionConfig::default()
    };
    let (out, ..) = pass(read_only, &messages(&["commit"]));
    assert_eq!(out, error(Status::SecurityError, 0, "server is read-only"));
    let small = SessionConfig {
        message_bytes_max: 5,
        ..SessionConfig::default()
    };
    let (out, ..) = pass(small, &messages(&["commit"]));
    let text = "message size exceeds maximum buffer size of 5 bytes";
    assert_eq!(out, error(Status::ParseError, 0, text));
}

#[test]
fn the_server_s_own_close_acks_first() {
    let config = SessionConfig {
        auto_ack: false,
        ..SessionConfig::default()
    };
    let (mut session, mut script, mut out) = (Session::new(config), Script::default(), vec![]);
    session.on_bytes(&messages(&["commit", "commit"]), &mut script, &mut out);
    session.ack_up_to(0, &mut out);
    out.clear();
    let flow = session.close(1001, "drain", &mut out);
    assert_eq!(
        (out.as_slice(), flow),
        (&closes(1001, "drain")[..], Flow::Close(Ending::Initiated))
    );
}

/// The messages handled and the highest number acknowledged, whatever the pass boundaries.
fn effect(bytes: &[u8], piece: usize) -> (Vec<(u64, String)>, u64, Flow) {
    let config = SessionConfig {
        recv_buffer_bytes_at_start: 0,
        ..SessionConfig::default()
    };
    let (mut session, mut script, mut out) = (Session::new(config), Script::default(), vec![]);
    let mut flow = Flow::Continue;
    for piece in bytes.chunks(piece) {
        let spare = session.spare();
        if spare.len() < piece.len() {
            flow = session.on_bytes(piece, &mut script, &mut out);
            continue;
        }
        spare[..piece.len()].copy_from_slice(piece);
        flow = session.received(piece.len(), &mut script, &mut out);
    }
    (script.seen, session.messages_acked(), flow)
}

proptest! {
    #[test]
    fn pass_boundaries_change_no_effect(
        sizes in proptest::collection::vec((0_usize..3000, 0_u8..12), 1..20),
        piece in 1_usize..4000,
    ) {
        let mut bytes = Vec::new();
        for (size, kind) in sizes {
            match kind {
                0 => bytes.extend(frame(Opcode::Ping, &vec![1; size % 126])),
                1 => bytes.extend(messages(&["defer"])),
                _ => bytes.extend(messages(&[&"c".repeat(size)])),
            }
        }
        prop_assert_eq!(effect(&bytes, piece), effect(&bytes, usize::MAX));
    }

    #[test]
    fn any_bytes_are_received_without_panic(
        bytes in proptest::collection::vec(
            prop_oneof![Just(0x82), Just(0x88), Just(0x80), Just(0xFE), 0_u8..4, any::<u8>()],
            0..200,
        ),
        piece in 1_usize..200,
    ) {
        let (seen, acked, _) = effect(&bytes, piece);
        prop_assert!(acked <= seen.len() as u64);
    }
}
