//! `forebay drain` and `forebay clear-failed`, as processes.

#![cfg(feature = "drain")]
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay::{Engine, TimestampNanos};
use forebay_loadgen::sink::{Sink, SinkConfig};
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
