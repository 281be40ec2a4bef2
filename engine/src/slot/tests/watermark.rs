//! The watermark is a hint: believed where it can be true, corrected where it cannot.

use super::disk::Disk;
use super::rig::*;
use crate::fsn::Fsn;
use crate::slot::record::{Kind, Record, current};

const PATH: &str = "/d/sf/id/.ack-watermark";

fn with_watermark(last: i64) -> Disk {
    let disk = Disk::new();
    let mut slot = reopen(&disk);
    for _ in 0..5 {
        append(&disk, &mut slot, b"frame");
    }
    ack(&disk, &mut slot, last);
    disk
}

#[test]
fn values_up_to_the_last_frame_are_believed() {
    for last in -1..5 {
        let slot = reopen(&with_watermark(last));
        assert_eq!(slot.acked, Fsn(u64::try_from(last + 1).unwrap()));
        assert_eq!((slot.next, slot.report.watermark_refused), (Fsn(5), None));
    }
}

#[test]
fn values_beyond_the_last_frame_are_corrected_on_disk_before_anything_else() {
    for last in [5, 6, 1000, i64::MAX] {
        let disk = with_watermark(last);
        disk.trace();
        let slot = reopen(&disk);
        assert_eq!(
            (slot.acked, slot.report.watermark_refused),
            (Fsn(0), Some(last))
        );
        let trace = disk.trace();
        let at = trace
            .iter()
            .position(|call| call == "write .ack-watermark 0+4096")
            .unwrap();
        assert_eq!(trace[at + 1], "sync .ack-watermark");
        let record = current(&disk.read(PATH), Kind::Watermark);
        assert_eq!(
            record,
            Some(Record {
                generation: 2,
                first: -1,
                second: 0
            })
        );
        drop(slot);
        let mut slot = reopen(&disk);
        assert_eq!(slot.report.watermark_refused, None);
        for _ in 0..10 {
            append(&disk, &mut slot, b"later");
        }
        drop(slot);
        assert_eq!(
            reopen(&disk).acked,
            Fsn(0),
            "the old claim must not come true"
        );
    }
}

#[test]
fn a_value_below_the_first_segment_is_raised() {
    let disk = four_segments();
    let mut slot = reopen(&disk);
    ack(&disk, &mut slot, 2);
    slot.manifest.write(&disk, 8, 12).unwrap();
    drop(slot);
    let slot = reopen(&disk);
    assert_eq!((slot.acked, slot.report.watermark_refused), (Fsn(8), None));
}

#[test]
fn a_correction_above_the_first_segment_names_what_is_on_disk() {
    let disk = four_segments();
    let mut slot = reopen(&disk);
    slot.manifest.write(&disk, 8, 12).unwrap();
    ack(&disk, &mut slot, 99);
    drop(slot);
    let slot = reopen(&disk);
    assert_eq!((slot.acked, slot.watermark.first), (Fsn(8), 7));
}

#[test]
fn a_file_of_another_size_is_emptied_and_costs_re_sending_only() {
    for len in [0, 1, 16, 128, 8191, 8193] {
        let disk = with_watermark(3);
        disk.put(PATH, &vec![0x41; len]);
        let slot = reopen(&disk);
        assert_eq!(
            (slot.acked, slot.report.watermark_reset),
            (Fsn(0), true),
            "{len}"
        );
        assert_eq!(disk.read(PATH), vec![0; 8192]);
    }
    let disk = with_watermark(3);
    disk.put(PATH, &[0x41; 8192]);
    assert_eq!(reopen(&disk).acked, Fsn(0));
}

#[test]
fn an_absent_file_is_made_again() {
    let disk = with_watermark(3);
    crate::io::Fs::unlink(&disk, std::path::Path::new(PATH)).unwrap();
    let slot = reopen(&disk);
    assert_eq!((slot.acked, disk.read(PATH).len()), (Fsn(0), 8192));
}

#[test]
fn a_left_over_watermark_never_covers_new_frames() {
    let disk = four_segments();
    let mut slot = reopen(&disk);
    ack(&disk, &mut slot, 15);
    let left = disk.read(PATH);
    close(&disk, slot).unwrap();
    disk.put(PATH, &left);
    let mut slot = reopen(&disk);
    assert!(slot.report.fresh);
    for _ in 0..10 {
        append(&disk, &mut slot, b"new");
    }
    drop(slot);
    let slot = reopen(&disk);
    assert_eq!((slot.acked, slot.next), (Fsn(0), Fsn(10)));
}

#[test]
fn a_torn_record_leaves_the_one_before() {
    let disk = with_watermark(2);
    let mut slot = reopen(&disk);
    ack(&disk, &mut slot, 3);
    drop(slot);
    disk.patch(PATH, |bytes| bytes[20] ^= 1);
    assert_eq!(reopen(&disk).acked, Fsn(3));
}
