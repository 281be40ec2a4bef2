//! Older forms, unfinished transactions, other machines.

use std::fs;

use crate::slots::{Rig, dual, frame, message, name, publish, record, segment};
use crate::{ALL, numbers};

#[test]
fn a_chain_without_a_manifest_is_migrated() {
    let rig = Rig::four_segments();
    for generation in 0..4 {
        rig.set(&name(generation), 5, 0);
    }
    fs::rename(rig.slot().join(name(0)), rig.slot().join("sf-initial.sfa")).unwrap();
    rig.remove("sf-manifest.bin");
    rig.remove(".ack-watermark");
    drop(rig.connect().unwrap());
    let made = dual(&[record(*b"SFM1", 1, 0, 12)]);
    assert_eq!(rig.read("sf-manifest.bin"), made);
    assert_eq!(rig.read("sf-initial.sfa")[5], 1);
    assert_eq!(rig.drain(), numbers(ALL));
    assert!(rig.files().is_empty());
}

/// A chain of unflagged segments without a manifest, as old clients left them.
fn legacy() -> Rig {
    let rig = Rig::four_segments();
    for generation in 0..4 {
        rig.set(&name(generation), 5, 0);
    }
    rig.remove("sf-manifest.bin");
    rig
}

/// Nothing says where such a chain begins, so a damaged first frame may be the only trace of a
/// part of it: neither the rest is sent as if it were all, nor are the symbols thrown away.
#[test]
fn a_first_frame_damaged_in_a_chain_without_a_manifest_is_no_leftover() {
    // The first segment, and one behind a gap.
    for generation in [0, 3] {
        let rig = legacy();
        rig.set(&name(generation), 24 + 30, 0xFF);
        if generation == 3 {
            rig.remove(&name(2));
        }
        let reason = rig.assert_set_aside();
        assert!(reason.contains("first frame is damaged"), "{reason}");
    }
    // The only one.
    let rig = legacy();
    (1..4).for_each(|generation| rig.remove(&name(generation)));
    rig.set(&name(0), 24 + 30, 0xFF);
    rig.assert_set_aside();
    // Right behind the end it is a torn tail, of which the whole frames are counted.
    let rig = legacy();
    rig.set(&name(3), 24 + 30, 0xFF);
    let torn = rig.read(&name(3))[24..].to_vec();
    let engine = rig.connect().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.frames_recovered, stats.torn_tail_frames), (12, 3));
    drop(engine);
    assert_eq!(rig.read(&format!("{}.torn-0", name(3))), torn);
    assert_eq!(rig.drain(), numbers(0..12));
}

#[test]
fn a_transaction_without_its_commit_is_never_sent() {
    let rig = Rig::four_segments();
    let deferred = |number| {
        let mut message = message(number, 2, None);
        message[5] |= 1;
        frame(&message)
    };
    let frames = [frame(&Rig::message(12)), deferred(13), deferred(14)];
    rig.put(&name(3), &segment(12, 256, &frames));
    let rows = rig.drain_after(|engine| {
        let stats = engine.stats();
        assert_eq!(stats.deferred_frames_retired, 2);
        assert_eq!(stats.frames_recovered, 13);
        publish(engine, 15);
    });
    assert_eq!(rows, [numbers(0..13), vec![15]].concat());
    let copy = rig.read(&format!("{}.deferred-0", name(3)));
    assert_eq!(copy, frames[1..].concat());
}

#[test]
fn a_slot_from_another_host_is_recognised_and_opens() {
    let rig = Rig::four_segments();
    drop(rig.connect().unwrap());
    let text = String::from_utf8(rig.read(".slot-id")).unwrap();
    let host = text.lines().find(|line| line.starts_with("host=")).unwrap();
    rig.put(".slot-id", text.replace(host, "host=elsewhere.").as_bytes());
    let engine = rig.connect().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.slot_host_changes, stats.slot_reboots), (1, 0));
    drop(engine);
    assert_eq!(String::from_utf8(rig.read(".slot-id")).unwrap(), text);
    let boot = text.lines().find(|line| line.starts_with("boot=")).unwrap();
    rig.put(".slot-id", text.replace(boot, "boot=earlier").as_bytes());
    let stats = rig.connect().unwrap().stats();
    assert_eq!((stats.slot_host_changes, stats.slot_reboots), (0, 1));
    assert_eq!(rig.drain(), numbers(ALL));
}
