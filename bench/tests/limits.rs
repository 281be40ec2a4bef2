//! `forebay-bench limits ... --json FILE` writes a row for each line, as `versus` does.

#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

use std::process::Command;

use serde_json::Value;

/// Runs one measurement, small, and answers its rows.
fn rows(arguments: &[&str]) -> Vec<Value> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("rows.json");
    let output = Command::new(env!("CARGO_BIN_EXE_forebay-bench"))
        .arg("limits")
        .args(arguments)
        .arg("--dir")
        .arg(dir.path())
        .arg("--json")
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let all: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(all["limits"], arguments[0]);
    all["rows"].as_array().unwrap().clone()
}

fn is_ordered(row: &Value) -> bool {
    let number = |key: &str| row[key].as_f64().unwrap();
    0.0 < number("min") && number("min") <= number("median") && number("median") <= number("max")
}

#[test]
fn physical_figures_have_no_target() {
    let rows = rows(&["machine", "--rounds", "2", "--mb", "64", "--only", "3"]);
    let names: Vec<_> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "loopback TCP, messages of 32 KiB",
            "crc32c, 32 KiB",
            "memcpy, 32 KiB"
        ]
    );
    for row in &rows {
        assert!(is_ordered(row), "{row}");
        assert_eq!(row["unit"], "GB/s");
        assert!(row["ratio_median"].is_null() && row["target"].is_null() && row["met"].is_null());
    }
}

#[test]
fn a_cache_line_takes_a_time_between_two_cores() {
    let rows = rows(&["machine", "--rounds", "2", "--only", "cache line"]);
    let [row] = rows.as_slice() else {
        panic!("{rows:?}");
    };
    assert_eq!(row["unit"], "ns");
    // With one core there is nothing to measure, and JSON knows no such number.
    let one = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
    assert!(one || is_ordered(row), "{row}");
}

#[test]
fn a_ratio_names_its_limit_and_whether_it_is_met() {
    let rows = rows(&["durable", "--rounds", "1", "--only", "parked"]);
    let [row] = rows.as_slice() else {
        panic!("{rows:?}");
    };
    assert!(is_ordered(row), "{row}");
    assert_eq!(row["ratio_median"], row["median"]);
    assert_eq!((&row["target"], &row["unit"]), (&1.8.into(), &"us".into()));
    assert_eq!(row["target_kind"], "ratio_at_most");
    let of = |whose: &str| row[whose]["median"].as_f64().unwrap();
    let ratio = row["median"].as_f64().unwrap();
    assert!((of("ours") / of("theirs") - ratio).abs() < 1e-9, "{row}");
    assert_eq!(row["met"], ratio <= 1.8);
}

#[test]
fn opening_is_held_against_the_disk_and_a_bound_on_memory() {
    let rows = rows(&["recovery", "--mb", "20", "--rounds", "1", "--ours-only"]);
    let kinds: Vec<_> = rows.iter().map(|row| &row["target_kind"]).collect();
    assert_eq!(kinds, ["ratio_at_least", "ours_at_most"]);
    assert!(rows.iter().all(is_ordered), "{rows:?}");
    assert_eq!(rows[1]["met"], true, "{rows:?}");
}

#[test]
fn a_hand_over_is_held_against_nanoseconds_and_several_producers_against_one() {
    let more = ["--rounds", "1", "--rows", "40000"];
    let row = rows(&[&["handoff", "--only", "in memory"][..], &more].concat());
    let [row] = row.as_slice() else {
        panic!("{row:?}");
    };
    assert!(is_ordered(row) && row["ratio_median"].is_null(), "{row}");
    assert_eq!(
        (&row["target"], &row["unit"]),
        (&150.0.into(), &"ns".into())
    );
    assert_eq!(row["target_kind"], "ours_at_most");
    assert_eq!(row["met"], row["median"].as_f64().unwrap() <= 150.0);
    let rows = rows(&[
        "handoff",
        "--only",
        "batches of 1,000 rows",
        "--turns",
        "1",
        "--rows",
        "40000",
    ]);
    let names: Vec<_> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    let mut expected = Vec::new();
    for place in ["no files", "files"] {
        for many in ["two", "four", "eight"] {
            for stage in ["accepted", "acked"] {
                let size = "batches of 1,000 rows";
                expected.push(format!(
                    "{many} producers over one, {size}, {place}, {stage}"
                ));
            }
        }
    }
    assert_eq!(names, expected);
    for row in &rows {
        assert!(is_ordered(row), "{row}");
        let of = |whose: &str| row[whose]["median"].as_f64().unwrap();
        let ratio = row["ratio_median"].as_f64().unwrap();
        assert!((of("ours") / of("theirs") - ratio).abs() < 1e-9, "{row}");
        if row["name"].as_str().unwrap().starts_with("two") {
            assert_eq!(row["target_kind"], "ratio_at_least");
            assert_eq!(row["met"], ratio >= 1.0);
        } else {
            assert!(row["target"].is_null() && row["met"].is_null(), "{row}");
        }
    }
}
