//! Slots that official clients left: the tool says of each what `expected.json` says.

#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

mod support;

use serde_json::{Value, json};
use support::{CorpusSlot, contents, corpus, forebay};

/// The keys of a segment that `expected.json` has too.
const SEGMENT_KEYS: [&str; 10] = [
    "file",
    "magic",
    "version",
    "flags",
    "reserved",
    "base_fsn",
    "file_bytes",
    "used_bytes",
    "tail",
    "frame_count",
];
const DUAL_KEYS: [&str; 3] = ["file_bytes", "records", "current"];
const DICTIONARY_KEYS: [&str; 5] = [
    "magic",
    "version",
    "chunks",
    "symbols",
    "bytes_after_last_chunk",
];

/// Whether the slot's dictionary was removed by hand, so that nothing in it can be decoded.
fn is_lost(slot: &CorpusSlot) -> bool {
    let messages = slot.expected["messages"].as_array().unwrap();
    messages
        .iter()
        .any(|message| message.get("undecodable").is_some())
}

fn only(value: &Value, keys: &[&str]) -> Value {
    if value.is_null() {
        return Value::Null;
    }
    let picked = keys
        .iter()
        .map(|key| ((*key).to_owned(), value[key].clone()));
    Value::Object(picked.collect())
}

fn agrees(slot: &CorpusSlot, found: &Value) {
    let expected = &slot.expected;
    let name = &slot.name;
    // Only what its client left counts: a later listing has the same files.
    assert_eq!(found["files"], expected["files"], "{name}");
    let segments = found["segments"].as_array().unwrap().iter();
    let segments: Vec<Value> = segments.map(|s| only(s, &SEGMENT_KEYS)).collect();
    let want = expected["segments"].as_array().unwrap().iter();
    let want: Vec<Value> = want.map(|s| only(s, &SEGMENT_KEYS)).collect();
    assert_eq!(segments, want, "{name}");
    for key in ["manifest", "ack_watermark"] {
        let want = expected.get(key).unwrap_or(&Value::Null);
        assert_eq!(&only(&found[key], &DUAL_KEYS), want, "{name} {key}");
    }
    let want = expected.get("symbol_dict").unwrap_or(&Value::Null);
    assert_eq!(
        &only(&found["symbol_dict"], &DICTIONARY_KEYS),
        want,
        "{name}"
    );
    let reason = |name: &str| {
        let leftovers = found["leftovers"].as_array().unwrap();
        let found = leftovers.iter().find(|leftover| leftover["name"] == name);
        found.map_or(Value::Null, |found| found["reason"].clone())
    };
    let want = expected.get(".failed").unwrap_or(&Value::Null);
    assert_eq!(&reason(".failed"), want, "{name}");
    assert_eq!(found["lock"]["held"], json!(false), "{name}");
}

/// FSNs above the watermark, by the corpus.
fn unacked(slot: &CorpusSlot) -> usize {
    let acked = slot.expected["ack_watermark"]["current"]["acked_fsn"].as_i64();
    let messages = slot.expected["messages"].as_array().unwrap().iter();
    let fsns = messages.filter_map(|message| message["fsn"].as_i64());
    fsns.filter(|fsn| *fsn > acked.unwrap_or(-1)).count()
}

#[test]
fn inspect_agrees_with_the_corpus_about_every_slot() {
    let (_scratch, slots) = corpus();
    for slot in &slots {
        let before = contents(&slot.dir);
        let ran = forebay(&["inspect", "--json", "--symbols"], &slot.dir);
        assert_eq!(
            (ran.status, ran.diagnostics.as_str()),
            (0, ""),
            "{}",
            slot.name
        );
        let found = ran.json();
        agrees(slot, &found);
        let text = forebay(&["inspect"], &slot.dir);
        assert_eq!(text.status, 0, "{}", slot.name);
        let (verdict, status) = if is_lost(slot) {
            ("damaged", 1)
        } else {
            ("sound", 0)
        };
        assert_eq!(found["verdict"]["state"], verdict, "{}", slot.name);
        let verified = forebay(&["verify"], &slot.dir);
        assert_eq!(verified.status, status, "{}", verified.text());
        if status == 0 {
            let frames = found["unacked"]["frames"].as_u64().unwrap();
            assert_eq!(frames, unacked(slot) as u64, "{}", slot.name);
        }
        assert_eq!(contents(&slot.dir), before, "{}", slot.name);
    }
    println!("{} slots", slots.len());
    assert!(slots.len() >= 50, "{} slots", slots.len());
}

/// A cell of the corpus as the tool shows it.
fn shown(ty: &Value, cell: &Value) -> Value {
    let text = cell.as_str().unwrap_or_default();
    match ty.as_str().unwrap() {
        _ if cell.is_null() => Value::Null,
        "BYTE" | "SHORT" | "INT" | "LONG" | "TIMESTAMP" | "TIMESTAMP_NANOS" | "DATE" => {
            json!(text.parse::<i64>().unwrap())
        }
        "DOUBLE" => {
            let bits = u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16);
            json!(f64::from_bits(bits.unwrap()))
        }
        "SYMBOL" | "VARCHAR" => json!(text),
        other => panic!("no slot of the corpus had {other} before"),
    }
}

/// The corpus keeps long runs of one letter as their count.
fn abbreviated(mut columns: Value) -> Value {
    for cell in columns.as_object_mut().unwrap().values_mut() {
        if let Some(text) = cell.as_str().filter(|text| text.len() > 500) {
            let first = text.chars().next().unwrap();
            assert!(text.chars().all(|c| c == first));
            *cell = json!(format!("<'{first}' x {}>", text.len()));
        }
    }
    columns
}

fn expected_rows(message: &Value) -> Vec<Value> {
    let mut rows = Vec::new();
    for table in message["tables"].as_array().unwrap() {
        let columns = table["columns"].as_array().unwrap();
        for row in table["rows"].as_array().unwrap() {
            let cells = columns.iter().zip(row.as_array().unwrap());
            let cells = cells.map(|(column, cell)| {
                let name = match column["name"].as_str().unwrap() {
                    "" => "timestamp",
                    name => name,
                };
                (name.to_owned(), shown(&column["type"], cell))
            });
            rows.push(json!({
                "fsn": message["fsn"],
                "table": table["name"],
                "columns": Value::Object(cells.collect()),
            }));
        }
    }
    rows
}

#[test]
fn dump_gives_every_frame_and_row_of_the_corpus() {
    let (_scratch, slots) = corpus();
    let (mut frames, mut rows) = (0, 0);
    for slot in &slots {
        let messages = slot.expected["messages"].as_array().unwrap();
        let lost = is_lost(slot);
        let dumped = forebay(&["dump"], &slot.dir);
        assert_eq!(dumped.status, u8::from(lost), "{}", slot.name);
        let lines = dumped.lines();
        assert_eq!(lines.len(), messages.len(), "{}", slot.name);
        for (line, message) in lines.iter().zip(messages) {
            let keys = ["fsn", "file", "offset"];
            assert_eq!(only(line, &keys), only(message, &keys), "{}", slot.name);
            assert_eq!(line.get("undecodable").is_some(), lost, "{line}");
            if !lost {
                let keys = ["bytes", "flags", "defer_commit", "delta_start"];
                assert_eq!(only(line, &keys), only(message, &keys), "{}", slot.name);
                let delta = message["delta"].as_array().unwrap();
                assert_eq!(line["delta_count"], delta.len(), "{}", slot.name);
                let keys = ["name", "row_count"];
                let tables = |of: &Value| -> Vec<Value> {
                    let tables = of["tables"].as_array().unwrap().iter();
                    tables.map(|table| only(table, &keys)).collect()
                };
                assert_eq!(tables(line), tables(message), "{}", slot.name);
            }
        }
        frames += lines.len();
        if lost {
            continue;
        }
        let mut found = forebay(&["dump", "--rows"], &slot.dir).lines();
        for row in &mut found {
            row["columns"] = abbreviated(row["columns"].take());
        }
        let want: Vec<Value> = messages.iter().flat_map(expected_rows).collect();
        assert_eq!(found, want, "{}", slot.name);
        rows += found.len();
    }
    println!("{frames} frames, {rows} rows");
    assert!(frames >= 369 && rows >= 321, "{frames} frames, {rows} rows");
}
