//! Messages that real clients sent, against what the corpus says they mean.

use std::collections::{BTreeMap, BTreeSet};

use forebay_tests::corpus::{Captured, Corpus, Scenario};
use forebay_tests::messages::describe;
use forebay_wire::decode::Mode;
use forebay_wire::dict::ConnectionDict;

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
