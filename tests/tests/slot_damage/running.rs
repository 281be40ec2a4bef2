//! Damage that comes after the slot was opened and found whole, before its frames are read back to
//! be sent: nothing damaged is sent and nothing behind it, every caller hears of it, no byte on
//! disk is changed, and the next start sets the slot aside.

use std::fs;
use std::time::{Duration, Instant};

use forebay::{Engine, Error};
use forebay_loadgen::sink::{Depth, Sink, SinkConfig};
use forebay_tests::address::free_address;

use crate::slots::{HEADER, Rig, name, publish_on};

const PATIENCE: Duration = Duration::from_mins(3);

/// Opens the slot of four segments without a server, lets `rot` happen, then starts the server.
fn rot_before_replay(rot: impl FnOnce(&Rig), told: &str) {
    let rig = Rig::four_segments();
    let address = free_address();
    let engine = Engine::connect(&rig.connect_string(address, 0)).unwrap();
    let mut producer = engine.producer().unwrap();
    assert_eq!(engine.stats().frames_recovered, 16);
    rot(&rig);
    let before = rig.files();
    let store = tempfile::tempdir().unwrap();
    let sink = Sink::start(SinkConfig {
        listen: address,
        depth: Depth::Decode,
        strict: true,
        store: Some(store.path().to_path_buf()),
        ..SinkConfig::default()
    })
    .unwrap();
    // No wait for an acknowledgement outlives the damage.
    let error = engine.wait_acked(PATIENCE).expect_err("told");
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    assert!(error.to_string().contains(told), "{error}");
    assert!(!error.is_retryable());
    let refused = publish_on(&mut producer, 16).expect_err("told");
    assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
    let error = engine.producer().map(drop).expect_err("told");
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    drop((producer, engine));
    sink.stop();
    let text = fs::read_to_string(store.path().join("t.ndjson")).unwrap_or_default();
    let rows = text.lines().map(|line| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        row["v"].as_u64().unwrap()
    });
    let rows: Vec<u64> = rows.collect();
    // At most what lies before frame 7, the last of the segment that every case damages.
    assert!(rows.len() < 8, "{rows:?}");
    assert!(rows.iter().copied().eq(0..rows.len() as u64), "{rows:?}");
    // Segment 0 is trimmed if the server had confirmed it; a spare may have been made.
    let after = rig.files();
    let kept = [name(1), name(2), name(3), ".symbol-dict".to_owned()];
    for file in kept {
        assert!(after.get(&file) == before.get(&file), "{file} is touched");
    }
    rig.assert_set_aside();
}

#[test]
fn runtime_readback_bad() {
    let frame_5 = HEADER + 64 + 30;
    rot_before_replay(|rig| rig.set(&name(1), frame_5, 0xFF), "CRC");
}

#[test]
fn a_length_that_rots_before_it_is_read_back_ends_the_replay() {
    for length in [0_u32, 1, 57, 200, u32::MAX] {
        let rot = |rig: &Rig| {
            rig.patch(&name(1), |bytes| {
                bytes[HEADER + 4..HEADER + 8].copy_from_slice(&length.to_le_bytes());
            });
        };
        rot_before_replay(rot, "");
    }
}

#[test]
fn a_segment_that_shrinks_before_it_is_read_back_ends_the_replay() {
    for bytes in [0, 23, 100, 247] {
        let rot = |rig: &Rig| rig.patch(&name(1), |all| all.truncate(bytes));
        rot_before_replay(rot, "ends at offset");
    }
}

#[test]
fn a_segment_that_is_gone_before_it_is_read_back_ends_the_replay() {
    rot_before_replay(|rig| rig.remove(&name(1)), "opening a segment");
}

#[test]
fn a_segment_of_zeros_where_frames_were_ends_the_replay() {
    let rot = |rig: &Rig| rig.patch(&name(1), |bytes| bytes[HEADER..].fill(0));
    rot_before_replay(rot, "no frame at offset");
}

#[test]
fn damage_is_told_within_a_moment() {
    let started = Instant::now();
    rot_before_replay(|rig| rig.set(&name(0), HEADER + 30, 0xFF), "CRC");
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
}
