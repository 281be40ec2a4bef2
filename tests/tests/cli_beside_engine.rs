//! `forebay` looks into the slot of a running engine, in a process of its own: it sees what is
//! there, calls none of it damaged, and keeps the engine from nothing.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

mod loadgen;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use loadgen::{NASDAQ, Running, SinkProcess, scratch, stderr, stored, wait_for};
use serde_json::Value;

/// An hour of data in 1.5 seconds.
const SPEED: &str = "2400x";
const BATCH_ROWS: usize = 50;
/// Looks at a slot while it is written.
const LOOKS_MIN: usize = 3;

fn conf(sf_dir: &Path, addr: &str) -> String {
    format!(
        "ws::addr={addr};sf_dir={};sender_id=held;sf_max_segment_bytes=64k;\
         initial_connect_retry=async;close_flush_timeout_millis=20000;",
        sf_dir.display()
    )
}

fn replay(sf_dir: &Path, addr: &str) -> Running {
    let mut command = NASDAQ.replay(&conf(sf_dir, addr));
    command.args(["--batch", &BATCH_ROWS.to_string(), "--speed", SPEED]);
    Running::start(command.stdout(Stdio::null()))
}

fn forebay(args: &[&str], slot: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay_under_test"));
    command.args(args).arg(slot).output().unwrap()
}

/// Waits until the engine has made its first file.
fn wait_for_slot(slot: &Path) {
    wait_for("manifest of the slot", || {
        slot.join("sf-manifest.bin").exists().then_some(())
    });
}

fn inspect(slot: &Path) -> Value {
    let output = forebay(&["inspect", "--json"], slot);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_sound(slot: &Path) {
    let output = forebay(&["verify"], slot);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", stderr(&output));
}

/// The rows of the slot as [`loadgen::stored`] gives those of a sink.
fn dumped(slot: &Path) -> Vec<Vec<String>> {
    let output = forebay(&["dump", "--rows"], slot);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| {
        let (_, cells) = line.split_once("\"columns\":{").unwrap();
        let cells = cells.strip_suffix("}}").unwrap().split(',');
        let mut cells: Vec<String> = cells.map(str::to_owned).collect();
        cells.sort();
        cells
    };
    text.lines().map(row).collect()
}

#[test]
fn a_held_slot_is_shown_while_it_grows_and_its_rows_are_all_there() {
    let dir = scratch();
    let sf_dir = dir.path().join("sf");
    let slot = sf_dir.join("held");
    let expected = NASDAQ.expected();
    let mut engine = replay(&sf_dir, "127.0.0.1:1");
    wait_for_slot(&slot);
    let mut looks = 0;
    let rows = wait_for("last row in the slot", || {
        assert!(!engine.has_ended(), "the engine ended");
        is_sound(&slot);
        let found = inspect(&slot);
        assert_eq!(found["verdict"]["state"], "sound");
        assert_eq!(found["lock"]["held"], true);
        assert_eq!(found["lock"]["holder"], engine.id(), "{}", found["lock"]);
        assert_eq!(found["lock"]["pid_file"], engine.id().to_string());
        let rows = dumped(&slot);
        let whole = rows == expected[..rows.len()];
        assert!(whole, "look {looks}: not the first {} rows", rows.len());
        looks += 1;
        (rows.len() == expected.len()).then_some(rows)
    });
    println!("{looks} looks");
    let found = inspect(&slot);
    let frames = rows.len().div_ceil(BATCH_ROWS);
    assert_eq!(found["unacked"]["frames"], frames);
    assert_eq!(found["unacked"]["first_fsn"], 0);
    assert!(found["segments"].as_array().unwrap().len() > 10);
    assert!(engine.kill());
    let found = inspect(&slot);
    assert_eq!(found["unacked"]["frames"], frames);
    assert!(dumped(&slot) == expected, "not all rows, in order");
}

#[test]
fn a_slot_is_sound_at_every_look_while_it_is_rotated_and_trimmed() {
    let dir = scratch();
    let (sf_dir, store) = (dir.path().join("sf"), dir.path().join("store"));
    let slot: PathBuf = sf_dir.join("held");
    let sink = SinkProcess::start("127.0.0.1:0", &store);
    let mut engine = replay(&sf_dir, &sink.addr.to_string());
    wait_for_slot(&slot);
    let (mut looks, mut acked) = (0, 0);
    while !engine.has_ended() {
        is_sound(&slot);
        let found = inspect(&slot);
        assert_eq!(found["verdict"]["state"], "sound");
        acked = acked.max(found["unacked"]["first_fsn"].as_u64().unwrap());
        looks += 1;
    }
    println!("{looks} looks, the last at frame {acked}");
    assert!(engine.finish("end of the replay").success());
    assert!(
        looks >= LOOKS_MIN && acked > 0,
        "{looks} looks, frame {acked}"
    );
    assert!(
        stored(&store) == NASDAQ.expected(),
        "not all rows, in order"
    );
    is_sound(&slot);
    let found = inspect(&slot);
    assert_eq!(found["lock"]["held"], false);
    assert_eq!(found["unacked"]["frames"], 0);
}
