//! Slots that are read in many pieces, ahead, by a second thread.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::disk::Disk;
use super::rig::*;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::slot::pieces::PIECE_BYTES;
use crate::slot::segment::SegmentHeader;
use crate::slot::supply::AHEAD_BYTES;
use crate::slot::{RecoveryProgress, SlotOptions, open};

/// A file of a chain of the older form, which needs no manifest.
fn put(disk: &Disk, generation: u64, base: u64, frames: &[Vec<u8>], spare_bytes: usize) {
    let header = SegmentHeader {
        manifest_required: false,
        base: Fsn(base),
        created_micros: 0,
    };
    let mut bytes = header.to_bytes().to_vec();
    for payload in frames {
        bytes.extend_from_slice(&frame(payload));
    }
    bytes.resize(bytes.len() + spare_bytes, 0);
    disk.put(&segment_path(generation), &bytes);
}

fn empty_slot() -> Disk {
    let disk = Disk::new();
    for dir in ["/d/sf", SLOT] {
        crate::io::Fs::create_dir(&disk, dir.as_ref()).unwrap();
    }
    disk
}

/// Frames of all lengths up to `longest`, which lie across the borders of pieces everywhere.
fn payloads_of(seed: u64, count: u64, longest: u64) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    let payload = |_| {
        let byte = u8::try_from(random() % 256).unwrap();
        vec![byte; 1 + usize::try_from(random() % longest).unwrap()]
    };
    (0..count).map(payload).collect()
}

fn options_with(progress: &RecoveryProgress) -> SlotOptions {
    SlotOptions {
        total_bytes: 1 << 30,
        progress: progress.clone(),
        ..options()
    }
}

/// Four files of odd sizes, 13 MB together.
fn large_slot() -> (Disk, Vec<Vec<u8>>, u64) {
    let disk = empty_slot();
    let mut all = Vec::new();
    for generation in 0..4u32 {
        let mut frames = payloads_of(generation.into(), 60, 90_000);
        let name = format!("symbol {generation}");
        frames.push(message(generation, &[&name], 2 * PIECE_BYTES));
        put(&disk, generation.into(), all.len() as u64, &frames, 12_345);
        all.extend(frames);
    }
    let bytes = disk
        .files(SLOT)
        .values()
        .map(|file| file.len() as u64)
        .sum();
    (disk, all, bytes)
}

#[test]
fn a_slot_of_many_pieces_is_recovered_frame_by_frame_and_counted() {
    let (disk, expected, bytes) = large_slot();
    let progress = RecoveryProgress::new();
    let slot = open(&disk, &options_with(&progress)).unwrap();
    assert_eq!((slot.next, slot.dictionary.len()), (Fsn(244), 4));
    assert_eq!(slot.report.frames, 244);
    assert_eq!(payloads(&disk, &slot), expected);
    assert_eq!(
        (progress.bytes_total(), progress.segments_total()),
        (bytes, 4)
    );
    assert_eq!(
        (progress.bytes_scanned(), progress.segments_scanned()),
        (bytes, 4)
    );
}

#[test]
fn every_small_size_of_the_last_piece_is_read_to_its_end() {
    for spare in [0, 7, 9, 4096] {
        let disk = empty_slot();
        let frames = vec![vec![5; PIECE_BYTES - 24 - 8], vec![6; 3], vec![7; 9 << 20]];
        put(&disk, 0, 0, &frames, spare);
        let slot = reopen(&disk);
        assert_eq!(slot.next, Fsn(3), "{spare} bytes");
        assert_eq!(payloads(&disk, &slot), frames);
    }
}

#[test]
fn a_damaged_long_frame_is_the_end_of_data_and_kept_aside() {
    for whole_bytes in [1000, 9 << 20] {
        let disk = empty_slot();
        let frames = [
            vec![1; whole_bytes],
            vec![0; 3 * PIECE_BYTES],
            message(0, &[], 40),
        ];
        put(&disk, 0, 0, &frames, 5000);
        let end = 24 + 8 + whole_bytes;
        let damaged = end + 8 + PIECE_BYTES + 77;
        disk.patch(&segment_path(0), |bytes| bytes[damaged] = 1);
        let before = disk.read(&segment_path(0));
        let slot = reopen(&disk);
        assert_eq!(slot.next, Fsn(1));
        let [torn] = slot.report.torn.as_slice() else {
            panic!("{:?}", slot.report)
        };
        assert_eq!((torn.bytes, torn.frames), ((before.len() - end) as u64, 1));
        assert_eq!(disk.read(&format!("{SLOT}/{}", torn.copy)), before[end..]);
        payloads(&disk, &slot);
    }
}

#[test]
fn a_filesystem_without_direct_reads_is_read_through_the_cache() {
    let (disk, expected, _) = large_slot();
    disk.refuse(Some(("direct read", libc::EINVAL)));
    let slot = reopen(&disk);
    assert_eq!(payloads(&disk, &slot), expected);
}

#[test]
fn a_failing_read_in_the_middle_is_a_disk_error_and_changes_nothing() {
    let (disk, ..) = large_slot();
    disk.refuse(Some(("direct read", libc::EIO)));
    // This one makes the lock files.
    open(&disk, &options()).expect_err("a failing disk");
    match refusal(&disk) {
        Error::Disk { op, source, .. } => {
            assert_eq!((op, source.raw_os_error()), ("read", Some(libc::EIO)));
        }
        other => panic!("{other}"),
    }
    disk.refuse(None);
    assert_eq!(reopen(&disk).next, Fsn(244));
}

#[test]
fn another_thread_sees_a_slow_recovery_move() {
    let disk = empty_slot();
    for generation in 0..4 {
        let payload = vec![3; 3 * AHEAD_BYTES - 32];
        put(&disk, generation, generation, &[payload], 0);
    }
    let (go, gate) = channel();
    let gate = Mutex::new(gate);
    disk.before_pieces(move || gate.lock().unwrap().recv().unwrap());
    let progress = RecoveryProgress::new();
    let options = options_with(&progress);
    let pieces = || progress.bytes_scanned() / AHEAD_BYTES as u64;
    std::thread::scope(|scope| {
        // Dropped with this closure, so that a failed assertion leaves nobody waiting.
        let go = go;
        let opening = scope.spawn(|| open(&disk, &options).unwrap());
        let until = Instant::now() + Duration::from_secs(30);
        for allowed in 1..=12u64 {
            go.send(()).unwrap();
            // One of the two threads may be up to three pieces ahead of the other.
            let least = if allowed == 12 {
                12
            } else {
                allowed.saturating_sub(3)
            };
            while pieces() < least {
                assert!(Instant::now() < until, "stuck before piece {allowed}");
                std::thread::yield_now();
            }
            assert!(pieces() <= allowed);
            let known = pieces() == 0 || progress.bytes_total() == 12 * AHEAD_BYTES as u64;
            assert!(known && progress.segments_scanned() <= pieces() / 3);
            assert!(allowed == 12 || progress.scan_nanos() == 0);
        }
        assert_eq!(opening.join().unwrap().next, Fsn(4));
    });
    assert_eq!(progress.segments_scanned(), 4);
}

#[test]
fn many_segments_are_synced_together_and_before_they_are_read() {
    // The spare of the first open is one more.
    for (count, together) in [(63, false), (64, true)] {
        let disk = empty_slot();
        for generation in 0..count {
            put(&disk, generation, generation, &[vec![3; 100]], 0);
        }
        // With a manifest only the active segment may have writes in flight.
        drop(reopen(&disk));
        disk.restart();
        disk.trace();
        drop(reopen(&disk));
        let trace = disk.trace();
        let of = |call: &str| trace.iter().filter(|line| line.starts_with(call)).count();
        let at = |text: String| trace.iter().position(|line| *line == text);
        let name = |generation: u64| format!("sf-{generation:016x}.sfa");
        assert_eq!(of("syncfs"), usize::from(together), "{count} segments");
        assert_eq!(at(format!("sync {}", name(3))).is_some(), !together);
        let active = at(format!("sync {}", name(count - 1))).expect("in any case");
        if let Some(all) = at("syncfs ".to_owned()) {
            assert!(all < active, "the last sync flushes the disk's cache");
        }
    }
}
