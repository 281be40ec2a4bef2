//! The main job: real market data goes through the real binary into a server of its own process,
//! and what the server decodes is the file, row by row and value by value, in order.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

mod loadgen;

use std::process::{Output, Stdio};
use std::time::SystemTime;

use loadgen::{BTC, Market, NASDAQ, Running, SinkProcess, scratch, stderr, stored, wait_for};

fn arrives_unchanged(market: &Market, batch_rows: usize) {
    let dir = scratch();
    let (store, json) = (dir.path().join("store"), dir.path().join("report.json"));
    let sink = SinkProcess::start("127.0.0.1:0", &store);
    let conf = format!(
        "ws::addr={};sf_dir={};sender_id=main-job;initial_connect_retry=async;\
         close_flush_timeout_millis=30000;",
        sink.addr,
        dir.path().join("sf").display()
    );
    let output = market
        .replay(&conf)
        .args(["--batch", &batch_rows.to_string(), "--json"])
        .arg(&json)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let (expected, found) = (market.expected(), stored(&store));
    for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
        assert_eq!(found, expected, "row {}", number + 1);
    }
    assert_eq!(found.len(), market.rows);

    let report = std::fs::read_to_string(&json).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let batches = market.rows.div_ceil(batch_rows);
    for (key, value) in [
        ("rows_sent", market.rows),
        ("rows_acked", market.rows),
        ("rows_unacked", 0),
        ("batches_sent", batches),
        ("frames_published", batches),
        ("frames_acked", batches),
        ("frames_unacked", 0),
        ("exit_code", 0),
    ] {
        assert_eq!(report[key], value, "{key} in {report:#}");
    }
}

#[test]
fn btc_trades_arrive_unchanged_and_in_order() {
    arrives_unchanged(&BTC, 1_000);
}

#[test]
fn nasdaq_trades_arrive_unchanged_and_in_order() {
    arrives_unchanged(&NASDAQ, 64);
}

#[test]
fn rebased_data_starts_now_and_keeps_its_distances() {
    let dir = scratch();
    let store = dir.path().join("store");
    let sink = SinkProcess::start("127.0.0.1:0", &store);
    let before = now_micros();
    let output = BTC
        .replay(&format!("ws::addr={};", sink.addr))
        .args(["--rebase", "now"])
        .output()
        .unwrap();
    let after = now_micros();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (original, rebased) = (timestamps(&BTC.expected()), timestamps(&stored(&store)));
    assert_eq!(rebased.len(), BTC.rows);
    assert!(
        (before..=after).contains(&rebased[0]),
        "{before} {} {after}",
        rebased[0]
    );
    let shift = rebased[0] - original[0];
    assert!(
        rebased
            .iter()
            .zip(&original)
            .all(|(new, old)| new - old == shift)
    );
}

fn now_micros() -> i64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    i64::try_from(now.as_micros()).unwrap()
}

fn timestamps(rows: &[Vec<String>]) -> Vec<i64> {
    let value = |cell: &String| cell.strip_prefix("\"timestamp\":").map(str::to_owned);
    rows.iter()
        .map(|row| row.iter().find_map(value).unwrap().parse().unwrap())
        .collect()
}

#[test]
fn sigterm_ends_a_replay_as_usual_behind_a_whole_batch() {
    let dir = scratch();
    let (store, log) = (dir.path().join("store"), dir.path().join("log"));
    let json = dir.path().join("report.json");
    let sink = SinkProcess::start("127.0.0.1:0", &store);
    let mut command = BTC.replay(&format!("ws::addr={};", sink.addr));
    command
        .args(["--speed", "60x", "--batch", "7", "--confirm-log"])
        .arg(&log);
    command.arg("--json").arg(&json).stdout(Stdio::null());
    let mut process = Running::start(&mut command);
    wait_for("confirmed batch", || {
        std::fs::read_to_string(&log)
            .ok()
            .filter(|text| text.contains('\n'))
    });
    process.terminate();
    let status = process.finish("end after SIGTERM");
    assert_eq!(status.code(), Some(0));
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let rows = stored(&store).len();
    assert!(
        rows > 0 && rows < BTC.rows && rows.is_multiple_of(7),
        "{rows}"
    );
    assert_eq!(
        (&report["rows_sent"], &report["rows_acked"]),
        (&rows.into(), &rows.into())
    );
    assert_eq!(report["batch_confirmed"], rows / 7);
    assert_eq!(report["stopped_by_signal"], true);
}

/// Replays to a port where nobody listens.
fn without_server(extra: &str) -> Output {
    let dir = scratch();
    let conf = format!(
        "ws::addr=127.0.0.1:1;sf_dir={};initial_connect_retry=async;{extra}",
        dir.path().display()
    );
    BTC.replay(&conf).output().unwrap()
}

#[test]
fn rows_that_nobody_confirmed_are_exit_status_3_and_told() {
    let output = without_server("close_flush_timeout_millis=100;");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("5882 rows"), "{}", stderr(&output));
}

#[test]
fn an_unknown_key_is_exit_status_1_and_named() {
    let output = without_server("sf_dri=x;");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("sf_dri"), "{}", stderr(&output));
}

#[test]
fn a_bad_row_is_exit_status_1_named_by_line_and_column_and_nothing_is_sent() {
    let dir = scratch();
    let store = dir.path().join("store");
    let sink = SinkProcess::start("127.0.0.1:0", &store);
    let file = dir.path().join("bad.csv");
    let rows = "2023-09-05T16:00:00Z,1\n".repeat(10);
    std::fs::write(
        &file,
        format!("timestamp,size\n{rows}2023-09-05T16:00:00Z,1.5\n"),
    )
    .unwrap();
    let output = std::process::Command::new(loadgen::binary())
        .arg("replay")
        .arg(&file)
        .args([
            "--table",
            "trades",
            "--timestamp",
            "timestamp",
            "--types",
            "size=long",
        ])
        .args([
            "--batch",
            "2",
            "--conf",
            &format!("ws::addr={};", sink.addr),
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(
        told.contains("line 12") && told.contains("\"size\""),
        "{told}"
    );
    assert!(stored(&store).is_empty());
}
