//! A large backlog: opened and drained with few descriptors and little memory, by a real process.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::process::Command;

use forebay::{Engine, TimestampNanos};
use forebay_loadgen::sink::{Sink, SinkConfig};

mod loadgen;

const SEGMENTS: u64 = 400;

#[test]
fn a_backlog_of_many_segments_is_drained_under_a_low_descriptor_limit() {
    let dir = loadgen::scratch();
    let conf = |address: &str| {
        format!(
            "ws::addr={address};sf_dir={};sf_max_segment_bytes=64k;initial_connect_retry=async;\
             pin=off;close_flush_timeout_millis=0;",
            dir.path().join("sf").display()
        )
    };
    let engine = Engine::connect(&conf("127.0.0.1:1")).expect("a free slot");
    let mut producer = engine.producer().expect("open");
    let text = "x".repeat(1000);
    let mut frames = 0u64;
    while engine.stats().segments_written < SEGMENTS {
        for row in 0..15 {
            producer.table("t").unwrap().column_str("v", &text).unwrap();
            producer.at(TimestampNanos(row)).unwrap();
        }
        producer.flush().expect("room");
        frames += 1;
    }
    engine.close().expect_err("nobody listens");
    let sink = Sink::start(SinkConfig::default()).expect("listens");
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$@\"", "sh"])
        .arg(loadgen::binary())
        .args(["replay", "--drain-only", "--conf"])
        .arg(conf(&sink.addr().to_string()).replace("timeout_millis=0", "timeout_millis=30000"))
        .arg(loadgen::data("btc_trades.csv"))
        .args(["--table", "unused"])
        .output()
        .expect("sh starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(sink.stop().messages, frames);
}
