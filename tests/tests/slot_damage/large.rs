//! Field reports about large backlogs and starts that are cut short, each under its id. Sizes are
//! what plain `cargo test` can bear; `FOREBAY_SCALE=n` multiplies them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use forebay::{Engine, Error, TimestampNanos};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_tests::seeds::scale;
use forebay_tests::stored_slot::StoredSlot;

use crate::numbers;
use crate::slots::{Rig, dictionary, dual, frame, name, publish, record, segment};

/// A slot of so many segments of one page with two frames each; names in reverse order of FSN.
fn many_segments(count: u64) -> Rig {
    let rig = Rig::empty();
    for index in 0..count {
        let frames: Vec<_> = (2 * index..2 * index + 2)
            .map(|fsn| frame(&Rig::message(fsn)))
            .collect();
        let file = segment(2 * index, 4096, &frames);
        rig.put(&name(count - 1 - index), &file);
    }
    let last = i64::try_from(2 * (count - 1)).unwrap();
    rig.put("sf-manifest.bin", &dual(&[record(*b"SFM1", 1, 0, last)]));
    rig.put(".symbol-dict", &dictionary(&[&["one"], &["two"]]));
    rig
}

/// `slot_client` on this engine, under a limit of the shell.
fn client(limit: &str, conf: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("{limit}; exec \"$@\""), "sh"])
        .arg(env!("CARGO_BIN_EXE_slot_client"))
        .args(["ours", conf])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets the client deliver everything; answers the most memory that it ever had, in bytes.
fn deliver(mut client: Child) -> u64 {
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut next = |client: &mut Child| {
        let line = lines.next();
        line.unwrap_or_else(|| {
            let mut text = String::new();
            let stderr = client.stderr.as_mut().unwrap();
            stderr.read_to_string(&mut text).unwrap();
            panic!("it ended: {text}");
        })
        .unwrap()
    };
    assert_eq!(next(&mut client), "open");
    writeln!(client.stdin.as_mut().unwrap(), "acked").unwrap();
    assert_eq!(next(&mut client), "acked");
    let status = fs::read_to_string(format!("/proc/{}/status", client.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    drop(client.stdin.take());
    assert!(client.wait().unwrap().success());
    kib.parse::<u64>().unwrap() * 1024
}

fn count_only() -> Sink {
    Sink::start(SinkConfig {
        depth: Depth::Count,
        ..SinkConfig::default()
    })
    .unwrap()
}

#[test]
fn fd_limit_recovery() {
    let count = 2_600;
    let rig = many_segments(count);
    let sink = count_only();
    deliver(client(
        "ulimit -n 256",
        &rig.connect_string(sink.addr(), 30_000),
    ));
    assert_eq!(sink.stop().messages, 2 * count);
    assert!(!rig.aside().exists());
    assert!(rig.files().is_empty());
}

#[test]
fn backlog_bigger_than_ram() {
    let mut peaks = Vec::new();
    for mib in [16, 80] {
        let rig = Rig::empty();
        let engine = rig.connect().unwrap();
        let mut producer = engine.producer().unwrap();
        let text = "x".repeat(16 * 1024);
        let rows = mib * scale() * 64;
        for row in 0..rows {
            producer.table("t").unwrap().column_str("v", &text).unwrap();
            producer
                .at(TimestampNanos(i64::try_from(row).unwrap()))
                .unwrap();
            producer.flush().unwrap();
        }
        drop((producer, engine));
        let sink = count_only();
        let conf = rig.connect_string(sink.addr(), 30_000);
        let peak = deliver(client(":", &format!("{conf}memory_budget_bytes=8m;")));
        assert!(sink.stop().messages >= rows / 4);
        peaks.push(peak >> 10);
    }
    println!("peak memory of 16 and 80 MiB: {peaks:?} KiB");
    let grown = peaks[1].saturating_sub(peaks[0]);
    assert!(grown < 16 << 10, "{grown} KiB more for 64 MiB more");
}

#[test]
fn startup_time_vs_backlog() {
    // What is asserted here is order; the time, of four times as many files, with much leeway.
    let mut times = Vec::new();
    for count in [500, 2_000] {
        let rig = many_segments(count * scale());
        let started = Instant::now();
        let engine = rig.connect().unwrap();
        publish(&engine, 2 * count * scale());
        times.push(started.elapsed());
        assert_eq!(engine.stats().frames_recovered, 2 * count * scale());
        drop(engine);
        assert_eq!(rig.drain(), numbers(0..2 * count * scale() + 1));
    }
    println!("first accepted append with 500 and 2,000 segments: {times:?}");
    let limit = times[0] * 8 + Duration::from_secs(2);
    assert!(times[1] < limit, "{times:?}");
}

#[test]
fn killed_during_recovery() {
    let count = 64;
    let rig = many_segments(count);
    // As it is after an undisturbed start: with the identity and a spare.
    let conf = rig.offline();
    let started = Instant::now();
    let mut undisturbed = client(":", &conf);
    let mut line = String::new();
    let mut stdout = BufReader::new(undisturbed.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "open\n");
    let took = started.elapsed();
    undisturbed.kill().unwrap();
    undisturbed.wait().unwrap();
    for percent in [10, 50, 90] {
        for _ in 0..3 {
            let mut child = client(":", &conf);
            std::thread::sleep(took * percent / 100);
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(!rig.aside().exists(), "{percent} %");
        let stored = StoredSlot::read(&rig.slot()).unwrap();
        assert_eq!(stored.frames.len() as u64, 2 * count, "{percent} %");
        let fsns = stored.frames.iter().map(|frame| frame.fsn);
        assert!(fsns.eq(0..2 * count), "{percent} %");
    }
    assert_eq!(rig.drain(), numbers(0..2 * count));
}

/// The variant of `drained-then-resent` in which nobody closes.
#[test]
fn drained_then_resent_after_a_kill_at_the_last_ack() {
    let rig = Rig::empty();
    let sink = count_only();
    let mut child = client(":", &rig.connect_string(sink.addr(), 0));
    writeln!(child.stdin.as_mut().unwrap(), "rows 0 10 5 2\nacked").unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "acked"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(sink.stop().messages, 10);
    let noted = StoredSlot::read(&rig.slot()).unwrap().unacked().len() as u64;
    let sink = count_only();
    let engine = Engine::connect(&rig.connect_string(sink.addr(), 30_000)).unwrap();
    assert_eq!(
        engine.stats().frames_recovered,
        noted,
        "since the last record"
    );
    engine.close().unwrap();
    assert!(sink.stop().messages >= noted);
    for _ in 0..2 {
        assert!(rig.files().is_empty());
        assert_eq!(rig.drain(), numbers(0..0));
    }
}

#[test]
fn first_append_aborted() {
    let rig = Rig::empty();
    let engine = rig.connect().unwrap();
    // Refused, because it fits no segment, and then given up by its producer.
    let mut first = engine.producer().unwrap();
    let text = "x".repeat(70_000);
    first.table("t").unwrap().column_str("v", &text).unwrap();
    first.at(TimestampNanos(1)).unwrap();
    let error = first.flush().expect_err("larger than a segment");
    assert!(matches!(error, Error::BatchTooLarge { .. }), "{error}");
    drop(first);
    publish(&engine, 0);
    publish(&engine, 2);
    drop(engine);
    let stored = StoredSlot::read(&rig.slot()).unwrap();
    let fsns: Vec<u64> = stored.frames.iter().map(|frame| frame.fsn).collect();
    assert_eq!(fsns, [0, 1]);
    assert_eq!(rig.drain(), [0, 2]);
}
