//! Field reports about recovery, each under its id.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use forebay::Error;

use crate::slots::{
    FRAME, FRAME_NEW, HEADER, Rig, dictionary, dual, frame, message, name, publish, record, segment,
};
use crate::{ALL, numbers};

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
    // Zeros from the cut on, and from the next sector on.
    for (cut, grain) in (0..=FRAME).flat_map(|cut| [(cut, 1), (cut, 512)]) {
        let zero_from = (last + cut).next_multiple_of(grain);
        let left = (zero_from - last).min(FRAME);
        let rig = one_segment(20);
        let frame = rig.read(&name(0))[last..last + FRAME].to_vec();
        rig.patch(&name(0), |bytes| bytes[zero_from..].fill(0));
        // The frame itself ends in zero bytes: losing them loses nothing.
        let whole = frame[left..].iter().all(|byte| *byte == 0);
        let torn = !whole && frame[..left].iter().any(|byte| *byte != 0);
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
fn a_file_of_zeros_that_may_have_held_frames_is_no_residue() {
    // The active segment became zeros, or lost its length: with others before it, and alone.
    for size in [256, 0, 23] {
        let rig = Rig::four_segments();
        rig.put(&name(3), &vec![0; size]);
        rig.assert_set_aside();
        let rig = one_segment(10);
        rig.put(&name(0), &vec![0; size]);
        let reason = rig.assert_set_aside();
        assert!(reason.contains("nothing but zeros"), "{reason}");
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
    for (covered, zeroed) in [(true, false), (false, false), (true, true), (false, true)] {
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
        if zeroed {
            rig.patch(".symbol-dict", |bytes| bytes[8 + 46..8 + 2 * 46].fill(0));
        } else {
            rig.set(".symbol-dict", 8 + 46 + 10, 0xFF);
        }
        if covered {
            let engine = rig.connect().unwrap();
            assert_eq!(engine.stats().symbols, 30);
        } else {
            let reason = rig.assert_set_aside();
            assert!(reason.contains("0..20"), "{reason}");
        }
    }
}
