//! The slots of the corpus: their files, and what their clients left in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use forebay_tests::corpus::{Corpus, read_json, read_maybe_xz};
use serde_json::{Map, Value};

/// How the corpus names the designated timestamp, and how the sink does.
const TIMESTAMP: (&str, &str) = ("", "timestamp");
/// Its dictionary was removed by hand: no frame of it can be delivered.
const UNDELIVERABLE: &str = "n_dictionary_lost_failed";

/// A slot of the corpus.
pub(crate) struct Kept {
    scenario: String,
    pub(crate) slot: String,
    pub(crate) folder: PathBuf,
    pub(crate) expected: Value,
}

impl Kept {
    /// Its frames need symbols that nobody has any more.
    pub(crate) fn is_undeliverable(&self) -> bool {
        self.scenario == UNDELIVERABLE && self.expected["symbol_dict"].is_null()
    }

    pub(crate) fn messages(&self) -> &[Value] {
        let messages = self.expected["messages"].as_array();
        messages.map_or(&[], Vec::as_slice)
    }

    /// Last acked FSN by the watermark, or -1.
    pub(crate) fn acked(&self) -> i64 {
        let watermark = &self.expected["ack_watermark"]["current"];
        watermark["acked_fsn"].as_i64().unwrap_or(-1)
    }
}

pub(crate) fn kept_slots(corpus: &Corpus) -> Vec<Kept> {
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

pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().expect("has a name");
    name.to_string_lossy().into_owned()
}

/// Puts the slot's files below `sf`, as they were.
pub(crate) fn unpack(kept: &Kept, sf: &Path) -> PathBuf {
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

pub(crate) fn contents(slot: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(slot).expect("a folder");
    let paths = entries.map(|entry| entry.expect("listed").path());
    let files = paths.map(|path| (name_of(&path), fs::read(&path).expect("readable")));
    files.collect()
}

/// Rows by table.
pub(crate) type Rows = BTreeMap<String, Vec<Map<String, Value>>>;

/// The frames that are not acked, and the rows in them by table.
pub(crate) fn unacked(kept: &Kept) -> (u64, Rows) {
    let mut frames = 0;
    let mut rows = BTreeMap::new();
    for message in kept.messages() {
        let fsn = message["fsn"].as_i64().expect("a number");
        if fsn <= kept.acked() {
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
pub(crate) fn stored(store: &Path) -> Rows {
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
