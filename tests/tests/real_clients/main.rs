//! Claim: published QuestDB clients can use the sink as their server. What they send is decoded
//! strictly, stored as it was sent, and acknowledged; and whatever the sink does to them by its
//! fault scripts, nothing that they queued is lost (`faults`).

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

mod faults;

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use questdb::ingress::{AckLevel, Buffer, Sender, TimestampMicros, TimestampNanos};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(3);
const TS0: i64 = 1_750_000_000_000_000_000;

fn strict_sink(store: &Path) -> SinkConfig {
    SinkConfig {
        depth: Depth::Decode,
        strict: true,
        store: Some(store.to_owned()),
        ..SinkConfig::default()
    }
}

fn stored(dir: &Path, table: &str) -> Vec<Value> {
    let text = fs::read_to_string(dir.join(format!("{table}.ndjson"))).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A trade, and as the sink should store it.
fn trade(buffer: &mut Buffer, n: i32) -> Value {
    let (symbol, price) = (format!("S{}", n % 7), f64::from(n) + 0.5);
    let row = buffer
        .table("trades")
        .unwrap()
        .symbol("sym", symbol.as_str())
        .unwrap();
    row.column_f64("price", price)
        .unwrap()
        .column_i64("size", i64::from(n) * 3)
        .unwrap();
    row.column_bool("live", n % 2 == 0).unwrap();
    let mut want = json!({
        "sym": symbol,
        "price": price,
        "size": i64::from(n) * 3,
        "live": (n % 2 == 0).to_string(),
        "note": null,
        "timestamp": TS0 + i64::from(n),
    });
    // The first row of a batch names the column, later ones leave it out at times.
    if n % 3 == 0 {
        let note = format!("line {n}\n\"é\"");
        row.column_str("note", note.as_str()).unwrap();
        want["note"] = json!(note);
    }
    row.at(TimestampNanos::new(TS0 + i64::from(n))).unwrap();
    want
}

/// One row of every scalar type that the client's row API has, and as the sink should store it.
fn all_types(buffer: &mut Buffer) -> Value {
    let row = buffer.table("types").unwrap();
    row.column_i8("i8", -8)
        .unwrap()
        .column_i16("i16", -16)
        .unwrap();
    row.column_i32("i32", -32)
        .unwrap()
        .column_i64("i64", i64::MAX)
        .unwrap();
    row.column_f32("f32", 0.1)
        .unwrap()
        .column_f64("f64", f64::NEG_INFINITY)
        .unwrap();
    row.column_str("text", "tab\t")
        .unwrap()
        .column_bool("flag", true)
        .unwrap();
    row.column_uuid("uuid", 0x8899_AABB_CCDD_EEFF, 0x0011_2233_4455_6677)
        .unwrap();
    row.column_ipv4("ip", Ipv4Addr::new(10, 0, 0, 1)).unwrap();
    row.column_date("day", -1).unwrap();
    row.column_ts("us", TimestampMicros::new(7)).unwrap();
    row.column_ts("ns", TimestampNanos::new(-7)).unwrap();
    row.column_dec64("dec", "-12.50").unwrap();
    row.column_dec128("dec128", "7").unwrap();
    row.column_dec("dec256", "0.125").unwrap();
    row.column_char("char", 0x00E9).unwrap();
    let mut long256 = [0; 32];
    (long256[0], long256[31]) = (1, 0x40);
    row.column_long256("long256", &long256).unwrap();
    row.column_arr("line", &[1.5_f64, -0.0]).unwrap();
    row.column_arr("grid", &[[1.0_f64, 2.0], [3.0, 4.0]])
        .unwrap();
    row.symbol("sym", "S\u{1F600}").unwrap();
    row.column_binary("bin", &[0, 255]).unwrap();
    row.column_geohash("geo", 22, 5).unwrap();
    row.at(TimestampMicros::new(1_000)).unwrap();
    json!({
        "i8": -8, "i16": -16, "i32": -32, "i64": i64::MAX, "f32": 0.1, "f64": "-inf",
        "text": "tab\t", "flag": "true", "uuid": "00112233-4455-6677-8899-aabbccddeeff",
        "ip": "10.0.0.1", "day": -1, "us": 7, "ns": -7, "dec": "-12.50", "bin": "00ff",
        "geo": "22/5", "timestamp": 1_000, "dec128": "7", "dec256": "0.125", "char": "233",
        "long256": format!("0x40{}1", "0".repeat(61)), "sym": "S\u{1F600}",
        "line": {"dims": [2], "v": ["0x3ff8000000000000", "0x8000000000000000"]},
        "grid": {"dims": [2, 2], "v": [
            "0x3ff0000000000000", "0x4000000000000000",
            "0x4008000000000000", "0x4010000000000000",
        ]},
    })
}

#[test]
fn rows_of_the_official_rust_client_are_stored_as_sent_and_acked() {
    let dir = tempfile::tempdir().unwrap();
    let sink = Sink::start(strict_sink(dir.path())).unwrap();
    let mut sender = Sender::from_conf(format!("ws::addr={};", sink.addr())).unwrap();
    let mut buffer = sender.new_buffer();
    let (mut trades, mut types) = (Vec::new(), Vec::new());
    for batch in 0..5 {
        for n in 0..200 {
            trades.push(trade(&mut buffer, batch * 200 + n));
        }
        types.push(all_types(&mut buffer));
        sender.flush(&mut buffer).unwrap();
    }
    sender.wait(AckLevel::Ok, PATIENCE).unwrap();
    // Acked means stored: nothing more is waited for.
    assert_eq!(stored(dir.path(), "trades"), trades);
    assert_eq!(stored(dir.path(), "types"), types);
    assert_eq!(sender.acked_fsn().unwrap(), sender.published_fsn().unwrap());
    drop(sender);
    let totals = sink.stop();
    assert_eq!((totals.rows, totals.messages_refused), (1005, 0));
    assert_eq!(totals.tables["trades"].rows, 1000);
}

#[test]
fn the_official_rust_client_loses_no_row_when_the_sink_drops_its_connections() {
    let dir = tempfile::tempdir().unwrap();
    let config = SinkConfig {
        drop_after: Some(4),
        ..strict_sink(dir.path())
    };
    let sink = Sink::start(config).unwrap();
    let mut sender = Sender::from_conf(format!("ws::addr={};", sink.addr())).unwrap();
    let mut buffer = sender.new_buffer();
    let mut trades = Vec::new();
    for n in 0..30 {
        trades.push(trade(&mut buffer, n));
        sender.flush(&mut buffer).unwrap();
    }
    sender.wait(AckLevel::Ok, PATIENCE).unwrap();
    drop(sender);
    let totals = sink.stop();
    assert!(totals.drops >= 7, "{totals:?}");
    let stored = stored(dir.path(), "trades");
    let mut missing = trades.iter().filter(|trade| !stored.contains(trade));
    assert_eq!(missing.next(), None);
}

/// Runs the Python client against the sink, with further keys for its connect string.
fn run_python(sink: &Sink, keys: &str) {
    let python = std::env::var("FOREBAY_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/real_client.py");
    let output = Command::new(&python)
        .arg(&script)
        .arg(sink.addr().to_string())
        .arg(keys)
        .output()
        .unwrap_or_else(|e| panic!("{python} (named by FOREBAY_PYTHON): {e}"));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// What the Python client sends to `py_trades`, as the sink should store it.
fn python_trades() -> Vec<Value> {
    (0..300_i32)
        .map(|n| {
            json!({
                "sym": format!("S{}", n % 5),
                "side": if n % 2 == 1 { "B" } else { "S" },
                "price": f64::from(n) + 0.25,
                "size": n * 10,
                "live": (n % 3 == 0).to_string(),
                "note": format!("row {n} é"),
                "timestamp": TS0 + i64::from(n),
            })
        })
        .collect()
}

#[test]
#[ignore = "needs PyPI questdb==6.0.0"]
fn rows_of_the_official_python_client_are_stored_as_sent_and_acked() {
    let dir = tempfile::tempdir().unwrap();
    let sink = Sink::start(strict_sink(dir.path())).unwrap();
    run_python(&sink, "");
    let trades = python_trades();
    assert_eq!(stored(dir.path(), "py_trades"), trades);
    let events: Vec<Value> = (0..300_i64)
        .step_by(10)
        .map(|n| {
            json!({
                "id": format!("00000000-0000-0000-0000-{n:012x}"),
                "seen": TS0 / 1000 + n,
                "day": n,
                "timestamp": n * 1_000_000,
            })
        })
        .collect();
    assert_eq!(stored(dir.path(), "py_events"), events);
    assert_eq!(sink.totals().messages_refused, 0);
}
