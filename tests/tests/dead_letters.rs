//! `on_schema_error=dead_letter`: of a frame that the server refuses, the tables that it takes
//! arrive, the culprit is kept as a file that needs nothing else to be read, and the queue moves on.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay::{Engine, Error, Producer, TimestampNanos};
use forebay_wire::decode::{Message, Mode};
use forebay_wire::dict::ConnectionDict;
use forebay_wire::ndjson::Rows;
use forebay_wire::upgrade::{DurableTier, UpgradePolicy};
use peer::{Conn, Peer, Sent};

mod loadgen;
mod peer;

const PATIENCE: Duration = Duration::from_mins(3);
/// The table that the server never takes.
const BAD: &str = "bad";

type Lines = Arc<Mutex<Vec<(String, String)>>>;

/// Rows of a message as (table, text), by the connection's dictionary.
fn rows(message: &[u8], dictionary: &mut ConnectionDict) -> Vec<(String, String)> {
    let message = Message::parse(message, Mode::Strict).expect("a legal message");
    if let Some(delta) = message.delta() {
        dictionary.apply(&delta).expect("no gap");
    }
    let mut lines = Vec::new();
    for table in message.tables_within(dictionary.len() as u64) {
        let table = table.expect("legal");
        let mut rows = Rows::new(&table, dictionary).expect("legal");
        let mut line = Vec::new();
        while rows.append_next(&mut line) {
            let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
            lines.push((table.name().to_owned(), text));
        }
    }
    lines
}

/// Serves a connection: a message with the bad table is refused as a whole.
fn serve(conn: &mut Conn, stored: &Lines, durable: bool) {
    let policy = UpgradePolicy {
        durable: durable.then_some(DurableTier::On),
        ..UpgradePolicy::default()
    };
    if !conn.upgrade(&policy) {
        return;
    }
    let mut dictionary = ConnectionDict::new();
    while let Some(sent) = conn.next() {
        match sent {
            Sent::Row(_) | Sent::CatchUp => {
                let lines = rows(&conn.last, &mut dictionary);
                let seq = conn.messages - 1;
                if lines.iter().any(|(table, _)| table == BAD) {
                    conn.refuse(0x03, seq);
                    return conn.listen_to_the_end();
                }
                stored.lock().unwrap().extend(lines);
                if durable {
                    conn.ok_with(seq, &[("any", seq)]);
                    conn.durable(&[("any", seq)]);
                } else {
                    conn.ok(seq);
                }
            }
            Sent::Ping => {
                conn.say(forebay_wire::ws::Opcode::Pong, &[]);
            }
            Sent::Pong | Sent::Close(_) => {}
        }
    }
}

fn server(durable: bool) -> (Peer, Lines) {
    let stored = Lines::default();
    let lines = Arc::clone(&stored);
    let peer = Peer::start(move |_, conn| serve(conn, &lines, durable));
    (peer, stored)
}

fn conf(peer: &Peer, dir: &Path, more: &str) -> String {
    format!(
        "ws::addr={};sf_dir={};sender_id=feed;initial_connect_retry=async;pin=off;\
         close_flush_timeout_millis=20000;reconnect_initial_backoff_millis=5;\
         reconnect_max_backoff_millis=20;on_schema_error=dead_letter;{more}",
        peer.addr(),
        dir.join("sf").display()
    )
}

fn row(producer: &mut Producer, table: &str, n: i64) {
    producer.table(table).unwrap();
    producer.symbol("sym", &format!("S{n}")).unwrap();
    producer.symbol("venue", &format!("V{}", n % 2)).unwrap();
    producer.column_i64("n", n).unwrap();
    producer.at(TimestampNanos(n + 1)).unwrap();
}

/// One frame with a row for each of the tables.
fn publish(producer: &mut Producer, tables: &[&str], n: &mut i64) {
    for table in tables {
        row(producer, table, *n);
        *n += 1;
    }
    producer.publish().expect("room");
}

/// What the row `n` of `table` looks like as text.
fn line(table: &str, n: i64) -> (String, String) {
    let venue = n % 2;
    let at = n + 1;
    let text = format!(r#"{{"sym":"S{n}","venue":"V{venue}","n":{n},"timestamp":{at}}}"#);
    (table.to_owned(), text)
}

/// The kept files, each as its first line and its rows.
fn kept(dir: &Path) -> Vec<(serde_json::Value, Vec<(String, String)>)> {
    let mut paths: Vec<PathBuf> = match std::fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let head: serde_json::Value = serde_json::from_slice(&bytes[..end]).unwrap();
        let message = &bytes[end + 1..];
        assert_eq!(head["bytes"], message.len(), "{}", path.display());
        (head, rows(message, &mut ConnectionDict::new()))
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn the_second_of_three_tables_is_kept_and_everything_else_arrives_once() {
    let dir = loadgen::scratch();
    let (peer, stored) = server(false);
    let engine = Engine::connect(&conf(&peer, dir.path(), "")).expect("async");
    let mut producer = engine.producer().expect("open");
    let mut n = 0;
    publish(&mut producer, &["a", "c"], &mut n); // 0, 1
    publish(&mut producer, &["a", BAD, "c"], &mut n); // 2, 3, 4
    publish(&mut producer, &["c"], &mut n); // 5
    publish(&mut producer, &[BAD], &mut n); // 6
    publish(&mut producer, &[BAD, "a"], &mut n); // 7, 8
    publish(&mut producer, &["a", "c"], &mut n); // 9, 10
    engine.wait_acked(PATIENCE).expect("the queue moves on");
    let stats = engine.stats();
    assert_eq!(
        (stats.tables_dead_lettered, stats.rows_dead_lettered),
        (3, 3)
    );
    engine.close().expect("drained");
    let expected = [
        ("a", 0),
        ("c", 1),
        ("a", 2),
        ("c", 4),
        ("c", 5),
        ("a", 8),
        ("a", 9),
        ("c", 10),
    ];
    assert_eq!(
        *stored.lock().unwrap(),
        expected.map(|(table, n)| line(table, n)),
        "in order, once"
    );
    let kept = kept(&dir.path().join("sf/.rejected"));
    let rows: Vec<_> = kept.iter().flat_map(|(_, rows)| rows.clone()).collect();
    assert_eq!(rows, [3, 6, 7].map(|n| line(BAD, n)));
    let (head, _) = &kept[0];
    assert_eq!(head["table"], BAD);
    assert_eq!(head["fsn"], 1);
    assert_eq!(head["rows"], 1);
    assert_eq!(head["sender_id"], "feed");
    assert_eq!(head["reason"], "refused by the script");
    assert_eq!(head["server"], peer.addr().to_string());
    let slot: Vec<_> = std::fs::read_dir(dir.path().join("sf/feed"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(slot.len(), 2, "the slot is empty: {slot:?}");
}

/// Each dead letter costs two connections. It is progress: with good frames in between there is no
/// pause, however long the usual one is.
#[test]
fn dead_letters_between_good_frames_cost_no_pause() {
    let dir = loadgen::scratch();
    let (peer, stored) = server(false);
    let text = conf(&peer, dir.path(), "").replace("_millis=5;", "_millis=30000;");
    let text = text.replace("_millis=20;", "_millis=30000;");
    let engine = Engine::connect(&text).expect("async");
    let mut producer = engine.producer().expect("open");
    let mut n = 0;
    for _ in 0..5 {
        publish(&mut producer, &["a", BAD, "c"], &mut n);
        publish(&mut producer, &["a"], &mut n);
    }
    // Less than one pause.
    engine.wait_acked(PATIENCE).expect("the queue moves on");
    assert_eq!(engine.stats().tables_dead_lettered, 5);
    engine.close().expect("drained");
    assert_eq!(stored.lock().unwrap().len(), 15);
    assert_eq!(peer.connections(), 11);
}

#[test]
fn where_durable_was_asked_for_the_rest_of_the_frame_waits_for_it() {
    let dir = loadgen::scratch();
    let (peer, stored) = server(true);
    let more = "request_durable_ack=on;durable_ack_keepalive_interval_millis=10;";
    let engine = Engine::connect(&conf(&peer, dir.path(), more)).expect("async");
    let mut producer = engine.producer().expect("open");
    let mut n = 0;
    for _ in 0..3 {
        publish(&mut producer, &["a", BAD, "c"], &mut n);
    }
    engine.wait_acked(PATIENCE).expect("the queue moves on");
    engine.close().expect("drained");
    let mut lines = stored.lock().unwrap().clone();
    lines.sort();
    lines.dedup();
    let expected = [("a", 0), ("a", 3), ("a", 6), ("c", 2), ("c", 5), ("c", 8)];
    assert_eq!(lines, expected.map(|(table, n)| line(table, n)));
    assert_eq!(kept(&dir.path().join("sf/.rejected")).len(), 3);
}

#[test]
fn a_process_that_ends_in_between_sends_the_frame_again() {
    let dir = loadgen::scratch();
    let rejected = format!("rejected_dir={};", dir.path().join("kept").display());
    let (peer, stored) = server(false);
    // The first refusal of a part is the last thing that this process hears.
    let silent = Peer::start(|number, conn| {
        conn.upgrade(&UpgradePolicy::default());
        if number < 2 {
            while conn.next_row_or_catch_up() {
                let bad = conn.last.windows(3).any(|part| part == BAD.as_bytes());
                let seq = conn.messages - 1;
                if bad {
                    conn.refuse(0x03, seq);
                    return conn.listen_to_the_end();
                }
                conn.ok(seq);
            }
        }
        conn.listen_to_the_end();
    });
    let text = conf(&silent, dir.path(), &rejected).replace("=20000", "=0");
    let engine = Engine::connect(&text).expect("async");
    let mut producer = engine.producer().expect("open");
    let mut n = 0;
    publish(&mut producer, &["a", BAD, "c"], &mut n);
    let start = std::time::Instant::now();
    while silent.connections() < 3 {
        assert!(start.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    let error = engine.close().expect_err("not acked");
    assert!(
        matches!(error, Error::NotDrained { frames: 1, .. }),
        "{error}"
    );
    let engine = Engine::connect(&conf(&peer, dir.path(), &rejected)).expect("async");
    engine.wait_acked(PATIENCE).expect("the queue moves on");
    engine.close().expect("drained");
    let lines = stored.lock().unwrap().clone();
    assert_eq!(lines, [line("a", 0), line("c", 2)]);
    let kept = kept(&dir.path().join("kept"));
    assert_eq!(kept.len(), 1, "one file, whoever wrote it first");
    assert_eq!(kept[0].1, [line(BAD, 1)]);
}

#[test]
fn a_full_directory_is_terminal_and_the_frame_stays() {
    let dir = loadgen::scratch();
    let (peer, _stored) = server(false);
    let more = "rejected_max_bytes=700;";
    let engine = Engine::connect(&conf(&peer, dir.path(), more)).expect("async");
    let mut producer = engine.producer().expect("open");
    let mut n = 0;
    let error = loop {
        row(&mut producer, BAD, n);
        n += 1;
        if let Err(error) = producer.publish() {
            break error;
        }
        std::thread::sleep(Duration::from_millis(1));
        assert!(n < 10_000, "it ends");
    };
    assert!(error.to_string().contains("rejected_max_bytes"), "{error}");
    let error = engine.close().expect_err("frames are left");
    assert!(
        matches!(error, Error::NotDrained { frames, .. } if frames > 0),
        "{error}"
    );
    let files = kept(&dir.path().join("sf/.rejected"));
    assert!((1..5).contains(&files.len()), "{}", files.len());
}
