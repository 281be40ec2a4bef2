//! Messages that real clients sent: decoded, against what the corpus says they mean; their rows
//! encoded again, against the bytes.

use std::collections::{BTreeMap, BTreeSet};

use forebay_tests::client_rows::rows_of;
use forebay_tests::corpus::{Captured, Corpus, Scenario};
use forebay_tests::encode::{Client, long_array_message};
use forebay_tests::messages::describe;
use forebay_wire::decode::Mode;
use forebay_wire::dict::ConnectionDict;
use serde_json::Value;

/// The client folders of the corpus; one that is missing or new is a failure.
const CLIENTS: [&str; 6] = [
    "python-frame",
    "python-pool",
    "python-row",
    "rust-chunk",
    "rust-row",
    "synthetic",
];

#[test]
fn every_captured_message_decodes_to_what_its_client_sent() {
    let corpus = Corpus::open().unwrap();
    let scenarios = corpus.frame_scenarios().unwrap();
    let clients: BTreeSet<&str> = scenarios.iter().map(|s| s.client.as_str()).collect();
    assert_eq!(clients.into_iter().collect::<Vec<_>>(), CLIENTS);
    let mut messages = 0;
    let mut rows = 0;
    let mut without_messages = 0;
    for scenario in &scenarios {
        for mode in [Mode::Genuine, Mode::Strict] {
            rows += compare(scenario, mode);
        }
        messages += scenario.messages.len();
        without_messages += usize::from(scenario.messages.is_empty());
    }
    println!(
        "compared {messages} messages ({} rows) of {} scenarios, genuine and strict, 0 skipped \
         ({without_messages} scenarios are refused connections and have no message)",
        rows / 2,
        scenarios.len(),
    );
    assert!(messages > 0 && rows > 0);
}

/// Decodes the scenario's messages, one dictionary per connection; returns the rows compared.
fn compare(scenario: &Scenario, mode: Mode) -> usize {
    let mut dicts: BTreeMap<u64, ConnectionDict> = BTreeMap::new();
    let mut rows = 0;
    for captured in &scenario.messages {
        let dict = dicts.entry(captured.connection).or_default();
        let whom = format!("{}/{}/{}", scenario.client, scenario.name, captured.file);
        let found = describe(&captured.bytes, mode, dict)
            .unwrap_or_else(|e| panic!("{whom} does not decode: {e}"));
        assert!(
            found == captured.expected,
            "{whom} ({mode:?}):\nfound    {found}\nexpected {}",
            captured.expected
        );
        rows += row_count(captured);
    }
    rows
}

fn row_count(captured: &Captured) -> usize {
    let tables = captured.expected["tables"]
        .as_array()
        .expect("a message has tables");
    tables
        .iter()
        .map(|t| t["rows"].as_array().expect("a table has rows").len())
        .sum()
}

/// Column types of the `type_*` scenarios; each has a second scenario with nulls.
const TYPES: [&str; 28] = [
    "binary",
    "bool",
    "char",
    "darr",
    "date",
    "dec128",
    "dec256",
    "dec64",
    "f32",
    "f64",
    "geohash20",
    "geohash31",
    "geohash40",
    "geohash5",
    "geohash60",
    "geohash8",
    "i16",
    "i32",
    "i64",
    "i8",
    "ipv4",
    "larr",
    "long256",
    "symbol",
    "ts_ns",
    "ts_us",
    "uuid",
    "varchar",
];
/// The other scenarios whose rows are encoded again.
const OTHERS: [&str; 6] = [
    "late_columns",
    "multi_table",
    "rows_1",
    "rows_1000",
    "symbols_200",
    "symbols_delta",
];
/// Most scenarios that may differ from the official client's bytes.
const EXCEPTIONS_MAX: usize = 5;
/// Scenarios that differ, and why; they must still mean the same.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "symbols_delta",
    "two symbol columns meet new symbols in one message: the official client numbers them column \
     by column, ours row by row as they come",
)];

#[test]
fn encoding_the_rows_gives_the_bytes_that_the_official_client_sent() {
    let corpus = Corpus::open().unwrap();
    let scenarios = corpus.frame_scenarios().unwrap();
    let chosen: Vec<&Scenario> = scenarios.iter().filter(|s| is_encoded(s)).collect();
    let found: BTreeSet<String> = chosen.iter().map(|s| s.name.clone()).collect();
    let nulls = TYPES.iter().map(|ty| format!("type_{ty}_nulls"));
    let types = TYPES.iter().map(|ty| format!("type_{ty}"));
    let others = OTHERS.iter().map(ToString::to_string);
    assert_eq!(found, types.chain(nulls).chain(others).collect());

    let (mut messages, mut rows, mut different) = (0, 0, Vec::new());
    for scenario in &chosen {
        let encoded = encode(scenario);
        messages += encoded.len();
        rows += scenario.messages.iter().map(row_count).sum::<usize>();
        if let Some(place) = first_difference(scenario, &encoded) {
            println!("{} differs at {place}", scenario.name);
            different.push(scenario.name.as_str());
            assert_same_meaning(scenario, &encoded);
        }
    }
    println!(
        "encoded {messages} messages ({rows} rows) of {} scenarios, 0 skipped: {} byte for byte as \
         captured, exceptions: {} (the type_larr scenarios go through ColumnBuffer, the rest \
         through the row API)",
        chosen.len(),
        chosen.len() - different.len(),
        different.len(),
    );
    for (name, reason) in EXCEPTIONS {
        println!("exception {name}: {reason}");
    }
    assert_eq!(different, EXCEPTIONS.map(|(name, _)| name));
    assert!(different.len() <= EXCEPTIONS_MAX);
}

fn is_encoded(scenario: &Scenario) -> bool {
    let name = scenario.name.as_str();
    let family = ["type_", "rows_", "symbols_"];
    scenario.client == "rust-row"
        && (family.iter().any(|start| name.starts_with(start))
            || ["multi_table", "late_columns"].contains(&name))
}

/// The scenario's messages as our side encodes them: one producer, one publish per message.
fn encode(scenario: &Scenario) -> Vec<Vec<u8>> {
    assert!(!scenario.messages.is_empty(), "{}", scenario.name);
    assert!(
        scenario
            .messages
            .iter()
            .all(|message| message.connection == 0)
    );
    let mut client = Client::connect().expect("a client in memory");
    let mut encoded = Vec::new();
    for number in 0..scenario.messages.len() {
        let rows = rows_of(scenario, number).expect("rows as the corpus describes them");
        let message = if scenario.name.starts_with("type_larr") {
            long_array_message(&rows)
        } else {
            client.message(&rows)
        };
        encoded.push(message.unwrap_or_else(|e| panic!("{} {number}: {e}", scenario.name)));
    }
    encoded
}

/// Where the encoded messages first differ from the captured ones.
fn first_difference(scenario: &Scenario, encoded: &[Vec<u8>]) -> Option<String> {
    for (captured, bytes) in scenario.messages.iter().zip(encoded) {
        if captured.bytes != *bytes {
            let pairs = captured.bytes.iter().zip(bytes);
            let offset = pairs
                .take_while(|(captured, ours)| captured == ours)
                .count();
            let (file, lengths) = (&captured.file, (captured.bytes.len(), bytes.len()));
            return Some(format!("{file} byte {offset}, lengths {lengths:?}"));
        }
    }
    assert_eq!(scenario.messages.len(), encoded.len());
    None
}

/// Apart from the numbers of the symbols, the messages say what the captured ones say.
fn assert_same_meaning(scenario: &Scenario, encoded: &[Vec<u8>]) {
    let mut dict = ConnectionDict::default();
    for (captured, bytes) in scenario.messages.iter().zip(encoded) {
        let found = describe(bytes, Mode::Strict, &mut dict).expect("ours decodes");
        assert_eq!(
            without_symbol_numbers(found),
            without_symbol_numbers(captured.expected.clone()),
            "{}/{}",
            scenario.name,
            captured.file
        );
    }
}

fn without_symbol_numbers(mut message: Value) -> Value {
    let delta = message["delta"].as_array_mut().expect("a delta");
    delta.sort_by_key(Value::to_string);
    for table in message["tables"].as_array_mut().expect("tables") {
        for column in table["columns"].as_array_mut().expect("columns") {
            column
                .as_object_mut()
                .expect("a column")
                .shift_remove("ids");
        }
    }
    message
}
