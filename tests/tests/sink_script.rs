//! Claim: the command `forebay-loadgen sink` does what its options for faults, credentials, TLS and
//! records say. What each action of a script does is tested beside the code that does it.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

mod loadgen;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use loadgen::{Running, binary, scratch, stderr};
use questdb::ingress::{AckLevel, Sender, TimestampMicros};
use serde_json::Value;

/// A sink with these options, its output, and where it listens.
fn start(options: &[&str]) -> (Running, BufReader<ChildStdout>, String) {
    let mut command = Command::new(binary());
    command.args(["sink", "--listen", "127.0.0.1:0"]);
    let mut sink = Running::start(command.args(options).stdout(Stdio::piped()));
    let mut said = BufReader::new(sink.0.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let addr = line.strip_prefix("listening ").unwrap().trim().to_owned();
    (sink, said, addr)
}

fn send_rows(conf: &str, rows: i64) {
    let mut sender = Sender::from_conf(conf).unwrap();
    let mut buffer = sender.new_buffer();
    for n in 0..rows {
        let row = buffer.table("t").unwrap().column_i64("n", n).unwrap();
        row.at(TimestampMicros::new(n)).unwrap();
        sender.flush(&mut buffer).unwrap();
    }
    sender.wait(AckLevel::Ok, Duration::from_secs(30)).unwrap();
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_script_from_a_file_acts_and_the_record_tells_what_connections_did() {
    let dir = scratch();
    let (script, record) = (dir.path().join("faults"), dir.path().join("record.json"));
    let rules = "# twice\nmessage 2 times 2 -> rst\nconn 1 -> http 503\n";
    fs::write(&script, rules).unwrap();
    let (mut sink, said, addr) = start(&[
        "--auth-basic",
        "user:secret",
        "--script",
        script.to_str().unwrap(),
        "--record",
        record.to_str().unwrap(),
    ]);
    let conf = format!(
        "ws::addr={addr};username=user;password=secret;reconnect_initial_backoff_millis=5;"
    );
    send_rows(&conf, 6);
    sink.terminate();
    assert!(sink.finish("end of the sink").success());
    let totals = said.lines().last().unwrap().unwrap();
    assert!(totals.starts_with("totals {"), "{totals}");
    let text = fs::read_to_string(&record).unwrap();
    assert!(!text.contains("secret") && !text.contains("dXNlcjpzZWNyZXQ="));
    let connections = json(&record)["connections"].as_array().unwrap().clone();
    let statuses: Vec<u64> = connections
        .iter()
        .map(|conn| conn["http_status"].as_u64().unwrap())
        .collect();
    assert_eq!(statuses, [101, 503, 101, 101]);
    assert_eq!(connections[0]["messages"][2]["fate"], "cut");
    assert_eq!(connections[0]["acked"], 2);
}

#[test]
fn mistakes_in_script_and_certificate_are_told_before_anything_listens() {
    let dir = scratch();
    let script = dir.path().join("faults");
    fs::write(&script, "\nmessage 2 -> explode\n").unwrap();
    let run = |options: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["sink", "--listen", "127.0.0.1:0"]);
        let output = command.args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        stderr(&output)
    };
    let script = script.to_str().unwrap();
    let told = run(&["--script", script]);
    let reason = "line 2 of the script: unknown action `explode`";
    assert!(told.contains(reason) && told.contains(script), "{told}");
    let told = run(&["--tls-cert", script, "--tls-key", script]);
    assert!(told.contains("TLS identity"), "{told}");
}
