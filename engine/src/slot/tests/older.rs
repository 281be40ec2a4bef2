//! Slots of older forms: chains without a manifest, `sf-initial.sfa`, files of 128 and 16 bytes.

use std::path::Path;

use super::disk::Disk;
use super::rig::*;
use crate::fsn::{Fsn, Generation};
use crate::io::Fs;
use crate::slot::record::{Kind, Record, current};

const MANIFEST: &str = "/d/sf/id/sf-manifest.bin";
const WATERMARK: &str = "/d/sf/id/.ack-watermark";

/// Four segments and a spare as they were before there were manifests; the first by the name that
/// one client gives it.
pub(crate) fn legacy() -> Disk {
    let disk = four_segments();
    for generation in 0..=4 {
        disk.patch(&segment_path(generation), |bytes| bytes[5] = 0);
    }
    let first = disk.read(&segment_path(0));
    disk.unlink(Path::new(&segment_path(0))).unwrap();
    disk.put("/d/sf/id/sf-initial.sfa", &first);
    for name in ["sf-manifest.bin", ".ack-watermark", ".slot-id"] {
        disk.unlink(&Path::new(SLOT).join(name)).unwrap();
    }
    disk
}

/// The file with its two records at 0 and 64.
fn older_form(disk: &Disk, path: &str) {
    disk.patch(path, |bytes| {
        let mut older = bytes[..64].to_vec();
        older.extend_from_slice(&bytes[4096..4160]);
        *bytes = older;
    });
}

fn assert_migrated(disk: &Disk, frames: &[Vec<u8>]) {
    let slot = reopen(disk);
    assert_eq!((slot.acked, slot.next), (Fsn(0), Fsn(16)));
    assert_eq!(payloads(disk, &slot), frames);
    assert_eq!((slot.manifest.first, slot.manifest.second), (0, 12));
    for segment in &slot.segments {
        let bytes = disk.read(&format!("{SLOT}/{}", segment.name));
        assert_eq!(bytes[5], 1, "{} demands the manifest", segment.name);
    }
}

#[test]
fn a_chain_without_a_manifest_gets_one() {
    let disk = legacy();
    let frames = payloads(&four_segments(), &reopen(&four_segments()));
    let slot = reopen(&disk);
    let names: Vec<&str> = slot.segments.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names[0], "sf-initial.sfa");
    assert_eq!(slot.report.migrated, ["the chain of segments"]);
    assert_eq!(slot.spares[0].generation, Generation(5));
    let record = current(&disk.read(MANIFEST), Kind::Manifest);
    assert_eq!(
        record,
        Some(Record {
            generation: 1,
            first: 0,
            second: 12
        })
    );
    drop(slot);
    assert_migrated(&disk, &frames);
    let mut slot = reopen(&disk);
    append(&disk, &mut slot, b"new");
    rotate(&disk, &mut slot);
    append(&disk, &mut slot, b"newer");
    drop(slot);
    assert_eq!(reopen(&disk).next, Fsn(18));
}

#[test]
fn the_official_two_frame_file_opens_with_and_without_a_torn_tail() {
    let mut file = b"SF01\x01\0\0\0\x2a\0\0\0\0\0\0\0\xcb\x04\xfb\x71\x1f\x01\0\0".to_vec();
    file.extend_from_slice(b"\xa6\x0e\xcb\x49\x03\0\0\0one\x3a\xf6\0\x07\x07\0\0\0two-two");
    file.resize(64, 0);
    for torn in [false, true] {
        let disk = Disk::new();
        close(&disk, reopen(&disk)).unwrap();
        file[0x2c] = if torn { b'v' } else { b'w' };
        disk.put("/d/sf/id/sf-initial.sfa", &file);
        let slot = reopen(&disk);
        let next = if torn { 43 } else { 44 };
        assert_eq!((slot.acked, slot.next), (Fsn(42), Fsn(next)));
        assert_eq!((slot.manifest.first, slot.manifest.second), (42, 42));
        assert_eq!(slot.report.torn_tail_bytes, if torn { 29 } else { 0 });
        let bytes = disk.read("/d/sf/id/sf-initial.sfa");
        assert_eq!((bytes.len(), bytes[5]), (64, 1));
        if torn {
            assert!(bytes[35..].iter().all(|byte| *byte == 0));
            let copy = disk.read("/d/sf/id/sf-initial.sfa.torn-0");
            assert_eq!(copy, file[35..]);
        }
    }
}

#[test]
fn a_chain_without_a_manifest_and_with_a_gap_is_set_aside() {
    let disk = legacy();
    disk.unlink(Path::new(&segment_path(1))).unwrap();
    assert_eq!(set_aside(&disk).0, "sf-0000000000000002.sfa");
    let disk = legacy();
    disk.patch(&segment_path(3), |bytes| bytes[0] = 0);
    assert_eq!(set_aside(&disk).0, "sf-0000000000000003.sfa");
}

#[test]
fn a_migration_that_left_no_valid_manifest_is_done_again() {
    for manifest in [vec![], vec![0; 8192], vec![7; 100]] {
        let disk = legacy();
        disk.put(MANIFEST, &manifest);
        assert_eq!(reopen(&disk).next, Fsn(16));
        let kept = disk.read(&format!("{MANIFEST}.corrupt"));
        assert_eq!(kept, manifest);
    }
}

#[test]
fn sealed_residue_without_a_manifest_is_copied_and_zeroed() {
    let disk = legacy();
    disk.patch(&segment_path(1), |bytes| bytes[9000] = 1);
    let slot = reopen(&disk);
    assert_eq!((slot.next, slot.report.sealed_residues()), (Fsn(16), 1));
    assert_eq!(disk.read(&segment_path(1))[9000], 0);
}

#[test]
fn an_unused_initial_file_is_replaced_by_a_fresh_slot() {
    let disk = legacy();
    for name in disk.names(SLOT) {
        disk.unlink(&Path::new(SLOT).join(name)).unwrap();
    }
    let mut empty = b"SF01".to_vec();
    empty.resize(4096, 0);
    empty[4] = 1;
    disk.put("/d/sf/id/sf-initial.sfa", &empty);
    let slot = reopen(&disk);
    assert!(slot.report.fresh);
    assert_eq!(slot.report.removed, ["sf-initial.sfa"]);
}

#[test]
fn a_manifest_of_128_bytes_is_honoured_and_rewritten() {
    let disk = four_segments();
    let before = current(&disk.read(MANIFEST), Kind::Manifest).unwrap();
    older_form(&disk, MANIFEST);
    let slot = reopen(&disk);
    assert_eq!((slot.next, slot.segments.len()), (Fsn(16), 4));
    assert_eq!(slot.report.migrated, ["sf-manifest.bin"]);
    let after = current(&disk.read(MANIFEST), Kind::Manifest).unwrap();
    assert_eq!((after.first, after.second), (before.first, before.second));
    assert_eq!(after.generation, before.generation + 1);
    drop(slot);
    assert!(reopen(&disk).report.migrated.is_empty());
}

#[test]
fn a_manifest_of_128_bytes_in_a_damaged_slot_stays_as_it_is() {
    let disk = four_segments();
    older_form(&disk, MANIFEST);
    disk.unlink(Path::new(&segment_path(1))).unwrap();
    set_aside(&disk);
    let disk = four_segments();
    older_form(&disk, MANIFEST);
    disk.patch(&segment_path(1), |bytes| bytes[4] = 2);
    refusal(&disk);
}

#[test]
fn watermarks_of_128_and_16_bytes_are_honoured_where_they_can_be_true() {
    for (last, acked) in [(-1, 0), (0, 1), (8, 9), (15, 16), (16, 0), (i64::MAX, 0)] {
        let disk = four_segments();
        let mut slot = reopen(&disk);
        ack(&disk, &mut slot, last);
        drop(slot);
        older_form(&disk, WATERMARK);
        let mut short = b"AKW1\0\0\0\0".to_vec();
        short.extend_from_slice(&last.to_le_bytes());
        for oldest in [false, true] {
            if oldest {
                disk.put(WATERMARK, &short);
            }
            let slot = reopen(&disk);
            assert_eq!(slot.acked, Fsn(acked), "{last}");
            let refused = (last > 15).then_some(last);
            assert_eq!(slot.report.watermark_refused, refused);
            assert_eq!(slot.report.migrated, [".ack-watermark"]);
            let record = current(&disk.read(WATERMARK), Kind::Watermark).unwrap();
            let stored = if last > 15 { -1 } else { last };
            assert_eq!(record.first, stored);
            drop(slot);
            let slot = reopen(&disk);
            assert_eq!(slot.acked, Fsn(acked));
            assert!(slot.report.migrated.is_empty());
        }
    }
}
