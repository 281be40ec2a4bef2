//! Killed, or without power, between any two calls of open, recovery and close.

use super::disk::Disk;
use super::rig::*;
use super::{aside, deferred, older};
use crate::fsn::Fsn;
use crate::slot::{open, renew};

/// Which unsynced changes a power cut keeps, file by file: none, all, and mixtures.
const KEEPS: [u64; 8] = [
    0,
    u64::MAX,
    0x5555_5555_5555_5555,
    0xAAAA_AAAA_AAAA_AAAA,
    0x3333_3333_3333_3333,
    0xF0F0_F0F0_F0F0_F0F0,
    0x9249_2492_4924_9249,
    0x1248_8421_1248_8421,
];

/// Runs `act` on a disk of `make`, dying after every number of steps, and checks what the next open
/// finds, after a kill and after power cuts.
fn at_every_step(make: impl Fn() -> Disk, act: impl Fn(&Disk), check: impl Fn(&Disk)) {
    let steps = {
        let disk = make();
        disk.trace();
        act(&disk);
        u32::try_from(disk.trace().len()).unwrap()
    };
    assert!(steps > 0);
    for step in 0..=steps {
        for keep in std::iter::once(None).chain(KEEPS.map(Some)) {
            let disk = make();
            disk.die_after(step);
            act(&disk);
            match keep {
                None => disk.restart(),
                Some(keep) => disk.power_cut(keep),
            }
            check(&disk);
        }
    }
}

fn try_open(disk: &Disk) {
    drop(open(disk, &options()));
}

#[test]
fn a_first_open_that_dies_anywhere_leaves_a_slot_that_opens_empty() {
    at_every_step(Disk::new, try_open, |disk| {
        let mut slot = reopen(disk);
        assert_eq!((slot.acked, slot.next), (Fsn(0), Fsn(0)));
        append(disk, &mut slot, b"first");
        drop(slot);
        assert_eq!(reopen(disk).next, Fsn(1));
    });
}

#[test]
fn a_drained_close_that_dies_anywhere_replays_nothing_and_loses_no_number() {
    let close_it = |disk: &Disk| {
        if let Ok(slot) = open(disk, &options()) {
            let _ = close(disk, slot);
        }
    };
    // Everything is acked, and durably so, before close is allowed to begin.
    let make = || {
        let disk = four_segments();
        let mut slot = reopen(&disk);
        slot.watermark.write(&disk, 15, 0).unwrap();
        disk
    };
    at_every_step(make, close_it, |disk| {
        let slot = reopen(disk);
        assert_eq!(slot.acked, slot.next, "nothing to replay");
        assert!([Fsn(0), Fsn(16)].contains(&slot.next), "{}", slot.next);
    });
}

#[test]
fn a_renewal_that_dies_anywhere_is_the_old_slot_with_all_acked_or_a_new_one() {
    let renew_it = |disk: &Disk| {
        if let Ok(slot) = open(disk, &options()) {
            drop(renew(disk, renewal(&slot)));
        }
    };
    let make = || {
        let disk = four_segments();
        let mut slot = reopen(&disk);
        slot.watermark.write(&disk, 15, 0).unwrap();
        disk
    };
    at_every_step(make, renew_it, |disk| {
        let mut slot = reopen(disk);
        assert_eq!(slot.acked, slot.next, "nothing to replay");
        let symbols = slot.dictionary.len();
        let (old, new) = ((Fsn(16), 16), (Fsn(16), 0));
        let is = (slot.next, symbols);
        assert!([old, new, (Fsn(0), 0)].contains(&is), "{is:?}");
        assert!(slot.report.set_aside.is_none());
        // What is appended now, with its symbol, is there at the next start.
        append_symbols(disk, &mut slot, &["later"]);
        let next = slot.next;
        drop(slot);
        let again = reopen(disk);
        assert_eq!((again.next, again.dictionary.len()), (next, symbols + 1));
        assert_eq!(again.acked, is.0, "the new frame is not acked");
    });
}

#[test]
fn a_renewal_is_a_drained_slot_whose_numbers_go_on() {
    let disk = four_segments();
    let mut slot = reopen(&disk);
    append_symbols(&disk, &mut slot, &["a", "b"]);
    let next = slot.next;
    let generation = slot.next_generation;
    let renewed = renew(&disk, renewal(&slot)).unwrap();
    assert_eq!((renewed.acked, renewed.next), (next, next));
    assert_eq!(renewed.dictionary.len(), 0);
    let mut names = disk.names(SLOT);
    names.sort();
    let segment = crate::slot::names::segment(generation);
    let manifest = "sf-manifest.bin";
    let side = [
        ".ack-watermark",
        ".lock",
        ".lock.pid",
        ".slot-id",
        ".symbol-dict",
    ];
    let mut wanted: Vec<&str> = side
        .into_iter()
        .chain([segment.as_str(), manifest])
        .collect();
    wanted.sort_unstable();
    assert_eq!(names, wanted);
    assert_eq!(disk.read("/d/sf/id/.symbol-dict").len(), 8);
    let base = i64::try_from(next.0).unwrap();
    let record = (renewed.manifest.first, renewed.manifest.second);
    assert_eq!((record, renewed.watermark.first), ((base, base), base - 1));
    // Asked for again after it failed half-way, it starts over.
    let again = renew(&disk, renewal(&slot)).unwrap();
    assert_eq!((again.acked, again.next), (next, next));
}

#[test]
fn a_recovery_that_dies_anywhere_can_be_repeated() {
    let make = || {
        let disk = four_segments();
        let mut slot = reopen(&disk);
        append(&disk, &mut slot, &[5; 600]);
        ack(&disk, &mut slot, 99);
        drop(slot);
        disk.patch(&segment_path(3), |bytes| bytes[700..].fill(0));
        disk.patch(&segment_path(3), |bytes| bytes[60_000] = 1);
        disk.patch("/d/sf/id/.symbol-dict", |bytes| bytes.truncate(40));
        disk.put(&segment_path(9), b"junk that is no segment at all");
        disk
    };
    at_every_step(make, try_open, |disk| {
        let slot = reopen(disk);
        assert_eq!((slot.acked, slot.next), (Fsn(0), Fsn(16)));
        assert_eq!(slot.dictionary.len(), 16);
        assert_eq!(payloads(disk, &slot).len(), 16);
    });
}

#[test]
fn a_rotation_that_dies_anywhere_keeps_every_synced_frame() {
    let make = || {
        let disk = four_segments();
        drop(reopen(&disk));
        disk
    };
    let act = |disk: &Disk| {
        // The rig panics where a shard would stop: at the first call that fails.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut slot = reopen(disk);
            rotate(disk, &mut slot);
            append(disk, &mut slot, b"after");
        }));
    };
    at_every_step(make, act, |disk| {
        let slot = reopen(disk);
        assert!(
            slot.next == Fsn(16) || slot.next == Fsn(17),
            "{}",
            slot.next
        );
        assert!(payloads(disk, &slot).len() >= 16);
    });
}

#[test]
fn a_slot_that_is_being_set_aside_is_whole_in_one_place_whenever_it_dies() {
    let make = || {
        let disk = aside::damaged();
        disk.settle();
        disk
    };
    let before = {
        let disk = make();
        try_open(&disk);
        disk.files("/d/sf/id.unreplayable-0")
    };
    at_every_step(make, try_open, |disk| {
        let slot = reopen(disk);
        assert_eq!((slot.acked, slot.next), (Fsn(0), Fsn(0)));
        let kept = disk.files("/d/sf/id.unreplayable-0");
        assert_eq!(kept, before, "every byte, and the reason");
        let names = disk.names("/d/sf");
        assert_eq!(names, [".slot-locks", "id", "id.unreplayable-0"]);
    });
}

#[test]
fn a_migration_that_dies_anywhere_can_be_repeated() {
    let make = || {
        let disk = older::legacy();
        disk.patch(&segment_path(1), |bytes| bytes[9000] = 1);
        disk.patch(&segment_path(3), |bytes| bytes[9000] = 1);
        let mut short = b"AKW1\0\0\0\0".to_vec();
        short.extend_from_slice(&5_i64.to_le_bytes());
        disk.put("/d/sf/id/.ack-watermark", &short);
        disk.settle();
        disk
    };
    at_every_step(make, try_open, |disk| {
        let slot = reopen(disk);
        assert_eq!((slot.acked, slot.next), (Fsn(6), Fsn(16)));
        assert_eq!(payloads(disk, &slot).len(), 16);
        for generation in [1, 3] {
            let copy = disk.read(&format!("{}.torn-0", segment_path(generation)));
            assert!(copy.contains(&1), "the residue is kept");
        }
        assert_no_temporaries(disk);
    });
}

#[test]
fn a_manifest_of_an_older_size_is_never_without_a_valid_record() {
    let make = || {
        let disk = four_segments();
        disk.patch("/d/sf/id/sf-manifest.bin", |bytes| {
            bytes.copy_within(4096..4160, 64);
            bytes.truncate(128);
        });
        disk.settle();
        disk
    };
    at_every_step(make, try_open, |disk| {
        assert_eq!(reopen(disk).next, Fsn(16));
        assert_no_temporaries(disk);
    });
}

#[test]
fn retiring_an_unfinished_group_may_die_anywhere() {
    let segments: &[&[bool]] = &[&[false, false, true], &[true, true], &[true], &[]];
    at_every_step(
        || {
            let disk = deferred::slot_of(segments);
            disk.settle();
            disk
        },
        try_open,
        |disk| {
            let slot = reopen(disk);
            assert_eq!((slot.acked, slot.next), (Fsn(0), Fsn(2)));
            assert_eq!(slot.dictionary.len(), 2);
            assert_eq!(payloads(disk, &slot).len(), 2);
            let copies = disk.names(SLOT);
            let copies = copies.iter().filter(|name| name.contains(".deferred-"));
            assert!(copies.count() >= 3, "every frame of the group is kept");
            assert_no_temporaries(disk);
        },
    );
}

fn assert_no_temporaries(disk: &Disk) {
    for name in disk.names(SLOT) {
        assert!(!name.ends_with(".forebay-tmp"), "{name}");
    }
}
