//! Setting a slot aside: names, reasons, locks, and who is told.

use std::path::Path;

use super::disk::Disk;
use super::rig::*;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::{Fs, OpenMode};
use crate::slot::{SlotOptions, open};

pub(crate) fn damaged() -> Disk {
    let disk = four_segments();
    disk.unlink(Path::new(&segment_path(1))).unwrap();
    disk
}

#[test]
fn the_report_says_where_it_is_and_what_is_in_it() {
    let disk = damaged();
    let mut told = set_aside(&disk).2;
    assert_eq!(told.path, Path::new("/d/sf/id.unreplayable-0"));
    assert_eq!((told.fsns, told.frames, told.acked), (Some((0, 16)), 12, 0));
    told.reason.truncate(40);
    assert_eq!(told.reason, "sf-0000000000000002.sfa at offset 8: its");
    let slot = reopen(&disk);
    assert_eq!(slot.report.set_aside, None, "told once");
    assert_eq!(slot.next, Fsn(0));
}

#[test]
fn the_lowest_free_number_is_taken_and_the_64th_slot_stays() {
    let disk = damaged();
    disk.create_dir(Path::new("/d/sf/id.unreplayable-0"))
        .unwrap();
    disk.put("/d/sf/id.unreplayable-2", b"a file has the name");
    assert!(set_aside(&disk).2.path.ends_with("id.unreplayable-1"));
    for n in 3..64 {
        disk.create_dir(Path::new(&format!("/d/sf/id.unreplayable-{n}")))
            .unwrap();
    }
    let mut slot = reopen(&disk);
    append(&disk, &mut slot, b"x");
    rotate(&disk, &mut slot);
    let first = slot.segments[0].name.clone();
    drop(slot);
    disk.unlink(&Path::new(SLOT).join(first)).unwrap();
    let error = refusal(&disk);
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("move some away"), "{error}");
}

#[test]
fn an_earlier_reason_is_kept_before_the_new_one() {
    let disk = damaged();
    disk.put("/d/sf/id/.failed", b"wire: 401");
    set_aside(&disk);
    let text = disk.read("/d/sf/id.unreplayable-0/.failed");
    assert!(text.starts_with(b"wire: 401\nsf-"));
}

#[test]
fn a_reason_alone_means_nothing_to_the_slots_own_start() {
    let disk = four_segments();
    disk.put("/d/sf/id/.failed", b"wire: 401");
    assert_eq!(reopen(&disk).next, Fsn(16));
    assert_eq!(disk.read("/d/sf/id/.failed"), b"wire: 401");
}

#[test]
fn a_lock_beside_the_slots_keeps_the_slot_where_it_is() {
    let disk = damaged();
    disk.create_dir(Path::new("/d/sf/.slot-locks")).unwrap();
    let path = Path::new("/d/sf/.slot-locks/id.lock");
    let held = disk.open(path, OpenMode::Create).unwrap();
    assert!(disk.try_lock(&held).unwrap());
    disk.put("/d/sf/.slot-locks/id.lock.pid", b"99\n");
    let error = refusal(&disk);
    assert!(
        matches!(&error, Error::Locked { holder, .. } if holder == "99"),
        "{error}"
    );
    drop(held);
    set_aside(&disk);
    let again = disk.open(path, OpenMode::Create).unwrap();
    assert!(disk.try_lock(&again).unwrap(), "free afterwards");
}

#[test]
fn a_slot_that_was_set_aside_while_its_lock_was_awaited_is_not_written_to() {
    let disk = damaged();
    let waiting = disk
        .open(&Path::new(SLOT).join(".lock"), OpenMode::Create)
        .unwrap();
    let slot = reopen(&disk);
    assert!(slot.report.set_aside.is_some());
    // The lock file went along; who has it open holds nothing of the new slot.
    assert!(disk.try_lock(&waiting).unwrap());
    assert!(
        !disk
            .is_at(&waiting, &Path::new(SLOT).join(".lock"))
            .unwrap()
    );
    assert!(matches!(open(&disk, &options()), Err(Error::Locked { .. })));
}

#[test]
fn what_would_refuse_the_fresh_slot_is_found_first() {
    let disk = damaged();
    let small = SlotOptions {
        total_bytes: 2 * SEGMENT_BYTES - 1,
        ..options()
    };
    let before = disk.files(SLOT);
    assert!(matches!(open(&disk, &small), Err(Error::Config { .. })));
    assert_eq!(disk.files(SLOT), before);
}

#[test]
fn a_directory_that_cannot_be_renamed_is_a_disk_error_and_stays_as_it_was() {
    // The reason's own rename is refused like that of the directory, so it is there beforehand.
    for earlier in [None, Some(b"wire: 401")] {
        let disk = damaged();
        if let Some(earlier) = earlier {
            disk.put("/d/sf/id/.failed", earlier);
        }
        disk.refuse(Some(("rename", libc::EACCES)));
        let error = refusal(&disk);
        assert!(matches!(error, Error::Disk { .. }), "{error}");
        assert!(error.is_retryable());
        disk.refuse(None);
        set_aside(&disk);
    }
}

#[test]
fn errors_that_may_pass_never_set_a_slot_aside() {
    for errno in [libc::EIO, libc::EACCES, libc::EMFILE, libc::ENOMEM] {
        for call in ["read", "open segment", "sync", "allocate", "syncdir"] {
            let disk = damaged();
            disk.refuse(Some((call, errno)));
            let error = refusal(&disk);
            assert!(matches!(error, Error::Disk { .. }), "{error}");
            assert!(error.is_retryable());
            assert_eq!(disk.names("/d/sf"), ["id"]);
            disk.refuse(None);
            set_aside(&disk);
        }
    }
}
