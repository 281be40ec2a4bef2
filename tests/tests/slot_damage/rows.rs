//! Rows of the table of damages, slot-format.md section 8.2.

use std::fs;

use forebay::Error;

use crate::slots::{
    self, FRAME, HEADER, Rig, dictionary, dual, frame, name, publish, record, segment,
};
use crate::{ALL, numbers};

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
