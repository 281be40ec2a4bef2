//! Close: bounded, cheap, honest about what is left, and the slot is free when it returns
//! (operations.md O20 to O22). That it burns no core is in `close_spins.rs`.
//!
//! Times are measured, so the tests of this file run one after the other.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay::{Engine, Error, TimestampNanos};
use forebay_loadgen::sink::{Sink, SinkConfig};
use forebay_wire::upgrade::UpgradePolicy;

mod loadgen;

use loadgen::Running;

/// What a close may take beyond its limit on a busy machine: the steward, which yields to others,
/// finishes the spare that it is at.
const GRACE: Duration = Duration::from_secs(3);
/// Nobody listens there.
const NOWHERE: &str = "127.0.0.1:1";

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn conf(dir: &Path, address: &str, close_millis: i64, more: &str) -> String {
    format!(
        "ws::addr={address};sf_dir={};sf_max_segment_bytes=64k;pin=off;lock_retry_millis=0;\
         initial_connect_retry=async;reconnect_initial_backoff_millis=5;\
         reconnect_max_backoff_millis=50;close_flush_timeout_millis={close_millis};{more}",
        dir.join("sf").display()
    )
}

fn publish(engine: &Engine, rows: i64, text: &str) {
    let mut producer = engine.producer().unwrap();
    for n in 0..rows {
        producer.table("t").unwrap().column_i64("n", n).unwrap();
        producer.column_str("v", text).unwrap();
        producer.at(TimestampNanos(n + 1)).unwrap();
        producer.publish().unwrap();
    }
    producer.flush().unwrap();
}

/// Closes and answers what it said and how long it took.
fn close(engine: Engine) -> (Result<(), Error>, Duration) {
    let start = Instant::now();
    let said = engine.close();
    (said, start.elapsed())
}

/// Unacked frames in the slot, which nobody holds.
fn left(dir: &Path) -> u64 {
    let engine = Engine::connect(&conf(dir, NOWHERE, 0, "")).expect("the slot is free");
    let frames = engine.stats().frames_recovered;
    let _ = engine.close();
    frames
}

fn listen() -> TcpListener {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap()
}

#[test]
fn close_waits_up_to_its_limit_and_says_what_is_left() {
    let _alone = alone();
    let dir = loadgen::scratch();
    let engine = Engine::connect(&conf(dir.path(), NOWHERE, 300, "")).unwrap();
    publish(&engine, 7, "");
    let (said, took) = close(engine);
    let Err(Error::NotDrained {
        frames,
        bytes,
        untaken,
        waited_millis,
    }) = said
    else {
        panic!("{said:?}");
    };
    assert_eq!((frames, untaken), (7, 0));
    assert!(
        bytes > 7 * 20 && waited_millis >= 300,
        "{bytes} {waited_millis}"
    );
    assert!(
        took >= Duration::from_millis(300) && took < Duration::from_millis(300) + GRACE,
        "{took:?}"
    );
    assert_eq!(left(dir.path()), 7);
}

#[test]
fn zero_and_minus_one_do_not_wait() {
    let _alone = alone();
    for limit in [0, -1] {
        let dir = loadgen::scratch();
        let engine = Engine::connect(&conf(dir.path(), NOWHERE, limit, "")).unwrap();
        publish(&engine, 7, "");
        let (said, took) = close(engine);
        assert!(
            matches!(said, Err(Error::NotDrained { frames: 7, .. })),
            "{said:?}"
        );
        assert!(took < GRACE, "{took:?}");
        assert_eq!(left(dir.path()), 7);
    }
}

#[test]
fn close_ends_as_soon_as_all_is_acked() {
    let _alone = alone();
    let dir = loadgen::scratch();
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let engine = Engine::connect(&conf(dir.path(), &sink.addr().to_string(), 30_000, "")).unwrap();
    publish(&engine, 7, "");
    let (said, took) = close(engine);
    said.unwrap();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(sink.stop().rows, 7);
    assert_eq!(left(dir.path()), 0);
}

#[test]
fn a_terminal_error_comes_out_of_close_and_the_slot_is_free() {
    let _alone = alone();
    let dir = loadgen::scratch();
    let upgrade = UpgradePolicy {
        authorization: Some("Bearer other".to_owned()),
        ..UpgradePolicy::default()
    };
    // Nobody listens until the row is accepted.
    let address = listen().local_addr().unwrap();
    let engine = Engine::connect(&conf(dir.path(), &address.to_string(), 30_000, "")).unwrap();
    publish(&engine, 1, "");
    let _sink = Sink::start(SinkConfig {
        listen: address,
        upgrade,
        ..SinkConfig::default()
    })
    .unwrap();
    loadgen::wait_for("the refusal", || {
        engine.last_failure().filter(|cause| cause.contains("401"))
    });
    let (said, took) = close(engine);
    assert!(
        matches!(&said, Err(Error::Peer { reason, .. }) if reason.contains("401")),
        "{said:?}"
    );
    assert!(
        took < Duration::from_secs(5),
        "no wait for what will not come: {took:?}"
    );
    assert_eq!(left(dir.path()), 1);
}

#[test]
fn dropping_an_engine_closes_it_once() {
    let _alone = alone();
    let dir = loadgen::scratch();
    let engine = Engine::connect(&conf(dir.path(), NOWHERE, 100, "")).unwrap();
    publish(&engine, 3, "");
    let start = Instant::now();
    drop(engine);
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(100) && took < Duration::from_millis(100) + GRACE,
        "{took:?}"
    );
    assert_eq!(left(dir.path()), 3);
}

/// A process that was told to end; killed when a test fails.
struct Closing {
    process: Running,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Closing {
    fn start(conf: &str, frames: u64) -> Self {
        let mut process = Running::start(
            Command::new(env!("CARGO_BIN_EXE_closing"))
                .args([conf, &frames.to_string()])
                .stdout(Stdio::piped()),
        );
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        Self { process, lines }
    }

    /// Waits until no signal is on its way: a second one of the kind would be none.
    fn wait_until_told(&self) {
        let status = format!("/proc/{}/status", self.process.id());
        loadgen::wait_for("a signal that has arrived", || {
            let text = std::fs::read_to_string(&status).unwrap();
            let mut masks = text.lines().filter_map(|line| {
                let (key, mask) = line.split_once(':')?;
                matches!(key, "SigPnd" | "ShdPnd").then_some(mask.trim())
            });
            masks
                .all(|mask| mask.bytes().all(|b| b == b'0'))
                .then_some(())
        });
    }
}

/// Field report `sigterm-with-backlog`.
#[test]
fn sigterm_with_backlog() {
    let _alone = alone();
    let silent = listen();
    let silent_address = silent.local_addr().unwrap().to_string();
    for address in [NOWHERE, &silent_address] {
        let dir = loadgen::scratch();
        let mut closing = Closing::start(&conf(dir.path(), address, 2000, ""), 1000);
        let start = Instant::now();
        closing.process.terminate();
        let last = closing.lines.by_ref().last().unwrap().unwrap();
        let status = closing.process.0.wait().unwrap();
        let took = start.elapsed();
        assert!(took < Duration::from_secs(2) + GRACE, "{took:?}");
        assert!(took >= Duration::from_secs(2), "{took:?}");
        assert_eq!(status.code(), Some(1));
        assert!(
            last.contains("1000 frames (") && last.contains("bytes) not acknowledged"),
            "{last:?}"
        );
        assert_eq!(left(dir.path()), 1000);

        let mut closing = Closing::start(&conf(dir.path(), address, 60_000, ""), 1);
        closing.process.terminate();
        closing.wait_until_told();
        // It closes by then.
        std::thread::sleep(Duration::from_millis(100));
        closing.process.terminate();
        let start = Instant::now();
        assert_eq!(
            closing.process.0.wait().unwrap().code(),
            Some(130),
            "at once"
        );
        assert!(start.elapsed() < GRACE, "{:?}", start.elapsed());
        let kept = || {
            Engine::connect(
                &conf(dir.path(), NOWHERE, 0, "").replace("retry_millis=0", "retry_millis=2000"),
            )
        };
        assert_eq!(kept().unwrap().stats().frames_recovered, 1001);
    }
}

/// Field report `reopen-same-process`: 1,000 times with `FOREBAY_SCALE=4`.
#[test]
fn reopen_same_process() {
    let _alone = alone();
    let dir = loadgen::scratch();
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let scale: usize = std::env::var("FOREBAY_SCALE").map_or(1, |n| n.parse().unwrap());
    let mut rows = 0;
    for round in 0..250 * scale {
        let limit = [0, -1, 5000][round % 3];
        let address = if round % 2 == 0 {
            sink.addr().to_string()
        } else {
            NOWHERE.to_owned()
        };
        // A wait is for a server that is there.
        let limit = if round % 2 == 1 { limit.min(1) } else { limit };
        let conf = conf(dir.path(), &address, limit, "");
        let engine = Engine::connect(&conf).unwrap_or_else(|e| panic!("round {round}: {e}"));
        publish(&engine, 1, "");
        rows += 1;
        match engine.close() {
            Ok(()) | Err(Error::NotDrained { untaken: 0, .. }) => {}
            other => panic!("round {round}: {other:?}"),
        }
    }
    let engine = Engine::connect(&conf(dir.path(), &sink.addr().to_string(), 30_000, "")).unwrap();
    engine.wait_acked(loadgen::PATIENCE).unwrap();
    engine.close().unwrap();
    assert!(sink.stop().rows >= rows, "nothing is lost");
}

/// Field report `failed-open-leaks-lock`, the part behind recovery; the steps of recovery are in
/// the engine's own tests.
#[test]
fn failed_open_leaks_lock() {
    let _alone = alone();
    let dir = loadgen::scratch();
    let ours = conf(dir.path(), NOWHERE, 0, "");
    // A core that there is not: refused when ring, lock and threads are there.
    let refused = ours.replace("pin=off;", "pin=on;cores=60000;");
    // No server: refused when the shard runs.
    let unreachable = ours.replace("retry=async", "retry=off");
    for round in 0..8 {
        let error = Engine::connect(&refused).expect_err("no such core");
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        let engine = Engine::connect(&ours).unwrap_or_else(|e| panic!("round {round}: {e}"));
        publish(&engine, 1, "");
        engine.close().expect_err("nobody listens");
        let error = Engine::connect(&unreachable).expect_err("nobody listens");
        assert!(matches!(error, Error::Peer { .. }), "{error}");
        let engine = Engine::connect(&ours).unwrap_or_else(|e| panic!("round {round}: {e}"));
        let _ = engine.close();
    }
    assert_eq!(left(dir.path()), 8);
}
