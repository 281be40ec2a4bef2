//! What follows each thing that a server may answer: one case per row of the behaviour table of the
//! corpus, "once" and "always". Five rows are published, a frame each; the server does its worst at
//! row 2. Each case says what the producer saw, what was sent again, how often the sender connected
//! and what stays on disk.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay::{Category, ConnectionEvent, Engine, Error, Policy, SenderError, Stage};
use forebay_wire::upgrade::{DurableTier, FixedReply, UpgradePolicy};
use forebay_wire::ws::Opcode;
use peer::{Conn, Peer, Sent, fill};

mod loadgen;
mod peer;

const PATIENCE: Duration = Duration::from_secs(20);
const ROWS: u64 = 5;
/// The row that the server answers badly.
const BAD: u64 = 2;
/// Base and maximum of the pauses, milliseconds.
const INITIAL: u64 = 10;
const MAX: u64 = 80;

/// What the server does at the bad row.
#[derive(Debug, Clone)]
enum Answer {
    Status(u8),
    Close(Option<u16>),
    Fin,
    Reset,
    /// A binary message that is no answer.
    Garbage(Vec<u8>),
    /// A frame that no server may send.
    Raw(Vec<u8>),
    /// Refusals of the upgrade, the connection being ended before.
    Upgrade(u16, Option<&'static str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Everything is delivered.
    Delivered,
    /// The engine takes no more rows.
    Terminal,
    /// It goes on trying.
    Retried,
}

fn conf(peer: &Peer, dir: &tempfile::TempDir, more: &str) -> String {
    format!(
        "ws::addr={};sf_dir={};initial_connect_retry=async;pin=off;\
         close_flush_timeout_millis=0;reconnect_initial_backoff_millis={INITIAL};\
         reconnect_max_backoff_millis={MAX};max_frame_rejections=4;\
         poison_min_escalation_window_millis=50;{more}",
        peer.addr(),
        dir.path().join("sf").display()
    )
}

/// Plays a connection of the script: `true` when the bad answer was given.
fn play(conn: &mut Conn, answer: &Answer, bad: bool) {
    if !conn.upgrade(&UpgradePolicy::default()) {
        return;
    }
    while let Some(n) = conn.next_row() {
        if n != BAD || !bad {
            conn.ok_all();
            continue;
        }
        let seq = conn.messages - 1;
        match answer {
            Answer::Status(status) => {
                conn.refuse(*status, seq);
                conn.listen_to_the_end();
            }
            Answer::Close(code) => conn.close(*code),
            Answer::Fin | Answer::Upgrade(..) => conn.fin(),
            Answer::Reset => conn.reset(),
            Answer::Garbage(bytes) => {
                conn.say(Opcode::Binary, bytes);
                conn.listen_to_the_end();
            }
            Answer::Raw(bytes) => {
                conn.raw(bytes);
                conn.listen_to_the_end();
            }
        }
        return;
    }
}

/// The server: misbehaves on the first connection, or on all of them.
fn server(answer: &Answer, always: bool) -> Peer {
    let answer = answer.clone();
    Peer::start(move |number, conn| match &answer {
        Answer::Upgrade(status, role) if number > 0 && (always || number < 3) => {
            let headers = role.iter().map(|r| ("X-QuestDB-Role".into(), (*r).into()));
            let fixed = FixedReply {
                status: *status,
                headers: headers.collect(),
            };
            conn.upgrade(&UpgradePolicy {
                fixed: Some(fixed),
                ..UpgradePolicy::default()
            });
        }
        Answer::Upgrade(..) => play(conn, &answer, number == 0),
        _ => play(conn, &answer, always || number == 0),
    })
}

/// How many connections the pauses allow within `elapsed`: two at once (the first and the free
/// retry), then one per doubling pause. Longer pauses than the shortest allowed are fine.
fn connections_max(elapsed: Duration) -> u64 {
    let (mut at, mut pause, mut count) = (0, INITIAL, 2);
    let elapsed = u64::try_from(elapsed.as_millis()).unwrap();
    while at + pause <= elapsed {
        at += pause;
        pause = (2 * pause).min(MAX);
        count += 1;
    }
    count
}

/// Publishes the rows; returns the first error of a call.
fn publish(engine: &Engine, rows: std::ops::Range<u64>) -> Result<(), Error> {
    let mut producer = engine.producer()?;
    for n in rows {
        fill(&mut producer, n, 0);
        producer.publish()?;
    }
    let receipt = producer.publish()?;
    receipt.wait(Stage::Acked, PATIENCE)
}

/// Runs a case and checks everything about it.
fn check(answer: &Answer, always: bool, fate: Fate, more: &str) {
    let what = format!("{answer:?}, always {always}, {more}");
    println!("{what}");
    let dir = loadgen::scratch();
    let peer = server(answer, always);
    let start = Instant::now();
    let told = Told::default();
    let engine = told.connect(&conf(&peer, &dir, more));
    match fate {
        Fate::Delivered => publish(&engine, 0..ROWS).expect(&what),
        Fate::Terminal => {
            let error = publish(&engine, 0..ROWS).expect_err(&what);
            let Error::Peer {
                retryable, reason, ..
            } = &error
            else {
                panic!("{what}: {error}");
            };
            assert!(!retryable, "{what}: {error}");
            assert!(!reason.is_empty(), "{what}");
            let again = engine.producer().expect_err(&what).to_string();
            assert_eq!(again, error.to_string(), "{what}: every call is told");
        }
        Fate::Retried => {
            let mut producer = engine.producer().expect("open");
            for n in 0..ROWS {
                fill(&mut producer, n, 0);
                producer.publish().expect("it goes on");
            }
            let receipt = producer.publish().expect("it goes on");
            let waited = receipt.wait(Stage::Acked, Duration::from_millis(700));
            assert!(matches!(waited, Err(Error::Timeout { .. })), "{what}");
        }
    }
    let stats = engine.stats();
    let elapsed = start.elapsed();
    let heard = peer.heard();
    let rows: Vec<_> = heard.iter().map(peer::Heard::rows).collect();
    assert!(
        heard.len() as u64 <= connections_max(elapsed),
        "{what}: {} connections in {elapsed:?}",
        heard.len()
    );
    if fate == Fate::Retried {
        assert!(heard.len() >= 4, "{what}: it does go on: {rows:?}");
    }
    assert_eq!(rows[0][..3], [0, 1, 2], "{what}");
    for again in rows[1..].iter().filter(|rows| !rows.is_empty()) {
        let count = again.len() as u64;
        let expected: Vec<_> = (BAD..BAD + count).collect();
        assert_eq!(again, &expected, "{what}: sent again from row {BAD} on");
    }
    // The symbols of the confirmed rows are registered before the first row that follows them.
    for again in heard[1..].iter().filter(|heard| !heard.rows().is_empty()) {
        assert_eq!(again.sent[0], Sent::CatchUp, "{what}");
    }
    let left = match fate {
        Fate::Delivered => 0,
        _ => ROWS - BAD,
    };
    assert_eq!(stats.unacked_frames, left, "{what}");
    match engine.close() {
        Ok(()) => assert_eq!(left, 0, "{what}"),
        Err(Error::NotDrained { frames, .. }) => assert_eq!(frames, left, "{what}"),
        Err(error) => panic!("{what}: {error}"),
    }
    check_told(&told, answer, fate, &peer, &what);
    drop(peer);
    the_rest_is_delivered_by_the_next_start(&dir, left, &what);
}

/// What the handlers of the application were told.
#[derive(Debug, Default)]
struct Told {
    errors: Arc<Mutex<Vec<SenderError>>>,
    connections: Arc<Mutex<Vec<ConnectionEvent>>>,
}

impl Told {
    fn connect(&self, conf: &str) -> Engine {
        let (errors, connections) = (Arc::clone(&self.errors), Arc::clone(&self.connections));
        Engine::builder(conf)
            .on_error(move |error| errors.lock().unwrap().push(error.clone()))
            .on_connection(move |event| connections.lock().unwrap().push(event.clone()))
            .connect()
            .expect("async")
    }
}

/// Category of a status, and whether the script's refusal of it is an error of the server.
fn category(status: u8) -> Category {
    match status {
        0x03 => Category::SchemaMismatch,
        0x05 => Category::ParseError,
        0x06 => Category::InternalError,
        0x08 => Category::SecurityError,
        0x09 => Category::WriteError,
        0x0c => Category::NotWritable,
        0x0d => Category::DictionaryGap,
        _ => Category::Unknown,
    }
}

/// After close: every refusal was told with its status, number and frame; a terminal error last and
/// once; nothing else was an error; the first connection, and why it ended.
fn check_told(told: &Told, answer: &Answer, fate: Fate, peer: &Peer, what: &str) {
    let mut errors = told.errors.lock().unwrap().clone();
    let terminal = errors.pop_if(|error| error.policy == Policy::Terminal);
    assert_eq!(
        terminal.is_some(),
        fate == Fate::Terminal,
        "{what}: {errors:?}"
    );
    if let Some(terminal) = terminal {
        assert_eq!(terminal.endpoint, peer.addr().to_string(), "{what}");
        let at_once = terminal.status.is_some();
        let expected = match answer {
            Answer::Status(status) if at_once => category(*status),
            Answer::Upgrade(..) => Category::SecurityError,
            _ => Category::ProtocolViolation,
        };
        assert_eq!(terminal.category, expected, "{what}");
        let (from, to) = terminal.frames.expect("rows are concerned");
        assert_eq!(from, BAD, "{what}");
        assert!(to == BAD || !at_once && to < ROWS, "{what}: {to}");
    }
    for error in &errors {
        let Answer::Status(status) = answer else {
            panic!("{what}: {error:?}");
        };
        assert_eq!(error.status, Some(*status), "{what}");
        assert_eq!(error.category, category(*status), "{what}");
        let policies = [Policy::Retriable, Policy::RetriableOther];
        assert!(policies.contains(&error.policy), "{what}: {error:?}");
        assert_eq!(error.message, "refused by the script", "{what}");
        assert_eq!(error.frames, Some((BAD, BAD)), "{what}");
        assert!(error.wire_seq.is_some(), "{what}");
    }
    if matches!(answer, Answer::Status(_)) && fate != Fate::Terminal {
        assert!(!errors.is_empty(), "{what}: a refusal is told");
    }
    let events = told.connections.lock().unwrap();
    let endpoint = peer.addr().to_string();
    let connected = ConnectionEvent::Connected { endpoint };
    assert_eq!(events[0], connected, "{what}");
    let again = events.iter();
    let again = again.filter(|e| matches!(e, ConnectionEvent::Reconnected { .. }));
    let served = peer.heard().iter().filter(|h| !h.sent.is_empty()).count();
    assert!(again.count() + 1 >= served, "{what}: {events:?}");
    if let Answer::Upgrade(status, _) = answer {
        let text = status.to_string();
        let failed = |event: &&ConnectionEvent| match event {
            ConnectionEvent::AttemptFailed { cause, .. }
            | ConnectionEvent::AllUnreachable { cause, .. }
            | ConnectionEvent::AuthFailed { cause, .. } => {
                cause.contains(&text) || cause.contains("role")
            }
            _ => false,
        };
        let count = events.iter().filter(failed).count();
        assert!(count >= 1, "{what}: {events:?}");
    }
}

/// A good server gets exactly what is left.
fn the_rest_is_delivered_by_the_next_start(dir: &tempfile::TempDir, left: u64, what: &str) {
    let peer = Peer::start(|_, conn| {
        conn.upgrade(&UpgradePolicy::default());
        conn.serve();
    });
    let engine = Engine::connect(&conf(&peer, dir, "")).expect(what);
    assert_eq!(engine.stats().frames_recovered, left, "{what}");
    engine.wait_acked(PATIENCE).expect(what);
    engine.close().expect(what);
    let rows: Vec<_> = peer.heard().iter().flat_map(peer::Heard::rows).collect();
    let expected: Vec<_> = (ROWS - left..ROWS).collect();
    assert_eq!(rows, expected, "{what}: from disk");
}

#[test]
fn statuses_that_are_terminal_by_default() {
    for status in [0x03, 0x05, 0x08] {
        check(&Answer::Status(status), false, Fate::Terminal, "");
    }
}

#[test]
fn statuses_that_pass_are_retried_until_the_row_is_taken() {
    for status in [0x06, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x7f] {
        check(&Answer::Status(status), false, Fate::Delivered, "");
    }
}

#[test]
fn statuses_that_do_not_pass_are_terminal_after_strikes_and_time() {
    for status in [0x06, 0x09, 0x0d, 0x7f] {
        check(&Answer::Status(status), true, Fate::Terminal, "");
    }
}

#[test]
fn a_server_that_is_not_writable_is_retried_for_ever() {
    check(&Answer::Status(0x0c), true, Fate::Retried, "");
}

#[test]
fn policies_are_changed_by_their_keys() {
    let terminal = "on_write_error=terminal;";
    check(&Answer::Status(0x09), false, Fate::Terminal, terminal);
    let retried = "on_schema_error=retriable;";
    check(&Answer::Status(0x03), false, Fate::Delivered, retried);
    check(&Answer::Status(0x03), true, Fate::Terminal, retried);
    let elsewhere = "on_server_error=retriable_other;";
    check(&Answer::Status(0x05), true, Fate::Retried, elsewhere);
    let unknown = "on_server_error=terminal;";
    check(&Answer::Status(0x7f), false, Fate::Delivered, unknown);
}

#[test]
fn close_codes_once() {
    let codes = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1011, 1012, 1013];
    for code in codes.map(Some).into_iter().chain([None]) {
        check(&Answer::Close(code), false, Fate::Delivered, "");
    }
}

#[test]
fn orderly_ends_always_are_retried_for_ever_with_pauses() {
    for answer in [
        Answer::Close(Some(1000)),
        Answer::Close(Some(1001)),
        Answer::Fin,
        Answer::Reset,
    ] {
        check(&answer, true, Fate::Retried, "");
    }
}

#[test]
fn other_close_codes_always_are_terminal_after_strikes_and_time() {
    for code in [Some(1002), Some(1009), Some(1013), Some(3000), None] {
        check(&Answer::Close(code), true, Fate::Terminal, "");
    }
}

#[test]
fn ends_of_the_stream_once() {
    check(&Answer::Fin, false, Fate::Delivered, "");
    check(&Answer::Reset, false, Fate::Delivered, "");
}

/// Answers that are none: too short, too long, no text length, and frames that break RFC 6455.
fn malformed() -> Vec<Answer> {
    let ok = [0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let surplus = [&ok[..], &[1]].concat();
    vec![
        Answer::Garbage(vec![]),
        Answer::Garbage(ok[..6].to_vec()),
        Answer::Garbage(surplus),
        Answer::Garbage(vec![9, 2, 0, 0, 0, 0, 0, 0, 0]),
        Answer::Raw(vec![0x82, 0x81, 1, 2, 3, 4, 5]), // masked
        Answer::Raw(vec![0x81, 0x01, b'x']),          // text
        Answer::Raw(vec![0xc2, 0x00]),                // a reserved bit
        Answer::Raw(vec![0x88, 0x01, 0x03]),          // half a close code
        Answer::Raw(vec![0x88, 0x02, 0x03, 0xed]),    // CLOSE 1005
    ]
}

#[test]
fn malformed_answers_once_are_retried() {
    for answer in malformed() {
        check(&answer, false, Fate::Delivered, "");
    }
}

#[test]
fn malformed_answers_always_are_paced_and_terminal() {
    for answer in [malformed().swap_remove(1), malformed().swap_remove(4)] {
        check(&answer, true, Fate::Terminal, "");
    }
}

#[test]
fn refused_upgrades_at_a_reconnect_are_retried_unless_they_refuse_the_credentials() {
    for (status, role) in [
        (400, None),
        (404, None),
        (421, None),
        (421, Some("REPLICA")),
        (421, Some("PRIMARY_CATCHUP")),
        (426, None),
        (500, None),
        (503, None),
    ] {
        check(&Answer::Upgrade(status, role), false, Fate::Delivered, "");
    }
    check(&Answer::Upgrade(503, None), true, Fate::Retried, "");
    for status in [401, 403] {
        check(&Answer::Upgrade(status, None), true, Fate::Terminal, "");
    }
}

/// Serves rows with whatever OKs `confirm` sends; everything must be delivered on one connection.
fn one_connection(confirm: fn(&mut Conn, u64)) {
    let dir = loadgen::scratch();
    let peer = Peer::start(move |_, conn| {
        conn.upgrade(&UpgradePolicy::default());
        while let Some(n) = conn.next_row() {
            confirm(conn, n);
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, "")).expect("async");
    publish(&engine, 0..ROWS).expect("delivered");
    engine.close().expect("drained");
    assert_eq!(peer.connections(), 1);
    let heard = peer.heard();
    assert_eq!(heard[0].rows(), [0, 1, 2, 3, 4]);
    assert_eq!(
        heard[0].sent.last(),
        Some(&Sent::Close(Some(1000))),
        "close says goodbye"
    );
}

#[test]
fn oks_are_cumulative_and_clamped() {
    one_connection(|conn, _| {
        conn.ok(900);
    });
    one_connection(|conn, n| {
        if n % 2 == 0 {
            conn.ok_all();
        }
    });
    one_connection(|conn, n| {
        conn.ok_all();
        conn.ok(-1);
        conn.ok(i64::try_from(n).unwrap() - 1);
    });
    one_connection(|conn, n| {
        let seq = conn.messages - 1;
        conn.ok_with(seq, &[("t", i64::try_from(n).unwrap())]);
        conn.durable(&[("t", 1), ("never asked for", 7)]);
    });
}

#[test]
fn an_ok_behind_a_refusal_means_nothing() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|number, conn| {
        conn.upgrade(&UpgradePolicy::default());
        while let Some(n) = conn.next_row() {
            let seq = conn.messages - 1;
            if number == 0 && n == BAD {
                // One write, so that the sender finds both at once.
                let mut payload = Vec::new();
                let mut bytes = Vec::new();
                let status = forebay_wire::response::Status::WriteError;
                forebay_wire::response::write_error(&mut payload, status, seq, "no");
                forebay_wire::ws::append_server_frame(&mut bytes, Opcode::Binary, &payload);
                payload.clear();
                forebay_wire::response::write_ok(&mut payload, seq, []);
                forebay_wire::ws::append_server_frame(&mut bytes, Opcode::Binary, &payload);
                conn.raw(&bytes);
                conn.listen_to_the_end();
                return;
            }
            conn.ok(seq);
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, "")).expect("async");
    publish(&engine, 0..ROWS).expect("delivered");
    engine.close().expect("drained");
    assert_eq!(peer.heard()[1].rows(), [2, 3, 4]);
}

#[test]
fn the_first_connection_reports_what_the_server_answers() {
    for (status, retryable) in [(401, false), (503, true), (421, true)] {
        let dir = loadgen::scratch();
        let peer = Peer::start(move |_, conn| {
            let fixed = FixedReply {
                status,
                headers: Vec::new(),
            };
            conn.upgrade(&UpgradePolicy {
                fixed: Some(fixed),
                ..UpgradePolicy::default()
            });
        });
        let conf = conf(&peer, &dir, "").replace("=async", "=off");
        let error = Engine::connect(&conf).expect_err("refused");
        assert!(
            matches!(&error, Error::Peer { retryable: r, .. } if *r == retryable),
            "{error}"
        );
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!(peer.connections(), 1, "one round");
    }
}

#[test]
fn a_synchronous_first_connection_tries_for_its_time_and_waits_for_a_server() {
    let peer = Peer::start(|number, conn| {
        if number < 3 {
            return;
        }
        conn.upgrade(&UpgradePolicy::default());
        conn.serve();
    });
    let dir = loadgen::scratch();
    let text = conf(&peer, &dir, "reconnect_max_duration_millis=20000;");
    let engine = Engine::connect(&text.replace("=async", "=sync")).expect("the fourth attempt");
    engine.close().expect("nothing to deliver");
    let nobody = conf(&peer, &dir, "reconnect_max_duration_millis=300;");
    drop(peer);
    let start = Instant::now();
    let error = Engine::connect(&nobody.replace("=async", "=on")).expect_err("nobody listens");
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert!(
        matches!(
            error,
            Error::Peer {
                retryable: true,
                ..
            }
        ),
        "{error}"
    );
}

// --- durable acknowledgements ---

fn granting() -> UpgradePolicy {
    UpgradePolicy {
        durable: Some(DurableTier::On),
        ..UpgradePolicy::default()
    }
}

const DURABLE: &str = "request_durable_ack=on;durable_ack_keepalive_interval_millis=20;";

/// Publishes the rows and waits until `acked` of them are acked.
fn publish_acked(engine: &Engine) -> forebay::Receipt {
    let mut producer = engine.producer().expect("open");
    for n in 0..ROWS {
        fill(&mut producer, n, 0);
        producer.publish().expect("room");
    }
    let receipt = producer.publish().expect("all of them");
    receipt.wait(Stage::Acked, PATIENCE).expect("acked");
    receipt
}

#[test]
fn a_plain_ok_trims_nothing_where_durable_was_asked_for() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|_, conn| {
        conn.upgrade(&granting());
        while let Some(n) = conn.next_row() {
            let seq = conn.messages - 1;
            conn.ok_with(seq, &[("t", i64::try_from(n).unwrap() + 1)]);
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, DURABLE)).expect("async");
    let receipt = publish_acked(&engine);
    assert!(!receipt.reached(Stage::Durable).expect("asked for"));
    let pings = || {
        let heard = peer.heard();
        let is_ping = |sent: &&Sent| **sent == Sent::Ping;
        heard[0].sent.iter().filter(is_ping).count()
    };
    let start = Instant::now();
    while pings() < 4 {
        assert!(start.elapsed() < PATIENCE, "the server is asked by PINGs");
        std::thread::yield_now();
    }
    assert!(start.elapsed() >= Duration::from_millis(40), "at intervals");
    assert_eq!(engine.stats().unacked_frames, ROWS);
    let error = engine.close().expect_err("not durable");
    assert!(
        matches!(error, Error::NotDrained { frames: ROWS, .. }),
        "{error}"
    );
    assert_eq!(peer.connections(), 1);
}

#[test]
fn durable_acknowledgements_trim_up_to_where_they_reach() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|_, conn| {
        conn.upgrade(&granting());
        while let Some(n) = conn.next_row() {
            let seq = conn.messages - 1;
            conn.ok_with(seq, &[("t", i64::try_from(n).unwrap() + 10)]);
            if n == 1 {
                conn.durable(&[("t", 10), ("another", 3)]);
            } else if n == 3 {
                conn.durable(&[("t", 12)]);
            }
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, DURABLE)).expect("async");
    let receipt = publish_acked(&engine);
    let start = Instant::now();
    while engine.stats().unacked_frames > 2 {
        assert!(start.elapsed() < PATIENCE, "{:?}", engine.stats());
        std::thread::yield_now();
    }
    assert_eq!(engine.stats().frames_acked, 3);
    assert!(!receipt.reached(Stage::Durable).expect("asked for"));
    engine.close().expect_err("two rows are not durable");
    drop(peer);
    the_rest_is_delivered_by_the_next_start(&dir, 2, "durable up to 2");
}

#[test]
fn a_receipt_waits_for_durable() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|_, conn| {
        conn.upgrade(&granting());
        while let Some(n) = conn.next_row() {
            let (seq, txn) = (conn.messages - 1, i64::try_from(n).unwrap() + 1);
            conn.ok_with(seq, &[("t", txn)]);
            conn.durable(&[("t", txn)]);
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, DURABLE)).expect("async");
    let receipt = publish_acked(&engine);
    receipt.wait(Stage::Durable, PATIENCE).expect("durable");
    engine.wait_acked(PATIENCE).expect("all of it");
    engine.close().expect("drained");
}

#[test]
fn durable_ack_left_in_socket() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|number, conn| {
        conn.upgrade(&granting());
        while let Some(n) = conn.next_row() {
            let (seq, txn) = (conn.messages - 1, i64::try_from(n).unwrap() + 1);
            if number > 0 {
                conn.ok_with(seq, &[("t", txn)]);
                conn.durable(&[("t", txn)]);
            } else if n + 1 < ROWS {
                conn.ok_with(seq, &[("t", txn)]);
            } else {
                // A role change: what was committed becomes durable a little later.
                conn.refuse(0x0c, seq);
                std::thread::sleep(Duration::from_millis(50));
                conn.durable(&[("t", txn - 1)]);
                conn.close(Some(1000));
                return;
            }
        }
    });
    let engine = Engine::connect(&conf(&peer, &dir, DURABLE)).expect("async");
    publish_acked(&engine);
    engine.wait_acked(PATIENCE).expect("durable");
    engine.close().expect("drained");
    assert_eq!(peer.heard()[1].rows(), [4], "nothing else is sent again");
}

#[test]
fn durable_acknowledgements_that_nobody_grants_are_a_typed_mismatch() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|_, conn| {
        conn.upgrade(&UpgradePolicy::default());
        conn.listen_to_the_end();
    });
    let conf = conf(&peer, &dir, DURABLE).replace("=async", "=off");
    let error = Engine::connect(&conf).expect_err("not granted");
    assert!(
        matches!(
            &error,
            Error::Peer {
                retryable: false,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("durable"), "{error}");
    assert_eq!(peer.connections(), 1);
}

#[test]
fn durable_ack_not_offered() {
    let dir = loadgen::scratch();
    let without = Peer::start(|_, conn| {
        conn.upgrade(&UpgradePolicy::default());
        conn.listen_to_the_end();
    });
    let with = Peer::start(|_, conn| {
        conn.upgrade(&granting());
        while conn.next_row().is_some() {
            let seq = conn.messages - 1;
            conn.ok_with(seq, &[("t", seq)]);
            conn.durable(&[("t", seq)]);
        }
    });
    let both = format!("{},{}", without.addr(), with.addr());
    let conf = conf(&with, &dir, DURABLE).replace(&with.addr().to_string(), &both);
    let engine = Engine::connect(&conf).expect("the second grants");
    publish_acked(&engine);
    engine.wait_acked(PATIENCE).expect("durable");
    engine.close().expect("drained");
    assert_eq!((without.connections(), with.connections()), (1, 1));
}

// --- servers that vanish ---

#[test]
fn half_open_link() {
    for busy in [true, false] {
        let dir = loadgen::scratch();
        let peer = Peer::start(move |number, conn| {
            conn.upgrade(&UpgradePolicy::default());
            if number > 0 {
                return conn.serve();
            }
            if !busy {
                conn.next_row();
                conn.ok_all();
            }
            // Neither reads on nor says anything: the process hangs.
            conn.listen_to_the_end();
        });
        let more = "ping_interval_millis=100;";
        let engine = Engine::connect(&conf(&peer, &dir, more)).expect("async");
        let start = Instant::now();
        if busy {
            publish(&engine, 0..ROWS).expect("delivered by the next connection");
        } else {
            publish(&engine, 0..1).expect("delivered");
            while peer.connections() < 2 {
                assert!(start.elapsed() < PATIENCE, "an idle link is probed too");
                std::thread::yield_now();
            }
        }
        let elapsed = start.elapsed();
        assert!(elapsed >= Duration::from_millis(200), "{elapsed:?}");
        assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
        assert_eq!(engine.stats().half_open_drops, 1);
        assert!(peer.heard()[0].sent.contains(&Sent::Ping));
        engine.close().expect("drained");
    }
}

#[test]
fn a_server_that_answers_and_confirms_nothing_is_left() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|number, conn| {
        conn.upgrade(&UpgradePolicy::default());
        // PINGs are answered, rows are not.
        while conn.next_row().is_some() {
            if number > 0 {
                conn.ok_all();
            }
        }
    });
    let more = "ping_interval_millis=50;ack_progress_timeout_millis=400;";
    let engine = Engine::connect(&conf(&peer, &dir, more)).expect("async");
    publish(&engine, 0..ROWS).expect("delivered by the next connection");
    assert_eq!(engine.stats().half_open_drops, 1);
    assert_eq!(peer.heard()[1].rows(), [0, 1, 2, 3, 4]);
    engine.close().expect("drained");
}

// --- caps ---

#[test]
fn a_frame_over_a_new_cap_waits_for_a_larger_one_without_a_storm() {
    let dir = loadgen::scratch();
    let peer = Peer::start(|number, conn| {
        let mut policy = UpgradePolicy::default();
        if (1..5).contains(&number) {
            policy.max_batch_size = Some(1000);
        }
        conn.upgrade(&policy);
        if number == 0 {
            conn.next_row();
            return conn.fin();
        }
        conn.serve();
    });
    let engine = Engine::connect(&conf(&peer, &dir, "")).expect("async");
    let mut producer = engine.producer().expect("open");
    let start = Instant::now();
    fill(&mut producer, 0, 5000);
    let receipt = producer.publish().expect("room");
    receipt.wait(Stage::Acked, PATIENCE).expect("delivered");
    let stats = engine.stats();
    assert_eq!(stats.blocked_by_cap, 4);
    // Pauses of at least 10, 20, 40 and 80 ms.
    assert!(start.elapsed() >= Duration::from_millis(150));
    assert_eq!(peer.connections(), 6);
    let rows: Vec<_> = peer.heard().iter().map(peer::Heard::rows).collect();
    assert_eq!(
        rows[1..5],
        [const { Vec::<u64>::new() }; 4],
        "nothing too large is sent"
    );
    engine.close().expect("drained");
}
