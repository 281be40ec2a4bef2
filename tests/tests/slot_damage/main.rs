//! Every row of the table of damages (slot-format.md section 8.2) and every field report about
//! recovery, on real files through [`forebay::Engine::connect`]: what comes of it, what is left on
//! disk, and which error.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

mod holders;
mod large;
mod older;
mod reports;
mod rows;
mod running;
#[path = "../slots/mod.rs"]
mod slots;

use slots::{FRAME, FRAME_NEW, Rig, crc32c, name, record};

/// The rows of the slot that most tests begin with.
const ALL: std::ops::Range<u64> = 0..16;

fn numbers(range: std::ops::Range<u64>) -> Vec<u64> {
    range.collect()
}

#[test]
fn the_helpers_make_the_bytes_of_the_specification() {
    assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    assert_eq!(Rig::message(0).len() + 8, FRAME_NEW);
    assert_eq!(Rig::message(2).len() + 8, FRAME);
    let crc = |record: [u8; 64]| record[60..].to_vec();
    let expected = [0x1c, 0x79, 0x2e, 0xbd];
    assert_eq!(crc(record(*b"SFM1", 2, 42, 100)), expected);
    let rig = Rig::four_segments();
    let ends: Vec<usize> = (0..4)
        .map(|generation| {
            let bytes = rig.read(&name(generation));
            bytes.iter().rposition(|byte| *byte != 0).unwrap() / 8 * 8 + 8
        })
        .collect();
    assert_eq!(ends, [256, 248, 248, 248]);
}
