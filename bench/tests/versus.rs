//! `forebay-bench versus` measures both sides and says so in a form that programs read.

use std::process::Command;

use serde_json::Value;

/// A run of so few rows takes no time at all.
const ROWS: &str = "20000";

fn versus(rows: &str, args: &[&str]) -> std::process::Output {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let json = dir.path().join("rows.json");
    let mut output = Command::new(env!("CARGO_BIN_EXE_forebay-bench"))
        .args(["versus", "--rows", rows, "--seconds", "0.1", "--dir"])
        .arg(dir.path())
        .arg("--json")
        .arg(&json)
        .args(args)
        .output()
        .expect("it runs");
    // What the program wrote takes the place of what it printed, where there is such a file.
    if let Ok(text) = std::fs::read(json) {
        output.stderr = text;
    }
    output
}

#[test]
fn every_row_has_its_ratio_its_spread_and_its_target() {
    let output = versus(ROWS, &["--rounds", "2", "--only", "an OK each"]);
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{table}");
    let report: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    let row = &rows[0];
    assert_eq!(rows.len(), 1, "{rows:?}");
    let name = row["name"].as_str().expect("a name");
    assert!(name.starts_with("frames of one row, an OK each"), "{name}");
    let number = |key: &str| row[key].as_f64().expect(key);
    let (least, median, most) = (number("min"), number("ratio_median"), number("max"));
    assert!(0.0 < least && least <= median && median <= most, "{row}");
    assert_eq!(number("target").to_string(), "2.5");
    assert_eq!(row["met"], Value::Bool(median >= 2.5));
    assert!(
        table.contains("| frames of one row, an OK each | frames/s | questdb-rs"),
        "{table}"
    );
    // Both sides were measured, twice, and every row of theirs reached a server, those of the warm-up
    // too: twice as many as are measured.
    let measured = report["measurements"].as_array().expect("measurements");
    assert_eq!(measured.len(), 4);
    for each in measured {
        assert_eq!(
            each["figures"]["server_rows"].as_f64(),
            Some(7_500.0),
            "{each}"
        );
    }
}

/// The rows of a bout, by the beginning of their names.
fn rows_of(rows: &str, args: &[&str]) -> Vec<(String, Value)> {
    let output = versus(rows, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_str(&said).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    let named = rows.iter().map(|row| {
        let name = row["name"].as_str().expect("a name");
        (name.to_owned(), row.clone())
    });
    named.collect()
}

#[test]
fn eight_producers_are_measured_on_both_sides() {
    // The CPU time of a process comes in hundredths of a second.
    let args = ["--rounds", "1", "--only", "8 producers", "--shards", "2"];
    let rows = rows_of("400000", &args);
    assert_eq!(rows.len(), 3, "{rows:?}");
    for (name, row) in rows {
        for side in ["ours", "theirs"] {
            assert!(row[side]["median"].as_f64() > Some(0.0), "{name}: {row}");
        }
    }
}

#[test]
fn a_neighbour_writes_beside_both_sides() {
    let rows = rows_of(ROWS, &["--rounds", "1", "--only", "neighbour"]);
    assert_eq!(rows.len(), 6, "{rows:?}");
    for (name, row) in rows {
        assert!(row["ratio_median"].as_f64() > Some(0.0), "{name}: {row}");
    }
}

#[test]
#[ignore = "needs root to mount; .ci/run has it as a stage"]
fn a_full_disk_is_no_end_for_ours_and_the_next_process_opens_it() {
    let rows = rows_of(ROWS, &["--rounds", "1", "--only", "full disk"]);
    assert_eq!(rows.len(), 3, "{rows:?}");
    for (name, row) in rows {
        assert_eq!(row["met"], true, "{name}: {row}");
    }
}

#[test]
fn a_bout_that_does_not_exist_is_an_error() {
    let output = versus(ROWS, &["--only", "no such bout"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no bout has such a name"));
}
