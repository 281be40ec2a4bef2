//! `.symbol-dict` at recovery: torn, lost, rebuilt from frames, or missing what frames need.

use std::path::Path;

use super::disk::Disk;
use super::rig::*;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::Fs;

const PATH: &str = "/d/sf/id/.symbol-dict";

/// Three frames that introduce ten symbols each.
fn three_chunks() -> (Disk, Vec<u64>) {
    let disk = Disk::new();
    let mut slot = reopen(&disk);
    let mut ends = vec![8];
    for frame in 0..3 {
        let symbols: Vec<String> = (0..10).map(|i| format!("s{frame}-{i}")).collect();
        let symbols: Vec<&str> = symbols.iter().map(String::as_str).collect();
        append_symbols(&disk, &mut slot, &symbols);
        ends.push(slot.dictionary_bytes);
    }
    (disk, ends)
}

fn assert_whole(disk: &Disk, rebuilt: u32) {
    let slot = reopen(disk);
    assert_eq!(
        (slot.dictionary.len(), slot.report.dictionary_rebuilt),
        (30, rebuilt)
    );
    assert_eq!(slot.dictionary.get(17), Some("s1-7"));
    assert_eq!(slot.dictionary_bytes, disk.read(PATH).len() as u64);
    drop(slot);
    let slot = reopen(disk);
    assert_eq!(
        (slot.dictionary.len(), slot.report.dictionary_rebuilt),
        (30, 0)
    );
    assert_eq!(slot.report.dictionary_cut_bytes, 0);
}

#[test]
fn a_file_cut_or_zeroed_at_any_byte_is_rebuilt_from_the_frames() {
    let (disk, ends) = three_chunks();
    let whole = disk.read(PATH);
    for at in 0..=whole.len() {
        let chunks = ends.iter().rposition(|end| *end <= at as u64);
        let kept = u32::try_from(chunks.unwrap_or(0)).unwrap();
        disk.put(PATH, &whole[..at]);
        assert_whole(&disk, 30 - 10 * kept);
        let mut zeroed = whole.clone();
        zeroed[at..].fill(0);
        zeroed.resize(whole.len() + 100, 0);
        disk.put(PATH, &zeroed);
        reopen(&disk);
        assert_whole(&disk, 0);
    }
}

#[test]
fn an_absent_or_random_file_is_rebuilt_when_the_frames_know_everything() {
    let (disk, _) = three_chunks();
    disk.unlink(Path::new(PATH)).unwrap();
    assert_whole(&disk, 30);
    for bytes in [
        vec![],
        vec![7],
        b"garbage that is no dictionary".to_vec(),
        vec![0; 4096],
    ] {
        disk.put(PATH, &bytes);
        assert_whole(&disk, 30);
    }
}

#[test]
fn a_broken_chunk_in_the_middle_ends_the_file_there() {
    let (disk, ends) = three_chunks();
    let at = usize::try_from(ends[1]).unwrap() + 5;
    disk.patch(PATH, |bytes| bytes[at] ^= 1);
    assert_whole(&disk, 20);
}

#[test]
fn ids_that_unacked_frames_need_and_nobody_has_set_the_slot_aside() {
    let disk = four_segments();
    let mut slot = reopen(&disk);
    ack(&disk, &mut slot, 8);
    slot.manifest.write(&disk, 8, 12).unwrap();
    drop(slot);
    reopen(&disk);
    let whole = disk.read(PATH);
    disk.unlink(Path::new(PATH)).unwrap();
    let (file, offset, told) = set_aside(&disk);
    assert_eq!(file, "sf-0000000000000002.sfa");
    assert!(offset > 24, "{offset}");
    assert!(
        told.reason.contains("frame 9:")
            && told.reason.contains("0..9")
            && told.reason.contains("0..0"),
        "{}",
        told.reason
    );
    assert_eq!(
        (told.fsns, told.frames, told.acked),
        (Some((8, 16)), 8, 9),
        "what is kept"
    );
    put_back(&disk, &told);
    // Ids below the first kept frame are enough: the rest is in the frames.
    let mut at = 8;
    for _ in 0..8 {
        at += crate::slot::chunk::parse(&whole[at..]).unwrap().len;
    }
    disk.put(PATH, &whole[..at]);
    let slot = reopen(&disk);
    assert_eq!(
        (slot.dictionary.len(), slot.report.dictionary_rebuilt),
        (16, 8)
    );
}

#[test]
fn frames_that_are_acked_may_lack_their_ids() {
    let disk = four_segments();
    let mut slot = reopen(&disk);
    slot.manifest.write(&disk, 12, 12).unwrap();
    ack(&disk, &mut slot, 15);
    drop(slot);
    disk.unlink(Path::new(PATH)).unwrap();
    let slot = reopen(&disk);
    assert_eq!(
        (slot.acked, slot.next, slot.dictionary.len()),
        (Fsn(16), Fsn(16), 0)
    );
}

#[test]
fn another_version_is_left_alone() {
    let (disk, _) = three_chunks();
    disk.patch(PATH, |bytes| bytes[4] = 3);
    assert!(matches!(refusal(&disk), Error::Unsupported { .. }));
}

#[test]
fn hostile_chunk_lengths_end_the_file_without_an_allocation() {
    let (disk, _) = three_chunks();
    for head in [
        &b"\x01\xff\xff\xff\xff\x0f"[..],
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01",
        b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x00\x05",
        b"\x05\x00",
        b"\x80",
    ] {
        let mut bytes = crate::slot::chunk::HEADER.to_vec();
        bytes.extend_from_slice(head);
        bytes.resize(4096, 0);
        disk.put(PATH, &bytes);
        assert_whole(&disk, 30);
    }
}

#[test]
fn a_chunk_larger_than_the_read_buffer_loads() {
    let disk = Disk::new();
    let mut slot = reopen(&disk);
    let symbols: Vec<String> = (0..5)
        .map(|i| format!("{i}{}", "x".repeat(700_000)))
        .collect();
    for symbol in &symbols {
        slot.dictionary.intern(symbol).unwrap();
    }
    let mut chunk = Vec::new();
    slot.dictionary.chunk(0, 5, &mut chunk);
    disk.write_at(&slot.dictionary_file, &chunk, 8).unwrap();
    append(&disk, &mut slot, &message(5, &["y"], 10));
    drop(slot);
    let slot = reopen(&disk);
    assert_eq!(
        (slot.dictionary.len(), slot.dictionary.get(4)),
        (6, Some(symbols[4].as_str()))
    );
}
