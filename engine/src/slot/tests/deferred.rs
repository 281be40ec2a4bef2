//! Frames of a transaction that was never committed, at the end of the chain.

use super::disk::Disk;
use super::rig::*;
use crate::fsn::Fsn;

/// Appends a frame that introduces `symbols` and leaves its commit to a later one.
fn append_deferred(disk: &Disk, slot: &mut crate::slot::OpenedSlot, symbols: &[&str]) {
    let mut payload = message(slot.dictionary.len(), symbols, 9);
    payload[5] |= 1;
    for symbol in symbols {
        slot.dictionary.intern(symbol).unwrap();
    }
    append(disk, slot, &payload);
}

/// A slot whose segments hold so many frames each, `true` for those that defer; symbols `s0`, `s1`,
/// ... are introduced by every frame, and are in no dictionary file.
pub(crate) fn slot_of(segments: &[&[bool]]) -> Disk {
    let disk = Disk::new();
    let mut slot = reopen(&disk);
    let mut number = 0;
    for (index, frames) in segments.iter().enumerate() {
        if index > 0 {
            rotate(&disk, &mut slot);
        }
        for deferred in *frames {
            let symbol = format!("s{number}");
            number += 1;
            if *deferred {
                append_deferred(&disk, &mut slot, &[&symbol]);
            } else {
                let payload = message(slot.dictionary.len(), &[&symbol], 9);
                append(&disk, &mut slot, &payload);
                slot.dictionary.intern(&symbol).unwrap();
            }
        }
    }
    disk
}

fn assert_retired(segments: &[&[bool]], next: u64) {
    let disk = slot_of(segments);
    let total = segments
        .iter()
        .map(|frames| frames.len() as u64)
        .sum::<u64>();
    let slot = reopen(&disk);
    assert_eq!((slot.acked, slot.next), (Fsn(0), Fsn(next)), "{segments:?}");
    assert_eq!(slot.report.deferred_frames, total - next, "{segments:?}");
    assert_eq!(u64::from(slot.dictionary.len()), next, "{segments:?}");
    let kept = payloads(&disk, &slot);
    assert_eq!(kept.len() as u64, next);
    let copied: usize = slot
        .report
        .deferred_copies
        .iter()
        .map(|copy| disk.read(&format!("{SLOT}/{copy}")).len())
        .sum();
    // Every message has the same length as long as ids and symbols are short.
    let frame = kept.first().map_or(0, |payload| payload.len() + 8);
    assert!(next == 0 || copied as u64 == (total - next) * frame as u64);
    drop(slot);
    // What is appended behind it does not bring it back.
    let mut slot = reopen(&disk);
    assert_eq!((slot.next, slot.report.deferred_frames), (Fsn(next), 0));
    let symbol = slot.dictionary.len();
    append(&disk, &mut slot, &message(symbol, &["later"], 9));
    drop(slot);
    let slot = reopen(&disk);
    assert_eq!(slot.next, Fsn(next + 1));
    assert_eq!(payloads(&disk, &slot).len() as u64, next + 1);
}

#[test]
fn crash_inside_deferred_group() {
    assert_retired(&[&[false, false, true, true]], 2);
    assert_retired(&[&[true, true, true]], 0);
    assert_retired(&[&[false, true], &[true, true]], 1);
    assert_retired(&[&[false, true], &[true], &[true, true], &[]], 1);
    assert_retired(&[&[false], &[true], &[true]], 1);
    assert_retired(&[&[true], &[true], &[true]], 0);
}

#[test]
fn a_group_that_a_later_frame_commits_stays() {
    for segments in [
        &[&[true, true, false][..]][..],
        &[&[true, true], &[true, false]],
        &[&[false, true], &[false], &[]],
    ] {
        let disk = slot_of(segments);
        let slot = reopen(&disk);
        let total = segments.iter().map(|frames| frames.len()).sum::<usize>();
        assert_eq!(slot.next, Fsn(total as u64));
        assert_eq!(slot.report.deferred_frames, 0);
        assert_eq!(slot.dictionary.len() as usize, total);
    }
}

#[test]
fn a_watermark_inside_the_group_never_covers_what_follows() {
    for last in 1..4 {
        let disk = slot_of(&[&[false, false, true, true]]);
        let mut slot = reopen(&slot_of(&[&[false, false, true, true]]));
        drop(slot.spares.pop());
        let disk_slot = {
            // The mark of a client that retires groups by acknowledging them itself.
            let record = slot.watermark.next(last, 0);
            slot.watermark.half(record)
        };
        disk.patch("/d/sf/id/.ack-watermark", |bytes| {
            let at = usize::try_from(disk_slot.0).unwrap();
            bytes[at..at + 4096].copy_from_slice(&disk_slot.1);
        });
        let mut opened = reopen(&disk);
        assert_eq!((opened.acked, opened.next), (Fsn(2), Fsn(2)), "{last}");
        assert_eq!(opened.report.watermark_refused, None);
        append(&disk, &mut opened, b"new");
        append(&disk, &mut opened, b"newer");
        drop(opened);
        let opened = reopen(&disk);
        assert_eq!((opened.acked, opened.next), (Fsn(2), Fsn(4)), "{last}");
    }
}

#[test]
fn a_group_whose_symbols_nobody_knows_does_not_matter() {
    let disk = Disk::new();
    let mut slot = reopen(&disk);
    append(&disk, &mut slot, &message(0, &["a"], 9));
    let mut lost = message(7, &["h"], 9);
    lost[5] |= 1;
    append(&disk, &mut slot, &lost);
    drop(slot);
    let slot = reopen(&disk);
    assert_eq!((slot.next, slot.dictionary.len()), (Fsn(1), 1));
    assert!(slot.report.set_aside.is_none());
}
