//! What `verify` says of sound, damaged and unknown slots, with file, offset and exit status.

#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

mod support;

use std::fs;
use std::path::Path;

use support::{Ran, contents, corpus, file, forebay, frame, record, segment, settle, slot_of};

type Files = Vec<(String, Vec<u8>)>;

const FIRST: &str = "sf-0000000000000000.sfa";
const SECOND: &str = "sf-0000000000000001.sfa";
const MANIFEST: &str = "sf-manifest.bin";
const WATERMARK: &str = ".ack-watermark";

/// A file of two records, both present.
fn dual(magic: [u8; 4], lower: (i64, i64, i64), upper: (i64, i64, i64)) -> Vec<u8> {
    let mut out = record(magic, lower.0, lower.1, lower.2);
    out.resize(4096, 0);
    out.append(&mut record(magic, upper.0, upper.1, upper.2));
    out.resize(8192, 0);
    out
}

/// Two segments of three frames each, the second one active, one frame acked.
fn two_segments() -> Files {
    let named = |name: &str, bytes| (name.to_owned(), bytes);
    vec![
        named(FIRST, segment(1, 0, &[b"zero", b"one", b"two"], 4096)),
        named(
            SECOND,
            segment(
                1,
                3,
                &[b"QWP1\x01\0th3", b"QWP1\x01\0f4", b"QWP1\x01\0f5"],
                4096,
            ),
        ),
        named(MANIFEST, dual(*b"SFM1", (2, 0, 3), (1, 0, 0))),
        named(WATERMARK, dual(*b"AKW1", (2, 0, 0), (1, -1, 0))),
        named(".lock", Vec::new()),
    ]
}

fn verify(root: &Path, files: &Files) -> Ran {
    forebay(&["verify"], &slot_of(root, "slot", files))
}

#[track_caller]
fn says(ran: &Ran, status: u8, text: &str) {
    assert_eq!(ran.status, status, "{}{}", ran.text(), ran.diagnostics);
    assert!(ran.text().contains(text), "{}", ran.text());
}

#[test]
fn a_whole_slot_is_sound_and_says_what_is_unacked() {
    let root = tempfile::tempdir().unwrap();
    let ran = verify(root.path(), &two_segments());
    says(&ran, 0, "sound: frames 0..6, 5 unacked (31 bytes)");
    assert_eq!(ran.text().lines().count(), 1, "{}", ran.text());
}

#[test]
fn damage_is_named_with_file_and_offset() {
    let root = tempfile::tempdir().unwrap();
    // Each: the file, the offset of a flipped byte, and what is said.
    let cases = [
        (
            FIRST,
            33,
            "sf-0000000000000001.sfa at offset 8: its frames start at FSN 3",
        ),
        (
            SECOND,
            33,
            "sf-0000000000000001.sfa at offset 24: frame 3 is broken",
        ),
        (SECOND, 0, "sf-manifest.bin at offset"),
        (SECOND, 5, "sf-manifest.bin at offset"),
        (FIRST, 4000, "sf-0000000000000000.sfa at offset"),
    ];
    for (name, at, text) in cases {
        let mut files = two_segments();
        file(&mut files, name)[at] ^= 0x40;
        let ran = verify(root.path(), &files);
        says(&ran, 1, "damaged: ");
        says(&ran, 1, text);
    }
    for (missing, text) in [
        (FIRST, "sf-0000000000000001.sfa at offset 8: "),
        (SECOND, "sf-manifest.bin at offset"),
        (MANIFEST, "sf-manifest.bin at offset 0: missing"),
    ] {
        let mut files = two_segments();
        files.retain(|(name, _)| name != missing);
        says(&verify(root.path(), &files), 1, text);
    }
    let mut files = two_segments();
    file(&mut files, MANIFEST)[60] ^= 1;
    file(&mut files, MANIFEST)[4096 + 60] ^= 1;
    let text = "sf-manifest.bin at offset 0: no valid record";
    says(&verify(root.path(), &files), 1, text);
}

#[test]
fn a_torn_tail_is_sound_unless_whole_frames_lie_behind_it() {
    let root = tempfile::tempdir().unwrap();
    let end = 24 + 17 + 16 + 16;
    let mut files = two_segments();
    file(&mut files, SECOND)[end + 300] = 7;
    let ran = verify(root.path(), &files);
    says(&ran, 0, "sound: frames 0..6");
    says(
        &ran,
        0,
        "note: sf-0000000000000001.sfa: torn tail of 4023 bytes at offset 73",
    );
    // A frame elsewhere in the tail, also one that crosses a border of what is read at once.
    let late = frame(b"QWP1late");
    for at in [end + 1, end + 301, (1 << 20) + end - 9] {
        let mut files = two_segments();
        let active = file(&mut files, SECOND);
        active.resize((1 << 20) + 4096, 0);
        active[end + 200] = 1;
        active[at..at + late.len()].copy_from_slice(&late);
        let text = format!("frame 6 is broken, and whole frames lie behind it, one at offset {at}");
        says(&verify(root.path(), &files), 1, &text);
    }
}

#[test]
fn what_a_newer_client_may_have_written_cannot_be_said() {
    let root = tempfile::tempdir().unwrap();
    let mut files = two_segments();
    file(&mut files, FIRST)[4] = 2;
    says(
        &verify(root.path(), &files),
        2,
        "cannot say: sf-0000000000000000.sfa: segment format version 2",
    );
    let mut files = two_segments();
    files.push((".symbol-dict".to_owned(), b"SYD1\x03\0\0\0".to_vec()));
    says(
        &verify(root.path(), &files),
        2,
        "cannot say: .symbol-dict: version 3",
    );
    let dumped = forebay(&["dump"], &root.path().join("slot"));
    assert_eq!(dumped.status, 1, "these frames are no messages");
}

#[test]
fn older_forms_are_read_as_what_they_are() {
    let root = tempfile::tempdir().unwrap();
    let mut files = two_segments();
    for name in [FIRST, SECOND] {
        file(&mut files, name)[5] = 0;
    }
    files.retain(|(name, _)| name != MANIFEST);
    let mut plain = b"AKW1\0\0\0\0".to_vec();
    plain.extend_from_slice(&4_i64.to_le_bytes());
    *file(&mut files, WATERMARK) = plain;
    let ran = verify(root.path(), &files);
    says(&ran, 0, "sound: frames 0..6, 1 unacked");
    says(
        &ran,
        0,
        "note: an older client's slot: there is no sf-manifest.bin",
    );
    says(
        &ran,
        0,
        "note: .ack-watermark: not the present form: 16 bytes",
    );
    let json = forebay(&["inspect", "--json"], &root.path().join("slot")).json();
    assert_eq!(json["ack_watermark"]["form"], "plain-16");
    assert_eq!(json["ack_watermark"]["current"]["acked_fsn"], 4);
    assert!(json["manifest"].is_null());

    let mut files = two_segments();
    let mut short = record(*b"SFM1", 2, 0, 3);
    short.append(&mut record(*b"SFM1", 1, 0, 0));
    *file(&mut files, MANIFEST) = short;
    let ran = verify(root.path(), &files);
    says(
        &ran,
        0,
        "note: sf-manifest.bin: not the present form: 128 bytes",
    );

    let mut files = two_segments();
    files.retain(|(name, _)| name != MANIFEST && name != FIRST);
    file(&mut files, SECOND)[5] = 0;
    files.push(("sf-initial.sfa".to_owned(), segment(0, 0, &[b"zero"], 4096)));
    let text = "sf-0000000000000001.sfa at offset 8: its frames start at FSN 3, expected 1";
    says(&verify(root.path(), &files), 1, text);
}

#[test]
fn a_watermark_that_claims_too_much_does_not_count() {
    let root = tempfile::tempdir().unwrap();
    let mut files = two_segments();
    *file(&mut files, WATERMARK) = dual(*b"AKW1", (2, 999, 0), (1, -1, 0));
    let ran = verify(root.path(), &files);
    says(&ran, 0, "sound: frames 0..6, 6 unacked (35 bytes)");
    says(
        &ran,
        0,
        "note: .ack-watermark claims frames that do not exist",
    );
}

#[test]
fn a_directory_of_slots_is_as_bad_as_its_worst() {
    let root = tempfile::tempdir().unwrap();
    let sf_dir = root.path();
    slot_of(sf_dir, "a", &two_segments());
    slot_of(
        sf_dir,
        "b.unreplayable-0",
        &[(MANIFEST.to_owned(), Vec::new())],
    );
    fs::create_dir(sf_dir.join("no-slot")).unwrap();
    fs::create_dir(sf_dir.join(".slot-locks")).unwrap();
    fs::write(sf_dir.join(".slot-locks/a.lock"), b"").unwrap();
    std::os::unix::fs::symlink("a", sf_dir.join("link")).unwrap();
    let ran = forebay(&["verify"], sf_dir);
    says(&ran, 0, "/a: sound");
    says(&ran, 0, "b.unreplayable-0: skipped");
    assert!(!ran.text().contains("link") && !ran.text().contains("no-slot"));
    let mut files = two_segments();
    file(&mut files, FIRST)[4] = 2;
    slot_of(sf_dir, "c", &files);
    says(&forebay(&["verify"], sf_dir), 2, "/c: cannot say");
    let mut files = two_segments();
    file(&mut files, FIRST)[33] ^= 1;
    slot_of(sf_dir, "d", &files);
    says(&forebay(&["verify"], sf_dir), 1, "/d: damaged");
}

#[test]
fn what_cannot_be_read_ends_with_two() {
    let root = tempfile::tempdir().unwrap();
    for command in ["verify", "inspect", "dump"] {
        let ran = forebay(&[command], &root.path().join("missing"));
        assert_eq!((ran.status, ran.out.len()), (2, 0), "{command}");
        assert!(ran.diagnostics.contains("missing"), "{}", ran.diagnostics);
        let ran = forebay(&[command], root.path());
        assert_eq!((ran.status, ran.out.len()), (2, 0), "{command}");
        assert!(ran.diagnostics.contains("slot"), "{}", ran.diagnostics);
        // A link where a segment should be: it is no file of the slot.
        let mut files = two_segments();
        files.retain(|(name, _)| name != WATERMARK);
        let slot = slot_of(root.path(), "slot", &files);
        std::os::unix::fs::symlink("/etc/hostname", slot.join(WATERMARK)).unwrap();
        let ran = forebay(&[command], &slot);
        if command != "dump" {
            assert_eq!(ran.status, 2, "{command}: {}", ran.text());
        }
        fs::remove_dir_all(slot).unwrap();
    }
}

#[test]
fn damage_of_a_slot_in_use_counts_when_it_is_found_twice() {
    let root = tempfile::tempdir().unwrap();
    let mut files = two_segments();
    file(&mut files, FIRST)[33] ^= 1;
    let slot = slot_of(root.path(), "slot", &files);
    // Written to just now, as a running engine would.
    fs::write(slot.join(".lock"), b"").unwrap();
    says(&forebay(&["verify"], &slot), 1, "damaged");
    // And a first reading that met a write in flight is forgotten. The second comes 100 ms after it:
    // a mender that was late for that tries again.
    let mended_between = || {
        settle(&slot);
        fs::write(slot.join(FIRST), file(&mut files.clone(), FIRST)).unwrap();
        fs::write(slot.join(".lock"), b"").unwrap();
        let (whole, path) = (two_segments(), slot.join(FIRST));
        let mender = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(30));
            fs::write(path, &whole[0].1).unwrap();
        });
        let ran = forebay(&["verify"], &slot);
        mender.join().unwrap();
        ran.status == 0 && ran.text().contains("sound: frames 0..6")
    };
    assert!((0..5).any(|_| mended_between()), "never forgotten");
}

#[test]
fn a_flipped_byte_of_a_sealed_segment_of_the_corpus_is_found() {
    let (_scratch, slots) = corpus();
    let slot = slots
        .iter()
        .find(|slot| slot.name.starts_with("rust-row/b_several_segments"));
    let files = contents(&slot.unwrap().dir);
    let root = tempfile::tempdir().unwrap();
    for at in [24, 30, 5_000, 60_000] {
        let mut files = files.clone();
        file(&mut files, FIRST)[at] ^= 0x10;
        says(&verify(root.path(), &files), 1, "at offset");
    }
}
