//! A large backlog: opened and drained with few descriptors and little memory, by a real process.
//!
//! `FOREBAY_BACKLOG_MB=n` makes the backlog of one-row frames n MB instead of 600.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay::{Engine, RecoveryProgress, TimestampNanos};
use forebay_loadgen::sink::{RecordLimits, Sink, SinkConfig};

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

/// Bytes of text in each frame: within a piece of the replay's read-ahead, across one border, and
/// longer than all of its memory; in changing order, so that borders fall everywhere.
const LENGTHS: [usize; 8] = [
    100, 700_000, 40, 1_048_576, 5_000_000, 1_048_500, 12, 2_500_000,
];

#[test]
fn frames_across_pieces_and_longer_than_all_of_them_are_replayed_whole_and_in_order() {
    let dir = loadgen::scratch();
    let conf = |address: &str| {
        format!(
            "ws::addr={address};sf_dir={};sf_max_segment_bytes=16m;intake_ring_bytes=16m;\
             initial_connect_retry=async;pin=off;close_flush_timeout_millis=0;",
            dir.path().join("sf").display()
        )
    };
    let engine = Engine::connect(&conf("127.0.0.1:1")).expect("a free slot");
    let mut producer = engine.producer().expect("open");
    let text = "0123456789abcdef".repeat(5_000_000 / 16);
    let lengths: Vec<usize> = LENGTHS.iter().copied().cycle().take(3 * 8 + 3).collect();
    for (row, length) in (0..).zip(&lengths) {
        let table = producer.table("t").unwrap();
        table.column_str("v", &text[..*length]).unwrap();
        producer.at(TimestampNanos(row)).unwrap();
        producer.flush().expect("room");
    }
    drop(producer);
    engine.close().expect_err("nobody listens");
    let mut config = SinkConfig::scripted("".parse().unwrap());
    config.record = Some(RecordLimits::default());
    // The usual cap is 2 MiB.
    config.recv_buffer_bytes = 16 << 20;
    config.upgrade.max_batch_size = Some(8_000_000);
    let sink = Sink::start(config).expect("listens");
    let engine = Engine::connect(&conf(&sink.addr().to_string())).expect("the slot is free");
    engine
        .wait_acked(Duration::from_mins(1))
        .expect("all arrives");
    engine.close().expect("everything was confirmed");
    let records = sink.records();
    let got: Vec<usize> = records
        .messages()
        .map(|m| m.payload.as_ref().map_or(0, Vec::len))
        .collect();
    assert_eq!(got.len(), lengths.len());
    for (bytes, length) in got.iter().zip(&lengths) {
        assert!(
            (*length..*length + 100).contains(bytes),
            "{bytes} for {length}"
        );
    }
    assert_eq!(sink.stop().rows, lengths.len() as u64);
}

/// Most memory of a process that opens a backlog without symbols, in KiB (issue B, point 2).
const PEAK_KIB_MAX: u64 = 128 * 1024;
const SEGMENT_BYTES: usize = 4 << 20;

#[test]
fn a_backlog_of_one_row_frames_opens_with_few_descriptors_and_little_memory() {
    let megabytes = std::env::var("FOREBAY_BACKLOG_MB");
    let megabytes: u64 = megabytes.map_or(600, |text| text.parse().expect("a number"));
    let dir = loadgen::scratch();
    let sf_dir = dir.path().join("sf");
    let conf = format!(
        "ws::addr=127.0.0.1:1;sf_dir={};sf_max_segment_bytes=4m;sf_max_total_bytes=64g;\
         initial_connect_retry=async;pin=off;close_flush_timeout_millis=0;",
        sf_dir.display()
    );
    let (segments, frames) = stored_rows(&sf_dir, &conf, megabytes * 1_000_000);

    let start = Instant::now();
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -n 256 && exec \"$@\"", "sh"])
        .args([env!("CARGO_BIN_EXE_slot_client"), "ours", &conf])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh starts");
    let mut said = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut said).unwrap();
    assert_eq!(said, "open\n");
    let elapsed = start.elapsed();
    let process = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = process.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.unwrap().split_whitespace().next().unwrap();
    let peak_kib: u64 = peak.parse().unwrap();
    // What is no more than asked for when the child closes is not made.
    loadgen::wait_for("a spare", || {
        (segments_made(&sf_dir.join("default")) > segments).then_some(())
    });
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    println!(
        "{megabytes} MB in {segments} segments, {frames} frames: opened in {elapsed:.2?}, \
         peak {peak_kib} KiB"
    );
    assert!(peak_kib <= PEAK_KIB_MAX, "peak {peak_kib} KiB");

    let progress = RecoveryProgress::new();
    let engine = Engine::builder(&conf)
        .watch_recovery(&progress)
        .connect()
        .expect("the slot is free again");
    let stats = engine.stats();
    assert_eq!(
        (stats.recovery_frames, stats.frames_recovered),
        (frames, frames)
    );
    // The spares that the child left count too.
    let scanned = progress.segments_scanned();
    assert!(scanned > segments && scanned == progress.segments_total());
    assert_eq!(
        (stats.recovery_bytes_scanned, progress.bytes_total()),
        (
            scanned * SEGMENT_BYTES as u64,
            scanned * SEGMENT_BYTES as u64
        )
    );
    assert!(stats.recovery_nanos >= progress.scan_nanos() && progress.scan_nanos() > 0);
    engine.close().expect_err("nobody listens");
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sfa")
}

/// Segments that are made: where a file cannot be made without a name, its header comes last.
fn segments_made(slot: &Path) -> u64 {
    let paths = fs::read_dir(slot)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_made = |path: &PathBuf| {
        let mut magic = [0; 4];
        let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
        read.is_ok() && magic == *b"SF01"
    };
    let segments = paths.filter(|path| is_segment(path) && is_made(path));
    segments.count() as u64
}

/// Fills the slot with segments full of one frame again and again, at the speed of the disk:
/// answers their number and that of the frames.
fn stored_rows(sf_dir: &Path, conf: &str, bytes: u64) -> (u64, u64) {
    let frame = one_row(conf, sf_dir);
    let slot = sf_dir.join("default");
    let per_segment = (SEGMENT_BYTES - 24) / frame.len();
    let mut segment = vec![0; 24];
    for _ in 0..per_segment {
        segment.extend_from_slice(&frame);
    }
    segment.resize(SEGMENT_BYTES, 0);
    segment[..6].copy_from_slice(b"SF01\x01\x01");
    for entry in fs::read_dir(&slot).unwrap() {
        let path = entry.unwrap().path();
        if is_segment(&path) {
            fs::remove_file(path).unwrap();
        }
    }
    let count = bytes.div_ceil(SEGMENT_BYTES as u64);
    let base = |number: u64| number * per_segment as u64;
    for number in 0..count {
        segment[8..16].copy_from_slice(&base(number).to_le_bytes());
        let mut file = fs::File::create(slot.join(format!("sf-{number:016x}.sfa"))).unwrap();
        file.write_all(&segment).unwrap();
    }
    let mut record = b"SFM1\x01\0\0\0".to_vec();
    for value in [1_000_000, 0, base(count - 1)] {
        record.extend_from_slice(&value.to_le_bytes());
    }
    record.resize(60, 0);
    let crc = crc32c::crc32c(&record);
    record.extend_from_slice(&crc.to_le_bytes());
    record.resize(8192, 0);
    fs::write(slot.join("sf-manifest.bin"), record).unwrap();
    (count, base(count))
}

/// The frame of one row, header included.
fn one_row(conf: &str, sf_dir: &Path) -> Vec<u8> {
    let engine = Engine::connect(conf).expect("a free slot");
    let mut producer = engine.producer().expect("open");
    producer.table("t").unwrap().column_i64("n", 7).unwrap();
    producer.at(TimestampNanos(1)).unwrap();
    producer.flush().expect("room");
    drop(producer);
    engine.close().expect_err("nobody listens");
    let first: PathBuf = sf_dir.join("default/sf-0000000000000000.sfa");
    let bytes = fs::read(first).unwrap();
    let payload = u32::from_le_bytes(bytes[28..32].try_into().unwrap()) as usize;
    bytes[24..32 + payload].to_vec()
}
