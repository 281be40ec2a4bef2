//! The keys that other programs read, and the figures behind them.

use std::time::Duration;

use forebay::Stats;

use crate::sink::Totals;

use super::{CpuUse, Detail, Latencies, Report, grouped};

fn report() -> Report {
    let mut stats = Stats::default();
    stats.rows_acked = 900;
    stats.frames_published = 10;
    stats.bytes_published = 44_000;
    stats.unacked_frames = 1;
    let mut flush = Latencies::default();
    for micros in 1..=1_000 {
        flush.record(Duration::from_micros(micros));
    }
    Report {
        command: "run",
        rows_sent: 1_000,
        batches_sent: 10,
        batch_confirmed: Some(9),
        stats,
        publish_time: Duration::from_millis(250),
        total_time: Duration::from_millis(500),
        publish: Latencies::default(),
        flush,
        publish_service: Latencies::default(),
        flush_service: Latencies::default(),
        accept_to_written: Latencies::default(),
        accept_to_stable: Latencies::default(),
        accept_to_acked: Latencies::default(),
        cpu: CpuUse {
            process_ns: Some(123_456),
            producer_ns: Some(1_000),
            ..CpuUse::default()
        },
        sink: None,
        stopped: false,
        detail: Detail::default(),
    }
}

#[test]
fn the_keys_are_those_of_the_documentation() {
    let json = report().json();
    let keys: Vec<&str> = json
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "command",
        "title",
        "exit_code",
        "stopped_by_signal",
        "rows_sent",
        "rows_acked",
        "rows_unacked",
        "batches_sent",
        "batch_confirmed",
        "frames_published",
        "frames_written",
        "frames_acked",
        "frames_unacked",
        "frames_recovered",
        "frames_replayed",
        "segments_written",
        "bytes_published",
        "oks_received",
        "server_errors",
        "reconnects_succeeded",
        "backpressure_stalls",
        "publish_seconds",
        "total_seconds",
        "rows_per_second",
        "megabytes_per_second",
        "publish_ns",
        "flush_ns",
        "publish_service_ns",
        "flush_service_ns",
        "accept_to_written_ns",
        "accept_to_stable_ns",
        "accept_to_acked_ns",
        "cpu_ns_per_row",
        "sink",
        "durability",
        "publish_stage",
        "flush_stage",
        "configuration",
        "peak_memory_kib",
        "disk_write_bytes",
        "switches_voluntary",
        "switches_involuntary",
        "allocations",
        "idle_cpu_percent",
    ];
    assert_eq!(keys, expected);
    let documentation = include_str!("../../../docs/loadgen.md");
    let totals = Totals::default().to_json();
    let sink_keys = totals.as_object().unwrap().keys().map(String::as_str);
    for key in expected.into_iter().chain(sink_keys) {
        assert!(
            documentation.contains(&format!("| `{key}` |")),
            "{key} is not documented"
        );
    }
}

#[test]
fn the_values_are_those_of_the_run() {
    let json = report().json();
    assert_eq!(json["exit_code"], 3);
    assert_eq!(json["rows_unacked"], 100);
    assert_eq!(json["batch_confirmed"], 9);
    assert_eq!(json["rows_per_second"], 1_800.0);
    assert_eq!(json["megabytes_per_second"], 0.1);
    assert_eq!(json["cpu_ns_per_row"]["process"], 123.5);
    assert!(json["cpu_ns_per_row"]["shard"].is_null());
    assert_eq!(json["flush_ns"]["count"], 1_000);
    let p99 = json["flush_ns"]["p99"].as_u64().unwrap();
    assert!((990_000..=991_000).contains(&p99), "{p99}");
    assert!(json["accept_to_stable_ns"]["p50"].is_null());
}

#[test]
fn all_acked_is_exit_code_zero_and_recovered_frames_count() {
    let mut report = report();
    report.stats.rows_acked = 1_000;
    assert_eq!(report.exit_code(), 3);
    report.stats.unacked_frames = 0;
    assert_eq!(report.exit_code(), 0);
}

#[test]
fn the_table_shows_what_is_missing() {
    let text = report().table();
    for part in [
        "rows unacked",
        "123.5 ns/row",
        "500.2 us",
        "accept to acked",
        "1,800 rows/s",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(grouped(1_234_567), "1,234,567");
    assert_eq!(grouped(999), "999");
}

/// Field report: values beyond the histogram's range are counted, shown and never cut unseen.
#[test]
fn histogram_range() {
    let mut first = Latencies::default();
    first.record(Duration::ZERO);
    first.record(Duration::from_nanos(1));
    first.record(Duration::from_secs(5));
    let mut second = Latencies::default();
    second.record(Duration::from_hours(2));
    second.record(Duration::MAX);
    assert_eq!(first.json()["count"], 3);
    assert_eq!(first.json()["over"], 0);
    assert_eq!(first.json()["max"], 5_000_000_000_u64);
    first.add(&second);
    let json = first.json();
    assert_eq!(json["count"], 5);
    assert_eq!(json["over"], 2);
    assert_eq!(json["max"], u64::MAX);
    assert_eq!(json["p999"], u64::MAX);
    let half = json["p50"].as_u64().unwrap();
    assert!((4_995_000_000..=5_005_000_000).contains(&half), "{half}");
    let cells = first.cells("flush");
    assert_eq!(cells[1], "5 (2 above 1 h)");
}
