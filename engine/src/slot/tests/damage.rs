//! Damage for which a slot is set aside, damage that is repaired, and remains that are tolerated
//! (slot-format.md section 8.2).

use std::path::Path;

use super::disk::Disk;
use super::rig::*;
use crate::error::Error;
use crate::fsn::{Fsn, Generation};
use crate::io::Fs;

/// The file and offset for which the slot is set aside.
fn corrupt(disk: &Disk) -> (String, u64) {
    let (file, offset, _) = set_aside(disk);
    (file, offset)
}

fn name(generation: u64) -> String {
    format!("sf-{generation:016x}.sfa")
}

fn without(generation: u64) -> Disk {
    let disk = four_segments();
    disk.unlink(Path::new(&segment_path(generation))).unwrap();
    disk
}

fn patched(generation: u64, at: usize, byte: u8) -> Disk {
    let disk = four_segments();
    disk.patch(&segment_path(generation), |bytes| bytes[at] = byte);
    disk
}

#[test]
fn missing_segments_are_found_at_open() {
    assert_eq!(corrupt(&without(0)), (name(1), 8), "head");
    assert_eq!(corrupt(&without(1)), (name(2), 8), "middle");
    assert_eq!(
        corrupt(&without(3)),
        ("sf-manifest.bin".to_owned(), 0),
        "active"
    );
    let disk = four_segments();
    for generation in 0..=4 {
        disk.unlink(Path::new(&segment_path(generation))).unwrap();
    }
    assert_eq!(corrupt(&disk), ("sf-manifest.bin".to_owned(), 0), "all");
}

#[test]
fn a_gap_at_an_exact_frame_boundary_is_found() {
    let disk = four_segments();
    let bytes = disk.read(&segment_path(1));
    let len = u32::from_le_bytes(bytes[28..32].try_into().unwrap()) as usize;
    disk.patch(&segment_path(1), |bytes| bytes[24 + 8 + len..].fill(0));
    assert_eq!(corrupt(&disk), (name(2), 8));
}

#[test]
fn damaged_headers_in_the_chain_are_named() {
    for (at, byte) in [(0, 0), (5, 0x81), (6, 1), (15, 0x80)] {
        for generation in 0..4 {
            let (_, _, told) = set_aside(&patched(generation, at, byte));
            assert!(told.reason.contains(&name(generation)), "{}", told.reason);
        }
    }
    let disk = four_segments();
    for generation in 0..=4 {
        disk.patch(&segment_path(generation), |bytes| bytes[0] = b'X');
    }
    assert_eq!(corrupt(&disk).0, "sf-manifest.bin");
}

#[test]
fn a_newer_segment_version_stops_everything() {
    for generation in 0..=4 {
        let error = refusal(&patched(generation, 4, 2));
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("version 2"), "{error}");
    }
}

#[test]
fn a_flipped_byte_in_a_sealed_segment_is_a_gap() {
    assert_eq!(corrupt(&patched(1, 60, 0xFF)), (name(2), 8));
}

#[test]
fn residue_in_a_sealed_segment_is_copied_and_zeroed_and_the_start_goes_on() {
    let disk = patched(2, 9000, 1);
    let slot = reopen(&disk);
    assert_eq!((slot.acked, slot.next), (Fsn(0), Fsn(16)));
    let [torn] = &slot.report.torn[..] else {
        panic!("{:?}", slot.report)
    };
    assert_eq!(
        (torn.copy.as_str(), torn.frames, torn.sealed),
        (format!("{}.torn-0", name(2)).as_str(), 0, true)
    );
    assert_eq!(slot.report.sealed_residues(), 1);
    let end = slot.segments[2].end;
    let copy = disk.read(&format!("{SLOT}/{}", torn.copy));
    assert_eq!(copy.len() as u64, SEGMENT_BYTES - end);
    let nonzero: Vec<usize> = (0..copy.len()).filter(|at| copy[*at] != 0).collect();
    assert_eq!(nonzero, [9000 - usize::try_from(end).unwrap()]);
    assert_eq!(disk.read(&segment_path(2))[9000], 0);
    drop(slot);
    assert!(reopen(&disk).report.torn.is_empty(), "once");
}

#[test]
fn a_lost_manifest_is_noticed() {
    let disk = four_segments();
    disk.unlink(Path::new("/d/sf/id/sf-manifest.bin")).unwrap();
    assert_eq!(corrupt(&disk).1, 5);
    for bad in [vec![], vec![0; 8192], vec![0xFF; 8192], vec![0; 128]] {
        let disk = four_segments();
        disk.put("/d/sf/id/sf-manifest.bin", &bad);
        assert_eq!(corrupt(&disk).1, 5);
    }
}

#[test]
fn one_torn_half_of_the_manifest_is_survived_when_the_other_tells_the_truth() {
    let disk = Disk::new();
    let mut slot = reopen(&disk);
    append(&disk, &mut slot, b"x");
    drop(slot);
    disk.patch("/d/sf/id/sf-manifest.bin", |bytes| bytes[..4096].fill(0xAA));
    assert_eq!(reopen(&disk).next, Fsn(1));
}

#[test]
fn frames_beyond_the_active_base_are_damage() {
    let disk = four_segments();
    let mut stray = disk.read(&segment_path(3));
    stray[8] = 99;
    disk.put(&segment_path(9), &stray);
    assert_eq!(corrupt(&disk), (name(9), 8));
}

#[test]
fn a_segment_that_is_there_twice_is_damage() {
    let disk = four_segments();
    disk.put(&segment_path(9), &disk.read(&segment_path(1)));
    assert_eq!(corrupt(&disk).1, 8);
}

#[test]
fn bases_and_counts_at_the_end_of_numbers_do_not_overflow() {
    let disk = four_segments();
    disk.patch(&segment_path(3), |bytes| {
        bytes[8..16].copy_from_slice(&i64::MAX.to_le_bytes());
    });
    assert_eq!(corrupt(&disk), (name(3), 8));
}

#[test]
fn blank_files_of_a_crash_before_the_header_are_removed() {
    for len in [0, 1, 23, 24, 65_536] {
        let disk = four_segments();
        disk.put(&segment_path(5), &vec![0; len]);
        let slot = reopen(&disk);
        assert_eq!((slot.next, slot.next_generation), (Fsn(16), Generation(7)));
        assert_eq!(slot.report.removed, [name(4), name(5)]);
    }
}

#[test]
fn foreign_files_stay_as_they_are() {
    let disk = four_segments();
    let foreign = [
        "zz.sfa",
        "sf-1.sfa",
        "sf-000000000000000G.sfa",
        ".ack-watermark.tmp",
        "notes",
    ];
    for file in foreign {
        disk.put(&format!("{SLOT}/{file}"), b"abc");
    }
    disk.create_dir(Path::new("/d/sf/id/sf-00000000000000aa.sfa"))
        .unwrap();
    let slot = reopen(&disk);
    assert_eq!(slot.next, Fsn(16));
    close(&disk, slot).unwrap();
    let files = disk.files(SLOT);
    assert!(foreign.iter().all(|file| files[*file] == b"abc"));
    assert_eq!(files.len(), foreign.len() + 2);
    assert!(reopen(&disk).report.fresh);
}

#[test]
fn damaged_files_outside_the_chain_are_kept_under_another_name() {
    let disk = four_segments();
    disk.put(&segment_path(7), b"SF0x this was a segment once");
    let mut torn = disk.read(&segment_path(4));
    torn[4000] = 1;
    disk.put(&segment_path(8), &torn);
    let slot = reopen(&disk);
    assert_eq!(slot.report.quarantined, [name(8), name(7)]);
    assert_eq!(slot.spares[0].generation, Generation(9));
    let files = disk.files(SLOT);
    assert_eq!(files[&format!("{}.corrupt", name(8))], torn);
    assert!(!files.contains_key(&name(7)));
}

#[test]
fn acked_segments_below_the_head_are_removed() {
    let disk = four_segments();
    let mut slot = reopen(&disk);
    ack(&disk, &mut slot, 8);
    slot.manifest.write(&disk, 8, 12).unwrap();
    drop(slot);
    let slot = reopen(&disk);
    assert_eq!(slot.report.removed, [name(0), name(1), name(5)]);
    assert_eq!(
        (slot.segments[0].base, slot.acked, slot.next),
        (Fsn(8), Fsn(9), Fsn(16))
    );
}

#[test]
fn a_head_inside_a_segment_is_damage() {
    let disk = four_segments();
    let mut slot = reopen(&disk);
    slot.manifest.write(&disk, 6, 12).unwrap();
    drop(slot);
    assert_eq!(corrupt(&disk).1, 8);
}

#[test]
fn of_two_empty_active_segments_the_newest_is_taken_or_the_torn_one() {
    let disk = Disk::new();
    let slot = reopen(&disk);
    assert_eq!(
        disk.read(&segment_path(1))[8],
        1,
        "a spare never has the active base"
    );
    drop(slot);
    // Official clients give it that base.
    disk.patch(&segment_path(1), |bytes| bytes[8] = 0);
    let slot = reopen(&disk);
    assert_eq!(slot.segments[0].name, name(1));
    drop(slot);
    disk.patch(&segment_path(1), |bytes| bytes[30] = 1);
    let slot = reopen(&disk);
    assert_eq!(
        (slot.segments[0].name.as_str(), slot.next),
        (name(1).as_str(), Fsn(0))
    );
    assert!(slot.report.torn_tail_bytes > 0);
}

#[test]
fn an_empty_active_after_a_rotation_is_found() {
    let disk = four_segments();
    let mut slot = reopen(&disk);
    rotate(&disk, &mut slot);
    drop(slot);
    let slot = reopen(&disk);
    assert_eq!((slot.segments.len(), slot.next), (5, Fsn(16)));
    assert_eq!(slot.segments[4].frames, 0);
}
