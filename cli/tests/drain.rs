//! `forebay drain` and `forebay clear-failed`, as processes.

#![cfg(feature = "drain")]
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay::{Engine, TimestampNanos};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_wire::upgrade::UpgradePolicy;

/// Nobody listens there.
const NOWHERE: &str = "ws::addr=127.0.0.1:1;";
/// Limit of a wait for a process, seconds.
const PATIENCE: &str = "60";

struct Rig(tempfile::TempDir);

impl Rig {
    /// A directory with these slots, each with three frames.
    fn new(slots: &[&str]) -> Self {
        let rig = Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
        for slot in slots {
            rig.hold(slot).close().expect_err("nobody listens");
        }
        rig
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn slot(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn hold(&self, slot: &str) -> Engine {
        let conf = format!(
            "{NOWHERE}sf_dir={};sender_id={slot};sf_max_segment_bytes=64k;pin=off;\
             initial_connect_retry=async;close_flush_timeout_millis=0;",
            self.path().display()
        );
        let engine = Engine::connect(&conf).unwrap();
        let mut producer = engine.producer().unwrap();
        for n in 0..3 {
            producer.table("t").unwrap().column_i64("n", n).unwrap();
            producer.at(TimestampNanos(n + 1)).unwrap();
            producer.flush().unwrap();
        }
        engine
    }
}

fn conf(address: SocketAddr) -> String {
    format!("ws::addr={address};")
}

fn drain(rig: &Rig, conf: &str, more: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args([PATIENCE, env!("CARGO_BIN_EXE_forebay"), "drain"]);
    command.arg(rig.path()).args(["--conf", conf]).args(more);
    command
}

/// Exit status and what was printed.
fn outcome(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
    (output.status.code().unwrap(), text.concat())
}

fn clear_failed(path: &Path, more: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    outcome(command.arg("clear-failed").arg(path).args(more))
}

#[test]
fn all_slots_are_drained_and_each_is_told_on_a_line() {
    let rig = Rig::new(&["a", "b"]);
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let (status, text) = outcome(&mut drain(&rig, &conf(sink.addr()), &[]));
    assert_eq!(status, 0, "{text}");
    for line in [
        "a: started: 3 frames",
        "a: drained: 3 frames",
        "b: drained: 3 frames",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert_eq!(sink.stop().rows, 6);
    let (status, text) = outcome(&mut drain(&rig, NOWHERE, &["--once"]));
    assert_eq!((status, text.as_str()), (0, ""), "nothing is left to do");
}

/// Tables of the senders with several shards.
const TABLES: [&str; 5] = ["t0", "t1", "t2", "t3", "t4"];

/// A life of sender `app` with this number of shards and no server: a row of each number to each
/// table, a frame each.
fn life(rig: &Rig, shards: usize, numbers: std::ops::Range<i64>) -> Engine {
    let conf = format!(
        "{NOWHERE}sf_dir={};sender_id=app;shards={shards};sf_max_segment_bytes=64k;pin=off;\
         initial_connect_retry=async;close_flush_timeout_millis=0;",
        rig.path().display()
    );
    let engine = Engine::connect(&conf).unwrap();
    let mut producer = engine.producer().unwrap();
    for n in numbers {
        for table in TABLES {
            producer.table(table).unwrap().column_i64("n", n).unwrap();
            producer.at(TimestampNanos(n + 1)).unwrap();
        }
        producer.flush().unwrap();
    }
    drop(producer);
    engine
}

/// The numbers of a table in the order in which the server stored them.
fn stored(store: &Path, table: &str) -> Vec<i64> {
    let text = std::fs::read_to_string(store.join(format!("{table}.ndjson"))).unwrap_or_default();
    let number = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        row["n"].as_i64().unwrap()
    };
    text.lines().map(number).collect()
}

fn storing(dir: &Path) -> Sink {
    Sink::start(SinkConfig {
        depth: Depth::Decode,
        store: Some(dir.to_path_buf()),
        ..SinkConfig::default()
    })
    .unwrap()
}

#[test]
fn slots_of_several_shards_are_drained_in_the_order_of_their_eras() {
    let rig = Rig::new(&["other"]);
    for (shards, from) in [(1, 0), (3, 10), (2, 20), (4, 30)] {
        let engine = life(&rig, shards, from..from + 10);
        engine.close().expect_err("nobody listens");
    }
    let store = tempfile::tempdir().unwrap();
    let sink = storing(store.path());
    let (status, text) = outcome(&mut drain(&rig, &conf(sink.addr()), &[]));
    assert_eq!(status, 0, "{text}");
    assert!(
        text.contains("app-0: drained up to another number of shards: "),
        "{text}"
    );
    for slot in [
        "app: ", "app-0: ", "app-1: ", "app-2: ", "app-3: ", "other: ",
    ] {
        let drained = format!("{slot}drained: ");
        assert!(text.contains(&drained), "{drained} in {text}");
    }
    sink.stop();
    for table in TABLES {
        let numbers = stored(store.path(), table);
        assert_eq!(numbers, (0..40).collect::<Vec<_>>(), "{table}: {text}");
    }
}

#[test]
fn with_once_slots_behind_one_that_is_left_are_left_too() {
    let rig = Rig::new(&[]);
    for (shards, from) in [(1, 0), (2, 10)] {
        let engine = life(&rig, shards, from..from + 10);
        engine.close().expect_err("nobody listens");
    }
    let (status, text) = outcome(&mut drain(&rig, NOWHERE, &["--once"]));
    assert_eq!(status, 3, "{text}");
    for line in [
        "app: left: ",
        "app-0: left: app of the same sender comes first",
        "app-1: left: app of the same sender comes first",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
}

#[test]
fn slots_of_a_sender_that_lives_are_left_to_it() {
    let rig = Rig::new(&["other"]);
    life(&rig, 3, 0..10).close().expect_err("nobody listens");
    let living = life(&rig, 2, 10..20);
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let (status, text) = outcome(&mut drain(&rig, &conf(sink.addr()), &[]));
    assert_eq!(status, 3, "{text}");
    for line in [
        "other: drained: 3 frames",
        "app-0: left: somebody holds it",
        "app-1: left: somebody holds it",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    // Its own, though it waits for a server and nobody has opened it yet or again.
    let left = [
        "app-2: left: app-0 of the same sender comes first",
        "app-2: left: somebody",
    ];
    assert!(left.iter().any(|line| text.contains(line)), "{text}");
    assert_eq!(sink.stop().rows, 3);
    let _ = living.close();
}

#[test]
fn with_once_an_unreachable_server_leaves_the_slots() {
    let rig = Rig::new(&["a"]);
    let (status, text) = outcome(&mut drain(&rig, NOWHERE, &["--once"]));
    assert_eq!(status, 3, "{text}");
    assert!(
        text.contains("a: left: ") && text.contains("refused"),
        "{text}"
    );
    assert!(rig.slot("a").join(".last_error").exists());
    assert!(!rig.slot("a").join(".failed").exists());
}

#[test]
fn held_and_marked_slots_are_left_and_named() {
    let rig = Rig::new(&["a", "marked"]);
    std::fs::write(rig.slot("marked").join(".failed"), "once bitten").unwrap();
    let holder = rig.hold("held");
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let (status, text) = outcome(&mut drain(&rig, &conf(sink.addr()), &[]));
    assert_eq!(status, 3, "{text}");
    for line in [
        "a: drained",
        "marked: left: marked as failed",
        "held: left: somebody holds it",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert_eq!(sink.stop().rows, 3);
    let _ = holder.close();
}

#[test]
fn a_refused_slot_is_marked_shown_and_cleared() {
    let rig = Rig::new(&["a"]);
    let upgrade = UpgradePolicy {
        authorization: Some("Bearer other".to_owned()),
        ..UpgradePolicy::default()
    };
    let sink = Sink::start(SinkConfig {
        upgrade,
        ..SinkConfig::default()
    })
    .unwrap();
    let (status, text) = outcome(&mut drain(&rig, &conf(sink.addr()), &[]));
    assert_eq!(status, 4, "{text}");
    assert!(
        text.contains("a: failed: ") && text.contains("401"),
        "{text}"
    );
    sink.stop();
    for path in [rig.path().to_path_buf(), rig.slot("a")] {
        let (status, text) = clear_failed(&path, &[]);
        assert_eq!(status, 0, "{text}");
        assert!(text.contains("failed: ") && text.contains("401"), "{text}");
        assert!(rig.slot("a").join(".failed").exists(), "shown only");
    }
    let (status, text) = clear_failed(rig.path(), &["--yes"]);
    assert!(status == 0 && text.contains("cleared"), "{text}");
    assert!(!rig.slot("a").join(".failed").exists());
    let (status, text) = clear_failed(rig.path(), &["--yes"]);
    assert!(status == 0 && text.contains("no slot is marked"), "{text}");
    let sink = Sink::start(SinkConfig::default()).unwrap();
    let (status, text) = outcome(&mut drain(&rig, &conf(sink.addr()), &[]));
    assert_eq!(status, 0, "{text}");
    assert_eq!(sink.stop().rows, 3);
}

#[test]
fn a_slot_that_was_set_aside_keeps_its_marker() {
    let rig = Rig::new(&["a"]);
    let aside = rig.slot("a.unreplayable-0");
    std::fs::rename(rig.slot("a"), &aside).unwrap();
    std::fs::write(aside.join(".failed"), "damage").unwrap();
    let (status, text) = clear_failed(rig.path(), &["--yes"]);
    assert!(status == 0 && text.contains("no slot is marked"), "{text}");
    let (status, text) = clear_failed(&aside, &["--yes"]);
    assert!(status == 2 && text.contains("set aside"), "{text}");
    assert!(aside.join(".failed").exists());
}

/// A child that is killed when a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_signal_ends_it_in_order() {
    for signal in ["INT", "TERM"] {
        let rig = Rig::new(&["a"]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command
            .arg("drain")
            .arg(rig.path())
            .args(["--conf", NOWHERE]);
        let mut process = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().starts_with("a: started"));
        let kill = format!("kill -{signal} {}", process.0.id());
        assert!(
            Command::new("sh")
                .args(["-c", &kill])
                .status()
                .unwrap()
                .success()
        );
        let last = lines.next().unwrap().unwrap();
        assert!(last.starts_with("a: left: "), "{last}");
        assert_eq!(process.0.wait().unwrap().code(), Some(3), "{signal}");
        let sink = Sink::start(SinkConfig::default()).unwrap();
        let (status, text) = outcome(&mut drain(&rig, &conf(sink.addr()), &[]));
        assert_eq!(status, 0, "{text}");
        assert_eq!(sink.stop().rows, 3);
    }
}

#[test]
fn a_bad_connect_string_or_directory_is_told_before_anything_is_touched() {
    let rig = Rig::new(&["a"]);
    let (status, text) = outcome(&mut drain(&rig, "ws::nonsense", &[]));
    assert_eq!(status, 2, "{text}");
    let nothing = Rig(tempfile::tempdir().unwrap());
    std::fs::remove_dir(nothing.path()).unwrap();
    let (status, text) = outcome(&mut drain(&nothing, NOWHERE, &[]));
    assert!(status == 2 && text.contains("list"), "{text}");
}
