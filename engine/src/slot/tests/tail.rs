//! The end of data: torn tails at every byte, hostile lengths, planted bytes, long frames.

use proptest::prelude::*;

use super::disk::Disk;
use super::rig::*;
use crate::fsn::Fsn;
use crate::slot::frame::crc_of_length;
use crate::slot::open;

fn slot_with(payloads: &[Vec<u8>]) -> (Disk, Vec<usize>) {
    let disk = Disk::new();
    let mut slot = reopen(&disk);
    let mut ends = vec![24];
    for payload in payloads {
        append(&disk, &mut slot, payload);
        ends.push(usize::try_from(slot.segments[0].end).unwrap());
    }
    (disk, ends)
}

#[test]
fn a_tail_torn_at_any_byte_costs_only_the_torn_frame() {
    let (disk, ends) = slot_with(&vec![vec![7; 300]; 100]);
    let path = segment_path(0);
    let whole = disk.read(&path);
    let last = ends[99];
    for cut in 0..=308 {
        for zero_from in [last + cut, (last + cut).next_multiple_of(512)] {
            disk.patch(&path, |bytes| {
                bytes.clone_from(&whole);
                bytes[zero_from..].fill(0);
            });
            let slot = reopen(&disk);
            let left = zero_from.saturating_sub(last).min(308);
            assert_eq!(
                slot.next,
                Fsn(if left == 308 { 100 } else { 99 }),
                "cut {cut}"
            );
            // The CRC may itself hold zero bytes, so count what is really there.
            let torn =
                (1..308).contains(&left) && whole[last..last + left].iter().any(|byte| *byte != 0);
            assert_eq!(slot.report.torn_tail_bytes > 0, torn, "cut {cut}");
            payloads(&disk, &slot);
        }
    }
}

#[test]
fn appending_after_a_torn_tail_leaves_nothing_of_it() {
    let (disk, ends) = slot_with(&vec![vec![9; 1000]; 10]);
    disk.patch(&segment_path(0), |bytes| bytes[ends[9] + 500..].fill(0));
    let mut slot = reopen(&disk);
    assert_eq!(
        (slot.next, slot.report.torn_tail_bytes),
        (Fsn(9), 65_536 - ends[9] as u64)
    );
    let mut expected = payloads(&disk, &slot);
    for len in [1, 5, 4096, 33, 700] {
        append(&disk, &mut slot, &vec![3; len]);
        expected.push(vec![3; len]);
    }
    drop(slot);
    let slot = reopen(&disk);
    assert_eq!((slot.next, slot.report.torn_tail_bytes), (Fsn(14), 0));
    assert_eq!(payloads(&disk, &slot), expected);
}

#[test]
fn hostile_lengths_end_the_scan() {
    let (disk, ends) = slot_with(&vec![vec![1; 50]; 8]);
    let path = segment_path(0);
    let whole = disk.read(&path);
    let left = u32::try_from(whole.len() - ends[5] - 8).unwrap();
    for len in [
        0,
        1,
        49,
        51,
        0x7FFF_FFFF,
        0x8000_0000,
        0xFFFF_FFFF,
        left,
        left + 1,
    ] {
        // With the CRC that was there, and with the one that an empty payload would have.
        for crc in [None, Some(crc_of_length(len))] {
            disk.patch(&path, |bytes| {
                bytes.clone_from(&whole);
                bytes[ends[5] + 4..ends[5] + 8].copy_from_slice(&len.to_le_bytes());
                if let Some(crc) = crc {
                    bytes[ends[5]..ends[5] + 4].copy_from_slice(&crc.to_le_bytes());
                }
            });
            let slot = reopen(&disk);
            assert_eq!(slot.next, Fsn(5), "length {len:#x}");
            payloads(&disk, &slot);
        }
    }
}

#[test]
fn the_largest_frame_fits_and_a_gap_of_less_than_a_header_is_clean() {
    for spare_bytes in 0..9 {
        let len = usize::try_from(SEGMENT_BYTES).unwrap() - 32 - spare_bytes;
        let (disk, _) = slot_with(&[vec![1; len]]);
        let slot = reopen(&disk);
        assert_eq!(
            (slot.next, slot.report.torn_tail_bytes),
            (Fsn(1), 0),
            "{spare_bytes}"
        );
    }
}

#[test]
fn a_frame_planted_far_behind_the_end_is_wiped_and_never_adopted() {
    let (disk, ends) = slot_with(&[vec![1; 100], vec![2; 100]]);
    let planted = frame(&[0xEE; 100]);
    let at = ends[2] + 108;
    disk.patch(&segment_path(0), |bytes| {
        bytes[at..at + 108].copy_from_slice(&planted);
    });
    let mut slot = reopen(&disk);
    assert_eq!(slot.report.torn_tail_bytes, 65_536 - ends[2] as u64);
    append(&disk, &mut slot, &[3; 100]);
    drop(slot);
    let slot = reopen(&disk);
    assert_eq!(
        payloads(&disk, &slot),
        [vec![1; 100], vec![2; 100], vec![3; 100]]
    );
}

#[test]
fn frames_longer_than_the_read_buffer_are_scanned_and_folded() {
    let disk = Disk::new();
    let big = crate::slot::SlotOptions {
        segment_bytes: 8 << 20,
        total_bytes: 1 << 30,
        ..options()
    };
    let mut slot = open(&disk, &big).unwrap();
    append(&disk, &mut slot, &message(0, &["a"], 100));
    append(
        &disk,
        &mut slot,
        &message(1, &["b", &"c".repeat(1 << 20)], 3 << 20),
    );
    append(&disk, &mut slot, &message(3, &["d"], 1 << 20));
    let end = slot.segments[0].end;
    drop(slot);
    let slot = open(&disk, &big).unwrap();
    assert_eq!((slot.next, slot.dictionary.len()), (Fsn(3), 4));
    assert_eq!(
        (slot.segments[0].end, slot.dictionary.get(3)),
        (end, Some("d"))
    );
    drop(slot);
    disk.patch(&segment_path(0), |bytes| bytes[3 << 20] ^= 1);
    let slot = open(&disk, &big).unwrap();
    assert_eq!(
        (slot.next, slot.dictionary.len()),
        (Fsn(1), 4),
        "ids stay, the frame does not"
    );
    assert!(slot.report.torn_tail_bytes > 0);
}

#[test]
fn segments_of_any_size_open() {
    for size in [200_usize, 1000, 5001, 8192, 65_537] {
        let (disk, ends) = slot_with(&[vec![1; 40], vec![2; 40]]);
        disk.patch(&segment_path(0), |bytes| bytes.resize(size, 0));
        let slot = reopen(&disk);
        let active = &slot.segments[0];
        assert_eq!((active.bytes, active.end), (size as u64, ends[2] as u64));
        assert_eq!((slot.next, slot.spares[0].bytes), (Fsn(2), SEGMENT_BYTES));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn recovery_yields_exactly_the_valid_prefix(
        lens in prop::collection::vec(1_usize..900, 1..40),
        cut in 0..1000_usize,
        zeroed in any::<bool>(),
        flip in any::<Option<u8>>(),
    ) {
        let payloads_in: Vec<Vec<u8>> =
            lens.iter().enumerate().map(|(i, len)| vec![u8::try_from(i % 255).unwrap() + 1; *len])
                .collect();
        let (disk, ends) = slot_with(&payloads_in);
        let end = *ends.last().unwrap();
        let at = 24 + (end - 24) * cut / 1000;
        disk.patch(&segment_path(0), |bytes| match flip {
            Some(mask) if mask != 0 => bytes[at] ^= mask,
            _ if zeroed => bytes[at..].fill(0),
            _ => bytes.truncate(at.max(24)),
        });
        // No byte of a frame's payload is zero, so each of these destroys the frame it hits.
        let intact = ends.iter().rposition(|end| *end <= at).unwrap();
        let slot = reopen(&disk);
        prop_assert_eq!(slot.next, Fsn(intact as u64));
        prop_assert_eq!(payloads(&disk, &slot), payloads_in[..intact].to_vec());
        drop(slot);
        let again = reopen(&disk);
        prop_assert_eq!((again.next, again.report.torn_tail_bytes), (Fsn(intact as u64), 0));
    }
}
