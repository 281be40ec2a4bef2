//! Claim: every slot that a published client left behind opens here and is delivered: exactly its
//! unacked frames, with their symbols, and then nothing stays but the lock files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay::{Engine, Error};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_tests::corpus::{Corpus, read_json, read_maybe_xz};
use serde_json::{Map, Value};

const PATIENCE: Duration = Duration::from_secs(30);
/// Its dictionary was removed by hand: no frame of it can be delivered.
const UNDELIVERABLE: &str = "n_dictionary_lost_failed";
/// What may stay: the lock files, and what a drainer of the client once noted.
const STAYS: [&str; 4] = [".lock", ".lock.pid", ".last_error", ".failed"];
/// How the corpus names the designated timestamp, and how the sink does.
const TIMESTAMP: (&str, &str) = ("", "timestamp");

/// A slot of the corpus.
struct Kept {
    scenario: String,
    slot: String,
    folder: PathBuf,
    expected: Value,
}

fn kept_slots(corpus: &Corpus) -> Vec<Kept> {
    let mut kept = Vec::new();
    for client in folders(&corpus.slots()) {
        for scenario in folders(&client) {
            let expected = read_json(&scenario.join("expected.json")).expect("readable");
            for folder in folders(&scenario.join("sf")) {
                let slot = name_of(&folder);
                kept.push(Kept {
                    scenario: name_of(&scenario),
                    expected: expected[&slot].clone(),
                    slot,
                    folder,
                });
            }
        }
    }
    kept
}

fn folders(parent: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(parent).expect("a folder");
    let paths = entries.map(|entry| entry.expect("listed").path());
    paths.filter(|path| path.is_dir()).collect()
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().expect("has a name");
    name.to_string_lossy().into_owned()
}

/// Puts the slot's files below `sf`, as they were.
fn unpack(kept: &Kept, sf: &Path) -> PathBuf {
    let slot = sf.join(&kept.slot);
    fs::create_dir_all(&slot).expect("created");
    for (name, size) in kept.expected["files"].as_object().expect("an object") {
        let bytes = read_maybe_xz(&kept.folder.join(name)).expect("readable");
        // The pid is left out of the comparison, as everywhere.
        assert!(name == ".lock.pid" || bytes.len() as u64 == *size, "{name}");
        fs::write(slot.join(name), bytes).expect("written");
    }
    slot
}

fn contents(slot: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(slot).expect("a folder");
    let paths = entries.map(|entry| entry.expect("listed").path());
    let files = paths.map(|path| (name_of(&path), fs::read(&path).expect("readable")));
    files.collect()
}

/// The frames that are not acked, and the rows in them by table.
fn unacked(kept: &Kept) -> (u64, BTreeMap<String, Vec<Map<String, Value>>>) {
    let acked = kept.expected["ack_watermark"]["current"]["acked_fsn"].as_i64();
    let mut frames = 0;
    let mut rows = BTreeMap::new();
    for message in kept.expected["messages"].as_array().expect("a list") {
        let fsn = message["fsn"].as_i64().expect("a number");
        if fsn <= acked.unwrap_or(-1) {
            continue;
        }
        frames += 1;
        for table in message["tables"].as_array().expect("decoded") {
            let names = table["columns"].as_array().expect("a list");
            let names = names.iter().map(|column| column["name"].as_str());
            let names: Vec<&str> = names.map(|name| name.expect("a name")).collect();
            let table_name = table["name"].as_str().expect("a name").to_owned();
            let of_table: &mut Vec<_> = rows.entry(table_name).or_default();
            for row in table["rows"].as_array().expect("a list") {
                let cells = names.iter().zip(row.as_array().expect("a list"));
                let row = cells.map(|(name, cell)| {
                    let is_timestamp = *name == TIMESTAMP.0;
                    let name = if is_timestamp { TIMESTAMP.1 } else { name };
                    (name.to_owned(), cell.clone())
                });
                of_table.push(row.collect());
            }
        }
    }
    (frames, rows)
}

/// The rows that the sink stored, in the notation of the corpus.
fn stored(store: &Path) -> BTreeMap<String, Vec<Map<String, Value>>> {
    let mut tables = BTreeMap::new();
    let Ok(entries) = fs::read_dir(store) else {
        return tables;
    };
    for entry in entries {
        let path = entry.expect("listed").path();
        let text = fs::read_to_string(&path).expect("readable");
        let rows: Vec<Map<String, Value>> = text.lines().map(corpus_row).collect();
        let table = path.file_stem().expect("a name");
        tables.insert(table.to_string_lossy().into_owned(), rows);
    }
    tables.retain(|_, rows: &mut Vec<_>| !rows.is_empty());
    tables
}

fn corpus_row(line: &str) -> Map<String, Value> {
    let row: Map<String, Value> = serde_json::from_str(line).expect("a whole line");
    let cells = row.into_iter().map(|(name, cell)| {
        let text = match &cell {
            Value::Number(number) if number.is_f64() => {
                let bits = number.as_f64().expect("checked above").to_bits();
                format!("0x{bits:016x}")
            }
            Value::Number(number) => number.to_string(),
            Value::String(text) => shortened(text),
            _ => return (name, cell),
        };
        (name, Value::String(text))
    });
    cells.collect()
}

/// Text of one letter and more than 1,000 of it is only counted in the corpus.
fn shortened(text: &str) -> String {
    match text.chars().next() {
        Some(letter) if text.len() > 1000 && text.chars().all(|other| other == letter) => {
            format!("<'{letter}' x {}>", text.len())
        }
        _ => text.to_owned(),
    }
}

fn connect(kept: &Kept, sf: &Path, sink: &Sink) -> Result<Engine, Error> {
    Engine::connect(&format!(
        "ws::addr={};sf_dir={};sender_id={};pin=off;",
        sink.addr(),
        sf.display(),
        kept.slot
    ))
}

/// Opens the slot and lets it be delivered; returns how many frames were.
fn deliver(kept: &Kept) -> u64 {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (sf, store) = (dir.path().join("sf"), dir.path().join("store"));
    let slot = unpack(kept, &sf);
    let sink = Sink::start(SinkConfig {
        depth: Depth::Decode,
        strict: true,
        store: Some(store.clone()),
        ..SinkConfig::default()
    });
    let sink = sink.expect("listens");
    if kept.scenario == UNDELIVERABLE && kept.expected["symbol_dict"].is_null() {
        return set_aside(kept, &sf, &slot, &sink);
    }
    let (frames, rows) = unacked(kept);
    let engine = connect(kept, &sf, &sink).expect("opens");
    assert_eq!(engine.stats().frames_recovered, frames);
    engine.wait_acked(PATIENCE).expect("delivered");
    assert_eq!(engine.stats().frames_acked, frames);
    engine.close().expect("drained");
    let totals = sink.stop();
    assert_eq!(totals.messages_refused, 0);
    let blocks: u64 = totals.tables.values().map(|table| table.blocks).sum();
    assert_eq!(blocks, frames, "one table in each frame");
    assert_eq!(stored(&store), rows);
    let left = contents(&slot);
    let beyond = left.keys().find(|name| !STAYS.contains(&name.as_str()));
    assert_eq!(beyond, None);
    frames
}

/// A slot whose frames need symbols that nobody has any more is set aside, every byte kept.
fn set_aside(kept: &Kept, sf: &Path, slot: &Path, sink: &Sink) -> u64 {
    if kept.expected["messages"]
        .as_array()
        .is_none_or(Vec::is_empty)
    {
        // The slot of the drainer that gave it up.
        let engine = connect(kept, sf, sink).expect("opens");
        engine.close().expect("nothing to drain");
        return 0;
    }
    let before = contents(slot);
    let engine = connect(kept, sf, sink).expect("an empty slot takes its place");
    let stats = engine.stats();
    assert_eq!((stats.slots_set_aside, stats.frames_recovered), (1, 0));
    engine.close().expect("nothing to drain");
    let name = slot.file_name().and_then(|name| name.to_str());
    let aside = format!("{}.unreplayable-0", name.expect("a name of UTF-8"));
    let mut after = contents(&slot.with_file_name(aside));
    let reason = after.remove(".failed").expect("a reason file");
    assert!(String::from_utf8_lossy(&reason).contains("symbol"));
    let mut before = before;
    // The reason is added to the dead drainer's; the holder's number is ours.
    before.remove(".failed");
    before.remove(".lock.pid");
    after.remove(".lock.pid");
    assert!(before == after, "every byte is kept");
    assert_eq!(sink.totals().messages, 0);
    0
}

#[test]
fn slots_of_published_clients_are_delivered_exactly() {
    let corpus = Corpus::open().expect("the corpus");
    let (mut slots, mut with_frames, mut frames) = (0, 0, 0);
    for kept in kept_slots(&corpus) {
        println!("{}", kept.folder.display());
        let delivered = deliver(&kept);
        slots += 1;
        with_frames += u32::from(delivered > 0);
        frames += delivered;
    }
    println!("{slots} slots, {with_frames} with unacked frames, {frames} frames delivered");
    assert!(slots >= 50 && with_frames >= 35 && frames >= 288);
}
