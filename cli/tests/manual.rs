//! docs/cli.md names every JSON key that the tool writes, and its examples are what it prints.

#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use support::{contents, corpus, forebay, slot_of};

const MANUAL: &str = include_str!("../../docs/cli.md");

/// Keys whose own keys are names of files, tables or columns.
const OPEN: [&str; 2] = ["files", "columns"];

fn keys(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                into.insert(key.clone());
                if !OPEN.contains(&key.as_str()) {
                    keys(value, into);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, into)),
        _ => {}
    }
}

#[test]
fn every_key_is_in_the_manual() {
    let (_scratch, slots) = corpus();
    let mut found = BTreeSet::new();
    let root = tempfile::tempdir().unwrap();
    for slot in &slots {
        let mut files = contents(&slot.dir);
        for line in forebay(&["dump"], &slot.dir).lines() {
            keys(&line, &mut found);
        }
        for line in forebay(&["dump", "--rows"], &slot.dir).lines() {
            keys(&line, &mut found);
        }
        files.push(("sf-00000000000000ff.sfa".to_owned(), vec![1; 64]));
        let dir = slot_of(root.path(), "slot", &files);
        keys(
            &forebay(&["inspect", "--json", "--symbols"], &dir).json(),
            &mut found,
        );
    }
    let missing: Vec<_> = found
        .iter()
        .filter(|key| !MANUAL.contains(&format!("`{key}`")))
        .collect();
    assert!(found.len() > 50 && missing.is_empty(), "{missing:?}");
}

#[test]
fn the_size_in_the_manual_is_what_the_tool_computes() {
    let ran = forebay(&["size", "--rate", "10MB", "--outage"], Path::new("5m"));
    assert_eq!(ran.status, 0);
    assert!(MANUAL.contains(ran.text().trim()), "{}", ran.text());
    let ran = forebay(
        &["size", "--rate", "9999999t", "--outage"],
        Path::new("9999999d"),
    );
    assert_eq!((ran.status, ran.out.len()), (2, 0));
}
