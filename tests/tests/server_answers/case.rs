//! One case: a server with a script, five rows, and everything that is checked about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay::{Engine, Error, Receipt, Stage};
use forebay_wire::upgrade::{FixedReply, UpgradePolicy};
use forebay_wire::ws::Opcode;

use crate::loadgen;
use crate::peer::{self, Conn, Peer, Sent, fill};
use crate::told::{Told, check_told};

pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
pub(crate) const ROWS: u64 = 5;
/// The row that the server answers badly.
pub(crate) const BAD: u64 = 2;
/// Base and maximum of the pauses, milliseconds.
pub(crate) const INITIAL: u64 = 10;
pub(crate) const MAX: u64 = 80;

/// What the server does at the bad row.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
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
pub(crate) enum Fate {
    /// Everything is delivered.
    Delivered,
    /// The engine takes no more rows.
    Terminal,
    /// It goes on trying.
    Retried,
}

pub(crate) fn conf(peer: &Peer, dir: &tempfile::TempDir, more: &str) -> String {
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
pub(crate) fn play(conn: &mut Conn, answer: &Answer, bad: bool) {
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

/// The server: misbehaves on the first connection, or on all of them. It answers nobody before it
/// is open, so that all rows are published by then.
fn server(answer: &Answer, always: bool, open: &Arc<AtomicBool>) -> Peer {
    let (answer, open) = (answer.clone(), Arc::clone(open));
    Peer::start(move |number, conn| {
        while !open.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        match &answer {
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
        }
    })
}

/// How many connections the pauses allow within `elapsed`: two at once (the first and the free
/// retry), then one per doubling pause. Longer pauses than the shortest allowed are fine. A server
/// that refuses by its role is asked again after the initial pause each time.
fn connections_max(answer: &Answer, elapsed: Duration) -> u64 {
    let by_role = matches!(answer, Answer::Upgrade(421, Some(_)));
    let max = if by_role { INITIAL } else { MAX };
    let (mut at, mut pause, mut count) = (0, INITIAL, 2);
    let elapsed = u64::try_from(elapsed.as_millis()).unwrap();
    while at + pause <= elapsed {
        at += pause;
        pause = (2 * pause).min(max);
        count += 1;
    }
    count
}

/// Publishes the rows; returns the first error of a call.
pub(crate) fn publish(engine: &Engine, rows: std::ops::Range<u64>) -> Result<(), Error> {
    let mut producer = engine.producer()?;
    for n in rows {
        fill(&mut producer, n, 0);
        producer.publish()?;
    }
    let receipt = producer.publish()?;
    receipt.wait(Stage::Acked, PATIENCE)
}

/// Runs a case and checks everything about it.
pub(crate) fn check(answer: &Answer, always: bool, fate: Fate, more: &str) {
    let what = format!("{answer:?}, always {always}, {more}");
    println!("{what}");
    let dir = loadgen::scratch();
    let open = Arc::new(AtomicBool::new(false));
    let peer = server(answer, always, &open);
    let told = Told::default();
    let engine = told.connect(&conf(&peer, &dir, more));
    let mut producer = engine.producer().expect("open");
    for n in 0..ROWS {
        fill(&mut producer, n, 0);
        producer.publish().expect("no server is needed");
    }
    let receipt = producer.publish().expect("all of them");
    let start = Instant::now();
    open.store(true, Ordering::Release);
    check_producer(&engine, &receipt, fate, &what);
    let stats = engine.stats();
    check_connections(&peer, answer, fate, start.elapsed(), &what);
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

/// What the calls of the producer say.
fn check_producer(engine: &Engine, receipt: &Receipt, fate: Fate, what: &str) {
    match fate {
        Fate::Delivered => receipt.wait(Stage::Acked, PATIENCE).expect(what),
        Fate::Terminal => {
            let error = receipt.wait(Stage::Acked, PATIENCE).expect_err(what);
            let Error::Peer {
                retryable, reason, ..
            } = &error
            else {
                panic!("{what}: {error}");
            };
            assert!(!retryable, "{what}: {error}");
            assert!(!reason.is_empty(), "{what}");
            let again = engine.producer().expect_err(what).to_string();
            assert_eq!(again, error.to_string(), "{what}: every call is told");
        }
        Fate::Retried => {
            let waited = receipt.wait(Stage::Acked, Duration::from_millis(700));
            assert!(matches!(waited, Err(Error::Timeout { .. })), "{what}");
            engine.producer().expect(what);
        }
    }
}

/// How often the sender came, and what it sent again.
fn check_connections(peer: &Peer, answer: &Answer, fate: Fate, elapsed: Duration, what: &str) {
    let heard = peer.heard();
    let rows: Vec<_> = heard.iter().map(peer::Heard::rows).collect();
    assert!(
        heard.len() as u64 <= connections_max(answer, elapsed),
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
}

/// A good server gets exactly what is left.
pub(crate) fn the_rest_is_delivered_by_the_next_start(
    dir: &tempfile::TempDir,
    left: u64,
    what: &str,
) {
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
