//! A fresh slot, the lock, spares, and the drained close, call by call.

use std::path::Path;
use std::time::Duration;

use super::disk::Disk;
use super::rig::*;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::io::{Fs, OpenMode};
use crate::slot::{SlotOptions, open};

#[test]
fn a_fresh_open_makes_its_calls_in_the_specified_order() {
    let disk = Disk::new();
    let slot = reopen(&disk);
    let s0 = "sf-0000000000000000.sfa";
    let s1 = "sf-0000000000000001.sfa";
    let expected = [
        "mkdir sf".to_owned(),
        "syncdir /d/sf".to_owned(),
        "mkdir id".to_owned(),
        "create .lock".to_owned(),
        "create .lock.pid".to_owned(),
        "truncate .lock.pid 0".to_owned(),
        "write .lock.pid 0+5".to_owned(),
        format!("syncdir {SLOT}"),
        format!("syncdir {SLOT}"),
        format!("syncdir {SLOT}"),
        "syncdir /d/sf".to_owned(),
        "syncdir /d".to_owned(),
        "create .slot-id.forebay-tmp".to_owned(),
        "truncate .slot-id.forebay-tmp 0".to_owned(),
        "write .slot-id.forebay-tmp 0+57".to_owned(),
        "sync .slot-id.forebay-tmp".to_owned(),
        "rename .slot-id.forebay-tmp .slot-id".to_owned(),
        format!("syncdir {SLOT}"),
        "create .symbol-dict".to_owned(),
        "write .symbol-dict 0+8".to_owned(),
        "sync .symbol-dict".to_owned(),
        "create .ack-watermark".to_owned(),
        "write .ack-watermark 0+8192".to_owned(),
        "sync .ack-watermark".to_owned(),
        format!("syncdir {SLOT}"),
        format!("create {s0}"),
        format!("allocate {s0} 65536"),
        format!("write {s0} 0+24"),
        format!("sync {s0}"),
        format!("syncdir {SLOT}"),
        "create sf-manifest.bin".to_owned(),
        "write sf-manifest.bin 0+8192".to_owned(),
        "write sf-manifest.bin 4096+4096".to_owned(),
        "sync sf-manifest.bin".to_owned(),
        format!("syncdir {SLOT}"),
        format!("write {s0} 5+1"),
        format!("sync {s0}"),
        format!("create {s1}"),
        format!("allocate {s1} 65536"),
        format!("write {s1} 0+24"),
        format!("sync {s1}"),
        format!("syncdir {SLOT}"),
    ];
    assert_eq!(disk.trace(), expected);
    assert!(slot.report.fresh);
    assert_eq!(
        (slot.acked, slot.next, slot.next_generation),
        (Fsn(0), Fsn(0), Generation(2))
    );
    assert_eq!(
        (
            slot.segments.len(),
            slot.spares.len(),
            slot.dictionary_bytes
        ),
        (1, 1, 8)
    );
    let files = disk.files(SLOT);
    let sizes: Vec<_> = files
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.len()))
        .collect();
    assert_eq!(
        sizes,
        [
            (".ack-watermark", 8192),
            (".lock", 0),
            (".lock.pid", 5),
            (".slot-id", 57),
            (".symbol-dict", 8),
            (s0, 65_536),
            (s1, 65_536),
            ("sf-manifest.bin", 8192)
        ]
    );
    assert_eq!(files[".lock.pid"], b"4711\n");
    assert_eq!(files[s0][..8], *b"SF01\x01\x01\0\0");
    assert_eq!(files[s0][16..24], 1_234_567_890_123_u64.to_le_bytes());
}

#[test]
fn frames_survive_a_kill_and_the_chain_is_found_again() {
    let disk = four_segments();
    let written = {
        let slot = reopen(&disk);
        let bases: Vec<u64> = slot.segments.iter().map(|s| s.base.0).collect();
        assert_eq!(bases, [0, 4, 8, 12]);
        assert_eq!(
            (slot.acked, slot.next, slot.report.frames),
            (Fsn(0), Fsn(16), 16)
        );
        assert_eq!(
            (slot.dictionary.len(), slot.dictionary.get(7)),
            (16, Some("sym7"))
        );
        assert_eq!(
            slot.report.removed,
            ["sf-0000000000000004.sfa"],
            "the old spare"
        );
        assert_eq!(
            (slot.spares[0].generation, slot.next_generation),
            (Generation(5), Generation(6))
        );
        assert_eq!(slot.spares[0].base, Fsn(17));
        assert_eq!(disk.read(&segment_path(5))[8..16], 17_u64.to_le_bytes());
        payloads(&disk, &slot)
    };
    assert_eq!(written.len(), 16);
    let slot = reopen(&disk);
    assert_eq!(payloads(&disk, &slot), written);
}

#[test]
fn a_drained_close_makes_its_calls_in_the_specified_order() {
    let disk = four_segments();
    let slot = reopen(&disk);
    disk.trace();
    close(&disk, slot).unwrap();
    let unlink = |generation: u64| format!("unlink sf-{generation:016x}.sfa");
    let expected = [
        "write .ack-watermark 4096+4096".to_owned(),
        "sync .ack-watermark".to_owned(),
        format!("syncdir {SLOT}"),
        "write sf-manifest.bin 4096+4096".to_owned(),
        "sync sf-manifest.bin".to_owned(),
        unlink(0),
        unlink(1),
        unlink(2),
        unlink(3),
        unlink(5),
        format!("syncdir {SLOT}"),
        "unlink .ack-watermark".to_owned(),
        "unlink .symbol-dict".to_owned(),
        "unlink .slot-id".to_owned(),
        "unlink sf-manifest.bin".to_owned(),
        format!("syncdir {SLOT}"),
    ];
    assert_eq!(disk.trace(), expected);
    let names: Vec<String> = disk.files(SLOT).into_keys().collect();
    assert_eq!(names, [".lock", ".lock.pid"]);
    let slot = reopen(&disk);
    assert!(slot.report.fresh);
    assert_eq!((slot.next, slot.next_generation), (Fsn(0), Generation(2)));
}

#[test]
fn a_slot_into_which_nothing_was_published_closes_clean() {
    let disk = Disk::new();
    let slot = reopen(&disk);
    close(&disk, slot).unwrap();
    assert_eq!(disk.files(SLOT).len(), 2);
}

#[test]
fn a_second_opener_is_refused_and_told_who_holds_the_slot() {
    let disk = Disk::new();
    let held = reopen(&disk);
    let patient = SlotOptions {
        lock_retry: Duration::from_millis(12),
        ..options()
    };
    let holder = |error| match error {
        Error::Locked {
            holder,
            waited_millis,
            ..
        } => (holder, waited_millis),
        other => panic!("{other}"),
    };
    assert_eq!(
        holder(open(&disk, &patient).unwrap_err()),
        ("4711".to_owned(), 12)
    );
    for text in ["", "rm -rf\n", "\u{7}"] {
        disk.put("/d/sf/id/.lock.pid", text.as_bytes());
        assert_eq!(
            holder(open(&disk, &options()).unwrap_err()),
            ("unknown".to_owned(), 0)
        );
    }
    disk.unlock(&held.lock).unwrap();
    reopen(&disk);
}

#[test]
fn a_failed_open_releases_the_lock() {
    let disk = four_segments();
    disk.patch(&segment_path(1), |bytes| bytes[4] = 2);
    refusal(&disk);
    disk.patch(&segment_path(1), |bytes| bytes[4] = 1);
    reopen(&disk);
}

#[test]
fn a_node_owner_directory_is_never_ignored() {
    let disk = four_segments();
    disk.create_dir(Path::new("/d/sf/id/.lock.owner")).unwrap();
    let error = refusal(&disk);
    assert!(error.to_string().contains("remove .lock.owner"), "{error}");
}

#[test]
fn too_small_a_total_is_refused_for_a_fresh_slot_only() {
    let small = SlotOptions {
        total_bytes: 2 * SEGMENT_BYTES - 1,
        ..options()
    };
    assert!(
        matches!(open(&Disk::new(), &small), Err(Error::Config { key, .. })
        if key == "sf_max_total_bytes")
    );
    let disk = four_segments();
    let slot = open(&disk, &small).unwrap();
    assert_eq!((slot.segments.len(), slot.spares.len()), (4, 0));
}

#[test]
fn a_parent_that_does_not_exist_is_an_error() {
    let nowhere = SlotOptions {
        sf_dir: "/nope/sf".into(),
        ..options()
    };
    assert!(matches!(
        open(&Disk::new(), &nowhere),
        Err(Error::Disk {
            op: "create directory",
            ..
        })
    ));
}

#[test]
fn a_full_disk_costs_the_spare_but_not_the_slot() {
    let disk = four_segments();
    disk.refuse(Some(("create", libc::ENOSPC)));
    let slot = reopen(&disk);
    assert!(slot.spares.is_empty());
    assert!(
        slot.report
            .spare_error
            .as_ref()
            .unwrap()
            .contains("No space")
    );
    drop(slot);
    disk.refuse(None);
    assert_eq!(reopen(&disk).spares.len(), 1);
}

#[test]
fn a_file_system_without_preallocation_is_named() {
    let disk = Disk::new();
    disk.refuse(Some(("allocate", libc::EOPNOTSUPP)));
    let error = open(&disk, &options()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(
        !disk
            .files(SLOT)
            .keys()
            .any(|name| crate::slot::names::is_segment(name))
    );
    disk.refuse(None);
    assert!(reopen(&disk).report.fresh);
}

#[test]
fn the_last_generation_is_never_given_out_twice() {
    let disk = four_segments();
    disk.put("/d/sf/id/sf-ffffffffffffffff.sfa.corrupt", b"x");
    assert!(matches!(refusal(&disk), Error::Unsupported { .. }));
}

#[test]
fn transient_read_errors_are_disk_errors_and_change_nothing() {
    let disk = four_segments();
    disk.refuse(Some(("read", libc::EIO)));
    let error = refusal(&disk);
    assert!(
        matches!(error, Error::Disk { .. }) && error.is_retryable(),
        "{error}"
    );
    disk.refuse(None);
    assert_eq!(reopen(&disk).next, Fsn(16));
    drop(disk.open(Path::new("/d/sf/id/.lock"), OpenMode::Read));
}
