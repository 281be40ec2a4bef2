//! What a power cut leaves of an intake, simulated on the files of a process that was killed: rings
//! of another boot, and cursors beyond which entries of earlier laps lie. Nothing of them is
//! delivered, all of it is counted.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

#[path = "loadgen/mod.rs"]
mod loadgen;
#[path = "intake_kill/rig.rs"]
mod rig;

use std::path::Path;

use rig::{CLEAN, PRODUCERS, Rig, cursors, have_room, hold_entries, holds_entries};

const SEED: u64 = 0xB007_001D;

fn patch(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn rings_of_another_boot_are_not_delivered_but_counted_and_kept() {
    let mut rig = Rig::new(SEED, "");
    rig.kill_until(hold_entries);
    let all = rig.rings();
    let filled = all.iter().filter(|ring| holds_entries(ring)).count() as u64;
    for path in &all {
        patch(path, |bytes| {
            bytes[48..84].copy_from_slice(b"00000000-1111-2222-3333-444444444444");
            let crc = crc32c::crc32c(&bytes[..124]);
            bytes[124..128].copy_from_slice(&crc.to_le_bytes());
        });
    }
    let _sink = rig.sink();
    let stats = rig.drain();
    // An empty one counts only where an entry was written that its cursor did not yet cover.
    let lost = stats.intake_rings_lost;
    assert!((filled..=PRODUCERS).contains(&lost), "{lost} of {filled}");
    assert_eq!(stats.intake_entries_recovered, 0);
    assert!(stats.intake_entries_lost > 0 && stats.intake_bytes_lost > 0);
    let arrived = rig.arrived_rows();
    assert_eq!(
        arrived, stats.recovery_frames,
        "the journal's rows and no others"
    );
    // What was flushed is in the journal or was counted as lost; a few are both.
    assert!(arrived + stats.intake_entries_lost >= rig.flushed());
    let mut left = rig.names();
    left.retain(|name| !name.starts_with(".lost-"));
    assert_eq!(left, CLEAN);
    assert_eq!((rig.names().len() - CLEAN.len()) as u64, lost);
    assert_eq!(rig.drain().intake_rings_lost, 0, "told once");
}

#[test]
fn entries_of_earlier_laps_behind_the_cursor_are_not_delivered() {
    let mut rig = Rig::new(SEED, "");
    rig.kill_writer();
    // Long enough for the rings to have been filled more than once.
    rig.kill_until(have_room);
    let all = rig.rings();
    let mut stale = 0;
    for path in &all {
        patch(path, |bytes| {
            let (head, tail, capacity) = cursors(bytes);
            // As if the cursor had reached the disk and the entries before it had not.
            let beyond = (head + capacity).min(tail + 2048);
            bytes[256..264].copy_from_slice(&beyond.to_le_bytes());
            stale += beyond - tail;
        });
    }
    assert!(stale > 0);
    let _sink = rig.sink();
    let stats = rig.drain();
    assert_eq!(stats.intake_bytes_lost, stale);
    // All that was flushed, once, and nothing of earlier laps.
    let arrived = rig.account();
    assert_eq!(arrived.doubled, 0);
}
