//! Every row of the table of damages (slot-format.md section 8.2) and every field report about
//! recovery, on real files through [`Engine::connect`]: what comes of it, what is left on disk, and
//! which error.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

mod slots;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use forebay::Error;
use forebay_tests::corpus::Corpus;

use slots::{
    FRAME, FRAME_NEW, HEADER, Rig, crc32c, dictionary, dual, frame, message, name, publish, record,
    segment,
};

const ALL: std::ops::Range<u64> = 0..16;

fn numbers(range: std::ops::Range<u64>) -> Vec<u64> {
    range.collect()
}

// Rows of the table.

#[test]
fn row_no_change() {
    let rig = Rig::four_segments();
    let before = rig.files();
    let engine = rig.connect().unwrap();
    assert_eq!(engine.stats().frames_recovered, 16);
    let open = rig.files();
    for (name, bytes) in &before {
        assert_eq!(open[name], *bytes, "{name}");
    }
    assert_eq!(open[&name(4)].len(), 65_536, "a spare of the new size");
    drop(engine);
    assert_eq!(rig.drain(), numbers(ALL));
    assert!(rig.files().is_empty());
}

#[test]
fn row_one_more_frame_rotates() {
    let rig = Rig::four_segments();
    let engine = rig.connect().unwrap();
    publish(&engine, 16);
    drop(engine);
    assert_eq!(rig.read(&name(4))[8..16], 16_u64.to_le_bytes());
    let expected = record(*b"SFM1", 5, 0, 16);
    assert_eq!(rig.read("sf-manifest.bin")[4096..4160], expected);
    assert_eq!(rig.drain(), numbers(0..17));
}

#[test]
fn row_manifest_deleted() {
    let rig = Rig::four_segments();
    rig.remove("sf-manifest.bin");
    let reason = rig.assert_set_aside();
    assert!(reason.contains("demands a manifest"), "{reason}");
}

#[test]
fn row_manifest_both_records_bad() {
    let rig = Rig::four_segments();
    rig.set("sf-manifest.bin", 60, 0);
    rig.set("sf-manifest.bin", 4096 + 60, 0);
    let reason = rig.assert_set_aside();
    assert!(reason.contains("no valid record"), "{reason}");
}

#[test]
fn row_manifest_of_128_bytes() {
    let rig = Rig::four_segments();
    let mut older = record(*b"SFM1", 4, 0, 12).to_vec();
    older.extend_from_slice(&record(*b"SFM1", 3, 0, 8));
    rig.put("sf-manifest.bin", &older);
    drop(rig.connect().unwrap());
    let expected = dual(&[record(*b"SFM1", 5, 0, 12)]);
    assert_eq!(rig.read("sf-manifest.bin"), expected);
    assert_eq!(rig.drain(), numbers(ALL));
}

#[test]
fn row_head_deleted() {
    let rig = Rig::four_segments();
    rig.remove(&name(0));
    rig.assert_set_aside();
}

#[test]
fn row_middle_deleted() {
    let rig = Rig::four_segments();
    rig.remove(&name(1));
    rig.assert_set_aside();
}

#[test]
fn row_middle_magic_broken() {
    let rig = Rig::four_segments();
    rig.set(&name(1), 0, b'X');
    rig.assert_set_aside();
}

#[test]
fn row_middle_frame_byte_flipped() {
    let rig = Rig::four_segments();
    rig.set(&name(1), HEADER + 20, 0xFF);
    rig.assert_set_aside();
}

#[test]
fn row_active_deleted() {
    let rig = Rig::four_segments();
    rig.remove(&name(3));
    rig.assert_set_aside();
}

#[test]
fn row_active_header_broken() {
    for (at, byte) in [(0, b'X'), (5, 0x81), (6, 1)] {
        let rig = Rig::four_segments();
        rig.set(&name(3), at, byte);
        rig.assert_set_aside();
    }
}

#[test]
fn row_all_magics_broken() {
    let rig = Rig::four_segments();
    (0..4).for_each(|generation| rig.set(&name(generation), 0, b'X'));
    rig.assert_set_aside();
}

#[test]
fn row_all_segments_deleted() {
    let rig = Rig::four_segments();
    (0..4).for_each(|generation| rig.remove(&name(generation)));
    rig.assert_set_aside();
}

#[test]
fn row_stray_short_file() {
    let rig = Rig::four_segments();
    rig.put("zz.sfa", b"abc");
    assert_eq!(rig.drain(), numbers(ALL));
    assert_eq!(rig.files().len(), 1);
    assert_eq!(rig.read("zz.sfa"), b"abc");
}

#[test]
fn row_version_2_in_a_sealed_file() {
    let rig = Rig::four_segments();
    rig.set(&name(1), 4, 2);
    let error = rig.assert_refused();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    rig.set(&name(1), 4, 1);
    assert_eq!(rig.drain(), numbers(ALL));
}

#[test]
fn row_junk_behind_the_last_frame_of_a_sealed_file() {
    let rig = Rig::four_segments();
    rig.set(&name(1), 248, 0xAB);
    let engine = rig.connect().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.sealed_residues, stats.torn_tail_bytes), (1, 0));
    assert_eq!((stats.slots_set_aside, stats.frames_recovered), (0, 16));
    drop(engine);
    assert_eq!(rig.read(&name(1))[248..], [0; 8]);
    let copy = format!("{}.torn-0", name(1));
    assert_eq!(rig.read(&copy), [0xAB, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(rig.drain(), numbers(ALL));
    assert_eq!(rig.files().len(), 1, "the copy stays");
}

#[test]
fn row_junk_behind_the_last_frame_of_the_active() {
    let rig = Rig::four_segments();
    rig.set(&name(3), 248, 0xAB);
    let engine = rig.connect().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.torn_tail_bytes, stats.torn_tail_frames), (8, 0));
    drop(engine);
    assert_eq!(rig.read(&name(3))[248..], [0; 8]);
    assert_eq!(rig.read(&format!("{}.torn-0", name(3)))[0], 0xAB);
    assert_eq!(rig.drain(), numbers(ALL));
}

#[test]
fn row_byte_flipped_in_the_second_frame_of_the_active() {
    let rig = Rig::four_segments();
    rig.set(&name(3), HEADER + FRAME + 30, 0xFF);
    let tail = rig.read(&name(3))[HEADER + FRAME..].to_vec();
    let engine = rig.connect().unwrap();
    let stats = engine.stats();
    assert_eq!(stats.torn_tail_frames, 2, "whole frames behind the bad one");
    assert_eq!(stats.frames_recovered, 13);
    publish(&engine, 13);
    drop(engine);
    assert_eq!(rig.read(&format!("{}.torn-0", name(3))), tail);
    assert_eq!(rig.drain(), numbers(0..14));
}

#[test]
fn row_junk_far_behind_the_end_of_the_active() {
    let rig = Rig::four_segments_of(4096);
    rig.set(&name(3), 248 + 388, 0xAB);
    let engine = rig.connect().unwrap();
    assert_eq!(engine.stats().torn_tail_bytes, 4096 - 248);
    drop(engine);
    assert_eq!(rig.read(&name(3))[248..], [0; 4096 - 248]);
    assert_eq!(rig.read(&format!("{}.torn-0", name(3)))[388], 0xAB);
    assert_eq!(rig.drain(), numbers(ALL));
}

#[test]
fn row_valid_frame_of_length_zero_in_the_active() {
    let rig = Rig::four_segments();
    let empty = frame(&[]);
    assert_eq!(empty[..4], 0x4867_4BC7_u32.to_le_bytes());
    rig.patch(&name(3), |bytes| bytes[248..].copy_from_slice(&empty));
    let engine = rig.connect().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.frames_recovered, stats.slots_set_aside), (16, 0));
    drop(engine);
    assert_eq!(rig.read(&format!("{}.torn-0", name(3))), empty);
    assert_eq!(rig.drain(), numbers(ALL));
}

#[test]
fn row_dictionary_deleted() {
    let rig = Rig::four_segments();
    rig.remove(".symbol-dict");
    drop(rig.connect().unwrap());
    assert_eq!(rig.read(".symbol-dict"), dictionary(&[&["one", "two"]]));
    assert_eq!(rig.drain(), numbers(ALL));
}

#[test]
fn row_dictionary_of_version_3() {
    let rig = Rig::four_segments();
    rig.set(".symbol-dict", 4, 3);
    let error = rig.assert_refused();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn row_dictionary_chunk_broken() {
    let rig = Rig::four_segments();
    rig.set(".symbol-dict", 21, b'u');
    let tail = rig.read(".symbol-dict")[18..].to_vec();
    drop(rig.connect().unwrap());
    let healed = dictionary(&[&["one"], &["two"]]);
    assert_eq!(rig.read(".symbol-dict"), healed);
    assert_eq!(rig.read(".symbol-dict.torn-0"), tail);
    assert_eq!(rig.drain(), numbers(ALL));
}

#[test]
fn row_dictionary_deleted_and_head_trimmed() {
    let rig = Rig::four_segments();
    rig.remove(&name(0));
    rig.put("sf-manifest.bin", &dual(&[record(*b"SFM1", 5, 4, 12)]));
    rig.put(".ack-watermark", &dual(&[record(*b"AKW1", 1, 3, 0)]));
    rig.remove(".symbol-dict");
    let reason = rig.assert_set_aside();
    assert!(reason.contains("frame 4: "), "{reason}");
}

#[test]
fn row_watermark_of_16_bytes() {
    let rig = Rig::four_segments();
    let mut oldest = b"AKW1\0\0\0\0".to_vec();
    oldest.extend_from_slice(&9_i64.to_le_bytes());
    rig.put(".ack-watermark", &oldest);
    assert_eq!(rig.drain(), numbers(10..16));
}

#[test]
fn row_watermark_999() {
    let rig = Rig::four_segments();
    rig.put(".ack-watermark", &dual(&[record(*b"AKW1", 1, 999, 0)]));
    drop(rig.connect().unwrap());
    let corrected = record(*b"AKW1", 2, -1, 0);
    assert_eq!(rig.read(".ack-watermark")[..64], corrected);
    assert_eq!(rig.drain(), numbers(ALL));
}

#[test]
fn row_failed_in_the_own_slot() {
    let rig = Rig::four_segments();
    rig.put(".failed", b"wire: 401");
    assert_eq!(rig.drain(), numbers(ALL));
    assert_eq!(rig.read(".failed"), b"wire: 401");
}

#[test]
fn row_second_opener() {
    let rig = Rig::four_segments();
    let _held = rig.connect().unwrap();
    let error = rig.connect().expect_err("held");
    let own = std::process::id().to_string();
    assert!(
        matches!(&error, Error::Locked { holder, .. } if *holder == own),
        "{error}"
    );
    assert!(error.is_retryable());
}

#[test]
fn row_nothing_published_and_closed() {
    let rig = Rig::empty();
    rig.connect().unwrap().close().unwrap();
    assert!(rig.files().is_empty());
}

#[test]
fn row_siblings_are_left_alone() {
    let rig = Rig::four_segments();
    let sibling = rig.sf_dir().join("other");
    let aside = rig.aside();
    for dir in [&sibling, &aside] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join(name(0)), segment(3, 256, &[])).unwrap();
    }
    let before = (slots::files(&sibling), slots::files(&aside));
    assert_eq!(rig.drain(), numbers(ALL));
    assert_eq!((slots::files(&sibling), slots::files(&aside)), before);
}

// Older forms and unfinished transactions.

#[test]
fn a_chain_without_a_manifest_is_migrated() {
    let rig = Rig::four_segments();
    for generation in 0..4 {
        rig.set(&name(generation), 5, 0);
    }
    fs::rename(rig.slot().join(name(0)), rig.slot().join("sf-initial.sfa")).unwrap();
    rig.remove("sf-manifest.bin");
    rig.remove(".ack-watermark");
    drop(rig.connect().unwrap());
    let made = dual(&[record(*b"SFM1", 1, 0, 12)]);
    assert_eq!(rig.read("sf-manifest.bin"), made);
    assert_eq!(rig.read("sf-initial.sfa")[5], 1);
    assert_eq!(rig.drain(), numbers(ALL));
    assert!(rig.files().is_empty());
}

#[test]
fn a_transaction_without_its_commit_is_never_sent() {
    let rig = Rig::four_segments();
    let deferred = |number| {
        let mut message = message(number, 2, None);
        message[5] |= 1;
        frame(&message)
    };
    let frames = [frame(&Rig::message(12)), deferred(13), deferred(14)];
    rig.put(&name(3), &segment(12, 256, &frames));
    let rows = rig.drain_after(|engine| {
        let stats = engine.stats();
        assert_eq!(stats.deferred_frames_retired, 2);
        assert_eq!(stats.frames_recovered, 13);
        publish(engine, 15);
    });
    assert_eq!(rows, [numbers(0..13), vec![15]].concat());
    let copy = rig.read(&format!("{}.deferred-0", name(3)));
    assert_eq!(copy, frames[1..].concat());
}

#[test]
fn a_slot_from_another_host_is_recognised_and_opens() {
    let rig = Rig::four_segments();
    drop(rig.connect().unwrap());
    let text = String::from_utf8(rig.read(".slot-id")).unwrap();
    let host = text.lines().find(|line| line.starts_with("host=")).unwrap();
    rig.put(".slot-id", text.replace(host, "host=elsewhere.").as_bytes());
    let engine = rig.connect().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.slot_host_changes, stats.slot_reboots), (1, 0));
    drop(engine);
    assert_eq!(String::from_utf8(rig.read(".slot-id")).unwrap(), text);
    let boot = text.lines().find(|line| line.starts_with("boot=")).unwrap();
    rig.put(".slot-id", text.replace(boot, "boot=earlier").as_bytes());
    let stats = rig.connect().unwrap().stats();
    assert_eq!((stats.slot_host_changes, stats.slot_reboots), (0, 1));
    assert_eq!(rig.drain(), numbers(ALL));
}

// Field reports, each under its id.

/// One segment of 64 KiB with so many frames; the first two bring the symbols.
fn one_segment(frames: u64) -> Rig {
    let rig = Rig::empty();
    let frames: Vec<_> = (0..frames).map(|fsn| frame(&Rig::message(fsn))).collect();
    rig.put(&name(0), &segment(0, 65_536, &frames));
    rig.put("sf-manifest.bin", &dual(&[record(*b"SFM1", 1, 0, 0)]));
    rig
}

/// Where frame `n` of such a segment begins.
fn start_of(n: usize) -> usize {
    HEADER + FRAME_NEW * n.min(2) + FRAME * n.saturating_sub(2)
}

#[test]
fn torn_tail_every_cut() {
    let last = start_of(19);
    for cut in 0..=FRAME {
        let rig = one_segment(20);
        let frame = rig.read(&name(0))[last..last + FRAME].to_vec();
        rig.patch(&name(0), |bytes| bytes[last + cut..].fill(0));
        // The frame itself ends in zero bytes: losing them loses nothing.
        let whole = frame[cut..].iter().all(|byte| *byte == 0);
        let torn = !whole && frame[..cut].iter().any(|byte| *byte != 0);
        let engine = rig.connect().unwrap();
        let stats = engine.stats();
        assert_eq!(stats.torn_tail_bytes > 0, torn, "cut {cut}");
        let kept = if whole { 20 } else { 19 };
        assert_eq!(stats.frames_recovered, kept, "cut {cut}");
        drop(engine);
        let copy = rig.slot().join(format!("{}.torn-0", name(0)));
        assert_eq!(copy.exists(), torn, "cut {cut}");
    }
}

#[test]
fn append_after_torn() {
    let rig = one_segment(10);
    rig.patch(&name(0), |bytes| bytes[start_of(9) + 28..].fill(0));
    let engine = rig.connect().unwrap();
    for number in 9..14 {
        publish(&engine, number);
    }
    drop(engine);
    let engine = rig.connect().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.frames_recovered, stats.torn_tail_bytes), (14, 0));
    drop(engine);
    assert_eq!(rig.drain(), numbers(0..14));
}

#[test]
fn gap_at_exact_boundary() {
    let rig = Rig::four_segments();
    rig.patch(&name(0), |bytes| bytes[start_of(3)..].fill(0));
    let reason = rig.assert_set_aside();
    assert!(reason.contains("expected 3"), "{reason}");
}

#[test]
fn middle_file_deleted() {
    let rig = Rig::four_segments();
    rig.remove(&name(2));
    rig.put(".ack-watermark", &dual(&[record(*b"AKW1", 1, 9, 0)]));
    rig.assert_set_aside();
}

#[test]
fn unreadable_is_not_corrupt() {
    // A process that runs out of descriptors at one call after the other of opening the slot.
    let rig = Rig::four_segments();
    let mut failed = 0;
    for limit in 4..13 {
        let before = rig.files();
        let output = Command::new("sh")
            .args(["-c", "ulimit -n $0; exec \"$@\"", &limit.to_string()])
            .arg(env!("CARGO_BIN_EXE_loadgen_under_test"))
            .args(["replay", "--drain-only", "--conf"])
            .arg(rig.offline().replace("retry=async", "retry=off"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!rig.aside().exists(), "{limit} descriptors: {text}");
        if text.contains("(os error 24)") {
            failed += 1;
            let after = rig.files();
            let kept = before.iter().all(|(name, bytes)| {
                // A start that got as far as that has replaced the spare.
                after.get(name) == Some(bytes) || bytes[HEADER..].iter().all(|byte| *byte == 0)
            });
            assert!(kept, "{limit} descriptors: {text}");
        }
    }
    assert!(failed > 5, "{failed} starts ran out of descriptors");
    // What may not be read is refused for anybody but root.
    let path = rig.slot().join(name(1));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_err() {
        let error = rig.connect().expect_err("not readable");
        assert!(matches!(error, Error::Disk { .. }) && error.is_retryable());
        assert!(!rig.aside().exists());
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(rig.drain(), numbers(ALL));
}

#[test]
fn all_segments_bad_keeps_dict() {
    for with_manifest in [true, false] {
        let rig = Rig::four_segments();
        for generation in 0..4 {
            rig.set(&name(generation), 0, b'X');
        }
        if !with_manifest {
            rig.remove("sf-manifest.bin");
        }
        rig.assert_set_aside();
        let kept = fs::read(rig.aside().join(".symbol-dict")).unwrap();
        assert_eq!(kept, dictionary(&[&["one"], &["two"]]));
    }
}

#[test]
fn sparse_recovered_segment() {
    let rig = one_segment(20);
    let path = rig.slot().join(name(0));
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(4096).unwrap();
    file.set_len(1 << 20).unwrap();
    file.sync_all().unwrap();
    assert!(fs::metadata(&path).unwrap().blocks() < 2048, "has holes");
    let engine = rig.connect().unwrap();
    assert!(fs::metadata(&path).unwrap().blocks() >= 2048, "reserved");
    drop(engine);
    assert_eq!(rig.drain(), numbers(0..20));
}

#[test]
fn hostile_length() {
    let (at, left) = (
        start_of(5),
        65_536 - u32::try_from(start_of(5)).unwrap() - 8,
    );
    for length in [0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, left, left + 1] {
        let rig = one_segment(10);
        rig.patch(&name(0), |bytes| {
            bytes[at + 4..at + 8].copy_from_slice(&length.to_le_bytes());
        });
        let engine = rig.connect().unwrap();
        let stats = engine.stats();
        assert_eq!(stats.frames_recovered, 5, "{length:#x}");
        assert_eq!(stats.torn_tail_frames, 4, "{length:#x}");
    }
}

#[test]
fn prealloc_before_header() {
    for size in [4 << 20, 0, 23] {
        let rig = Rig::four_segments();
        rig.put(&name(4), &vec![0; size]);
        assert_eq!(rig.drain(), numbers(ALL));
        assert!(rig.files().is_empty(), "nothing is quarantined");
    }
}

#[test]
fn zero_byte_sidefiles() {
    let junk: [&[u8]; 3] = [b"", b"\x07", b"no such thing, and not short either"];
    for file in [".ack-watermark", ".symbol-dict", ".lock.pid"] {
        for bytes in junk {
            let rig = Rig::four_segments();
            rig.put(file, bytes);
            rig.put(".ack-watermark.tmp", bytes);
            assert_eq!(rig.drain(), numbers(ALL), "{file} {bytes:?}");
            assert_eq!(rig.read(".ack-watermark.tmp"), bytes);
        }
    }
}

#[test]
fn trim_crash_window() {
    // The acknowledgement of 0 to 8 was seen; two segments go, in this order of steps.
    let steps: [&dyn Fn(&Rig); 4] = [
        &|rig| rig.put(".ack-watermark", &dual(&[record(*b"AKW1", 1, 8, 0)])),
        &|rig| rig.put("sf-manifest.bin", &dual(&[record(*b"SFM1", 5, 8, 12)])),
        &|rig| rig.remove(&name(0)),
        &|rig| rig.remove(&name(1)),
    ];
    for died_after in 0..=steps.len() {
        let rig = Rig::four_segments();
        steps[..died_after].iter().for_each(|step| step(&rig));
        let from = if died_after == 0 { 0 } else { 9 };
        assert_eq!(rig.drain(), numbers(from..16), "after {died_after} steps");
    }
}

#[test]
fn watermark_past_end() {
    for (last, first) in [(15, 16), (16, 0), (1000, 0), (i64::MAX, 0), (-5, 0)] {
        let rig = Rig::four_segments();
        rig.put(".ack-watermark", &dual(&[record(*b"AKW1", 1, last, 0)]));
        assert_eq!(rig.drain(), numbers(first..16), "{last}");
    }
}

#[test]
fn drained_then_resent() {
    let rig = one_segment(10);
    assert_eq!(rig.drain(), numbers(0..10));
    for _ in 0..3 {
        assert!(rig.files().is_empty());
        assert_eq!(rig.drain(), numbers(0..0));
    }
}

#[test]
fn old_watermark_format() {
    let rig = one_segment(50);
    let mut oldest = b"AKW1\x01\0\0\0".to_vec();
    oldest.extend_from_slice(&30_i64.to_le_bytes());
    rig.put(".ack-watermark", &oldest);
    assert_eq!(rig.drain(), numbers(31..50));
    let rig = one_segment(50);
    let mut torn = dual(&[record(*b"AKW1", 1, 30, 0), record(*b"AKW1", 2, 35, 0)]);
    torn[20] ^= 1;
    rig.put(".ack-watermark", &torn);
    assert_eq!(rig.drain(), numbers(31..50));
}

#[test]
fn foreign_files_in_dir() {
    let rig = Rig::four_segments();
    let slot = rig.slot();
    rig.put("sf-1.sfa", b"not a segment");
    rig.put("sf-000000000000000G.sfa", b"nor this");
    for dir in ["rejected", "lost+found", "sf-00000000000000aa.sfa"] {
        fs::create_dir(slot.join(dir)).unwrap();
        fs::write(slot.join(dir).join("x"), b"x").unwrap();
    }
    let link = slot.join("sf-00000000000000bb.sfa");
    std::os::unix::fs::symlink("/nowhere", &link).unwrap();
    assert_eq!(rig.drain(), numbers(ALL));
    assert_eq!(rig.read("sf-1.sfa"), b"not a segment");
    assert_eq!(rig.read("sf-000000000000000G.sfa"), b"nor this");
    assert!(link.is_symlink());
    for dir in ["rejected", "lost+found", "sf-00000000000000aa.sfa"] {
        assert_eq!(fs::read(slot.join(dir).join("x")).unwrap(), b"x");
    }
}

#[test]
fn watermark_outlives_drain() {
    let rig = one_segment(10);
    assert_eq!(rig.drain(), numbers(0..10));
    rig.put(".ack-watermark", &dual(&[record(*b"AKW1", 1, 9, 0)]));
    let engine = rig.connect().unwrap();
    (0..10).for_each(|number| publish(&engine, number * 2 + 2));
    drop(engine);
    let expected: Vec<u64> = (0..10).map(|number| number * 2 + 2).collect();
    assert_eq!(rig.drain(), expected);
}

#[test]
fn dict_interior_chunk() {
    let symbols = |chunk: u8| -> Vec<String> {
        (0..10)
            .map(|n| format!("{}{n}x", char::from(b'a' + chunk)))
            .collect()
    };
    let all: Vec<Vec<String>> = (0..3).map(symbols).collect();
    let chunks: Vec<Vec<&str>> = all
        .iter()
        .map(|chunk| chunk.iter().map(String::as_str).collect())
        .collect();
    let chunks: Vec<&[&str]> = chunks.iter().map(Vec::as_slice).collect();
    for covered in [true, false] {
        let rig = Rig::empty();
        // Frame 0 leans on ids 0 to 29 of the file; frame 1 brings everything, if it does.
        let first = if covered { 10 } else { 20 };
        let mut delta = vec![first, 30 - first];
        for symbol in all.concat().iter().skip(usize::from(first)) {
            delta.push(3);
            delta.extend_from_slice(symbol.as_bytes());
        }
        let plain = message(0, 0, None);
        let mut bytes = plain[..12].to_vec();
        bytes.extend_from_slice(&delta);
        bytes.extend_from_slice(&plain[14..]);
        let len = u32::try_from(bytes.len() - 12).unwrap();
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        rig.put(&name(0), &segment(0, 65_536, &[frame(&bytes)]));
        rig.put("sf-manifest.bin", &dual(&[record(*b"SFM1", 1, 0, 0)]));
        let whole = dictionary(&chunks);
        rig.put(".symbol-dict", &whole);
        rig.set(".symbol-dict", 8 + 46 + 10, 0xFF);
        if covered {
            let engine = rig.connect().unwrap();
            assert_eq!(engine.stats().symbols, 30);
        } else {
            let reason = rig.assert_set_aside();
            assert!(reason.contains("0..20"), "{reason}");
        }
    }
}

#[test]
fn the_helpers_make_the_bytes_of_the_specification() {
    assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    assert_eq!(Rig::message(0).len() + 8, FRAME_NEW);
    assert_eq!(Rig::message(2).len() + 8, FRAME);
    let crc = |record: [u8; 64]| record[60..].to_vec();
    let expected = [0x1c, 0x79, 0x2e, 0xbd];
    assert_eq!(crc(record(*b"SFM1", 2, 42, 100)), expected);
    let rig = Rig::four_segments();
    let ends: Vec<usize> = (0..4)
        .map(|generation| {
            let bytes = rig.read(&name(generation));
            bytes.iter().rposition(|byte| *byte != 0).unwrap() / 8 * 8 + 8
        })
        .collect();
    assert_eq!(ends, [256, 248, 248, 248]);
}

// Real slots.

/// The slots that official clients left, with how many frames each has unacked.
fn corpus_slots() -> Vec<(String, Rig, u64)> {
    let corpus = Corpus::open().unwrap();
    let mut found = Vec::new();
    for client in fs::read_dir(corpus.slots()).unwrap() {
        let client = client.unwrap().path();
        if !client.is_dir() {
            continue;
        }
        for scenario in fs::read_dir(&client).unwrap() {
            let scenario = scenario.unwrap().path();
            let text = fs::read_to_string(scenario.join("expected.json")).unwrap();
            let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
            for slot in fs::read_dir(scenario.join("sf")).unwrap() {
                let slot = slot.unwrap().path();
                let expected = &expected[slot.file_name().unwrap().to_str().unwrap()];
                let rig = Rig::empty();
                rig.copy_in(&slot);
                found.push((slot.display().to_string(), rig, unacked(expected)));
            }
        }
    }
    found
}

fn unacked(expected: &serde_json::Value) -> u64 {
    let fsns = expected["messages"].as_array().into_iter().flatten();
    let acked = expected["ack_watermark"]["current"]["acked_fsn"].as_i64();
    let acked = acked.unwrap_or(-1);
    fsns.filter(|message| message["fsn"].as_i64().unwrap() > acked)
        .count() as u64
}

#[test]
fn real_slots_open_and_only_the_one_without_its_symbols_is_set_aside() {
    let slots = corpus_slots();
    assert!(slots.len() > 40, "{}", slots.len());
    let mut aside = 0;
    for (path, rig, unacked) in &slots {
        let lost = path.contains("n_dictionary_lost_failed/sf/cap");
        if lost {
            aside += 1;
            let earlier = rig.read(".failed");
            let engine = rig.connect().unwrap();
            let told = engine.set_aside().expect("set aside");
            assert!(told.reason.contains("symbol ids"), "{}", told.reason);
            let reason = fs::read(told.path.join(".failed")).unwrap();
            assert!(reason.starts_with(&earlier), "the earlier reason stays");
            continue;
        }
        let engine = rig
            .connect()
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let stats = engine.stats();
        assert_eq!(stats.slots_set_aside, 0, "{path}");
        assert_eq!(stats.frames_recovered, *unacked, "{path}");
    }
    println!("{} real slots, {aside} set aside", slots.len());
}
