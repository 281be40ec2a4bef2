//! What the tool, the engine and a reader of this package's own say of a slot, beside what
//! `expected.json` says.

use std::path::Path;
use std::process::Command;

use forebay::Stats;
use forebay_tests::stored_slot::StoredSlot;
use serde_json::{Value, json};

use crate::kept::Kept;

/// Keys that a segment has in `expected.json`, and in `forebay inspect --json`.
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
const FRAME_KEYS: [&str; 3] = ["fsn", "file", "offset"];
/// Keys of `expected.json` that are checked here; any other would be news.
const KEYS: [&str; 8] = [
    "files",
    "segments",
    "messages",
    "symbol_dict",
    "ack_watermark",
    "manifest",
    ".lock.pid",
    ".failed",
];

/// Runs the tool; `status` is what it must end with.
fn forebay(args: &[&str], slot: &Path, status: i32) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_forebay_under_test"))
        .args(args)
        .arg(slot)
        .output()
        .expect("the binary is built");
    let diagnostics = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(status), "{args:?}: {diagnostics}");
    String::from_utf8(ran.stdout).expect("UTF-8")
}

fn inspected(slot: &Path) -> Value {
    let text = forebay(&["inspect", "--json", "--symbols"], slot, 0);
    serde_json::from_str(&text).expect("an object")
}

fn only(value: &Value, keys: &[&str]) -> Value {
    if value.is_null() {
        return Value::Null;
    }
    let picked = keys
        .iter()
        .map(|key| ((*key).to_owned(), value[*key].clone()));
    Value::Object(picked.collect())
}

fn only_each(list: &Value, keys: &[&str]) -> Vec<Value> {
    let list = list.as_array().into_iter().flatten();
    list.map(|value| only(value, keys)).collect()
}

/// FSN, file and offset of every frame, by `forebay dump`.
fn dumped(slot: &Path, lost: bool) -> Vec<Value> {
    let text = forebay(&["dump"], slot, i32::from(lost));
    let lines = text.lines();
    let lines = lines.map(|line| serde_json::from_str(line).expect("an object"));
    lines.map(|line: Value| only(&line, &FRAME_KEYS)).collect()
}

/// The tool, on the slot as its client left it: every key of `expected.json`.
pub(crate) fn as_left(kept: &Kept, slot: &Path) {
    let (expected, found) = (&kept.expected, inspected(slot));
    let keys = expected.as_object().expect("an object").keys();
    for key in keys {
        assert!(KEYS.contains(&key.as_str()), "{key} is not checked");
    }
    assert_eq!(found["files"], expected["files"]);
    let segments = |of: &Value| only_each(&of["segments"], &SEGMENT_KEYS);
    assert_eq!(segments(&found), segments(expected));
    for key in ["manifest", "ack_watermark"] {
        assert_eq!(only(&found[key], &DUAL_KEYS), expected[key], "{key}");
    }
    let symbols = only(&found["symbol_dict"], &DICTIONARY_KEYS);
    assert_eq!(symbols, expected["symbol_dict"]);
    let leftovers = found["leftovers"].as_array().expect("a list");
    let failed = leftovers
        .iter()
        .find(|leftover| leftover["name"] == ".failed");
    let reason = failed.map_or(&Value::Null, |failed| &failed["reason"]);
    assert_eq!(reason, &expected[".failed"]);
    assert_eq!(found["lock"]["held"], json!(false));
    let lost = kept.is_undeliverable() && !kept.messages().is_empty();
    let verdict = if lost { "damaged" } else { "sound" };
    assert_eq!(found["verdict"]["state"], verdict);
    let frames = only_each(&expected["messages"], &FRAME_KEYS);
    assert_eq!(dumped(slot, lost), frames);
}

/// The engine's own figures, without a server.
pub(crate) fn as_opened(kept: &Kept, stats: &Stats, unacked: u64) {
    assert_eq!(stats.frames_recovered, unacked);
    let symbols = kept.expected["symbol_dict"]["symbols"].as_array();
    // A dictionary of nothing stored is begun anew.
    let symbols = symbols.filter(|_| !kept.messages().is_empty());
    assert_eq!(stats.symbols, symbols.map_or(0, Vec::len) as u64);
    let harmed = [
        ("slots set aside", stats.slots_set_aside),
        ("torn bytes", stats.torn_tail_bytes),
        ("torn frames", stats.torn_tail_frames),
        ("residues", stats.sealed_residues),
        ("retired frames", stats.deferred_frames_retired),
    ];
    for (what, count) in harmed {
        assert_eq!(count, 0, "{what}");
    }
}

/// The slot after the engine had it open: frames, symbols, watermark and manifest are where and
/// what they were, by the tool and by a reader that shares no code with the engine. With nothing
/// unacked (`is_drained`) leaving it emptied it.
pub(crate) fn as_reopened(kept: &Kept, slot: &Path, is_drained: bool) {
    let (expected, found) = (&kept.expected, inspected(slot));
    if is_drained {
        assert_eq!(dumped(slot, false), Vec::<Value>::new());
        let read = StoredSlot::read(slot).expect("a slot in order");
        assert!(read.names.iter().all(|name| !name.starts_with("sf-")));
        return;
    }
    assert_eq!(
        dumped(slot, false),
        only_each(&expected["messages"], &FRAME_KEYS)
    );
    assert_eq!(
        found["manifest"]["current"],
        expected["manifest"]["current"]
    );
    let acked = &found["ack_watermark"]["current"]["acked_fsn"];
    assert_eq!(acked.as_i64().unwrap_or(-1), kept.acked());
    for key in ["chunks", "symbols"] {
        let (found, expected) = (&found["symbol_dict"][key], &expected["symbol_dict"][key]);
        assert_eq!(found, expected, "{key}");
    }
    let read = StoredSlot::read(slot).expect("a slot in order");
    let fsns: Vec<Value> = read.frames.iter().map(|frame| json!(frame.fsn)).collect();
    let wanted: Vec<Value> = kept.messages().iter().map(|m| m["fsn"].clone()).collect();
    assert_eq!(fsns, wanted);
    let lengths: Vec<Value> = read.frames.iter().map(|f| json!(f.payload.len())).collect();
    let wanted: Vec<Value> = kept.messages().iter().map(|m| m["bytes"].clone()).collect();
    assert_eq!(lengths, wanted);
    let acked = read
        .acked
        .map_or(-1, |acked| i64::try_from(acked).expect("small"));
    assert_eq!(acked, kept.acked());
}
