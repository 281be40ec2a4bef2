//! docs/configuration.md against the list of keys against the parser.

use std::collections::BTreeMap;

use super::{Config, KEYS};
use crate::error::Error;

const TABLE: &str = include_str!("../../../docs/configuration.md");

/// What stands between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Every row of the tables that begin with a key: the key and the default of the row.
fn documented() -> BTreeMap<&'static str, &'static str> {
    let mut rows = BTreeMap::new();
    for line in TABLE.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 6, "six columns: {line}");
        let default = quoted(cells[1]).next().unwrap_or_default();
        let restart = cells[4].split(':').next();
        assert!(matches!(restart, Some("yes" | "no")), "restart: {line}");
        for key in quoted(cells[0]) {
            assert!(rows.insert(key, default).is_none(), "{key} has two rows");
        }
    }
    rows
}

#[test]
fn every_key_has_a_row_with_its_default() {
    let listed: BTreeMap<_, _> = KEYS.iter().map(|key| (key.name, key.default)).collect();
    assert_eq!(listed.len(), KEYS.len(), "a key is listed twice");
    assert_eq!(documented(), listed);
}

#[test]
fn a_key_set_to_its_default_changes_nothing() {
    // Some keys are taken in some company only; `reconnect_*` turns an unset first connect.
    let companies = [
        "ws::addr=h;initial_connect_retry=off;",
        "ws::addr=h;",
        "wss::addr=h;initial_connect_retry=off;",
        "ws::addr=h;sf_dir=/d;sf_durability=periodic;",
    ];
    for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
        let accepted = companies.iter().find_map(|company| {
            let with = Config::parse(&format!("{company}{}={};", key.name, key.default)).ok()?;
            Some((with, Config::parse(company).expect("a plain string")))
        });
        let (with, without) = accepted.unwrap_or_else(|| panic!("{key:?} is refused"));
        assert_eq!(with, without, "{key:?}");
    }
}

#[test]
fn every_listed_key_is_known_to_the_parser() {
    for key in KEYS {
        let name = key.name.replace('*', "x");
        if let Err(Error::Config { reason, .. }) = Config::parse(&format!("ws::addr=h;{name}=;")) {
            assert_ne!(reason, "unknown key", "{name}");
        }
    }
}
