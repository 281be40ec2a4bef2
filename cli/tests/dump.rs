//! What `dump` writes: ranges, raw messages, slots that were set aside, symbols from both sources.

#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]

mod support;

use std::fs;

use support::{contents, corpus, file, forebay, slot_of};

const C: &str = "rust-row/c_symbol_dict";

fn symbols_slot() -> Vec<(String, Vec<u8>)> {
    let (_scratch, slots) = corpus();
    let slot = slots.iter().find(|slot| slot.name.starts_with(C));
    contents(&slot.unwrap().dir)
}

#[test]
fn a_range_of_frames_is_what_its_form_says() {
    let root = tempfile::tempdir().unwrap();
    let dir = slot_of(root.path(), "slot", &symbols_slot());
    for (range, want) in [
        ("1..3", vec![1, 2]),
        ("1..=3", vec![1, 2, 3]),
        ("4..", vec![4, 5]),
        ("..2", vec![0, 1]),
        ("5", vec![5]),
        ("6..", vec![]),
    ] {
        let ran = forebay(&["dump", "--fsn", range], &dir);
        assert_eq!(ran.status, 0, "{range}");
        let lines = ran.lines();
        let found: Vec<_> = lines
            .iter()
            .map(|line| line["fsn"].as_i64().unwrap())
            .collect();
        assert_eq!(found, want, "{range}");
    }
    assert_eq!(forebay(&["dump", "--fsn", "3..1"], &dir).status, 2);
    assert_eq!(forebay(&["dump", "--rows", "--raw"], &dir).status, 2);
}

#[test]
fn raw_messages_are_the_bytes_of_the_file() {
    let root = tempfile::tempdir().unwrap();
    let mut files = symbols_slot();
    let dir = slot_of(root.path(), "slot", &files);
    let bytes = file(&mut files, "sf-0000000000000000.sfa").clone();
    // Frames 1 and 2 of 59 bytes lie at 91 and 158.
    let want = [&bytes[99..158], &bytes[166..225]].concat();
    assert_eq!(forebay(&["dump", "--raw", "--fsn", "1..3"], &dir).out, want);
}

#[test]
fn a_set_aside_slot_with_a_gap_is_dumped_around_it() {
    let (_scratch, slots) = corpus();
    let slot = slots
        .iter()
        .find(|slot| slot.name.starts_with("rust-row/b_several_segments"));
    let mut files = contents(&slot.unwrap().dir);
    files.retain(|(name, _)| name != "sf-0000000000000001.sfa");
    file(&mut files, "sf-0000000000000002.sfa")[8_200] ^= 1;
    let root = tempfile::tempdir().unwrap();
    let dir = slot_of(root.path(), "id.unreplayable-0", &files);
    assert_eq!(forebay(&["verify"], &dir).status, 1);
    let dumped = forebay(&["dump"], &dir);
    let lines = dumped.lines();
    let found: Vec<_> = lines
        .iter()
        .map(|line| line["fsn"].as_i64().unwrap())
        .collect();
    // Eight frames a segment: the second is missing, the third ends at its second frame.
    let want: Vec<_> = (0..8).chain([16]).chain(24..40).collect();
    assert_eq!(found, want);
    let text = "sf-0000000000000002.sfa: the 57448 bytes from offset 8088 on are no frames";
    assert!(dumped.diagnostics.contains(text), "{}", dumped.diagnostics);
}

#[test]
fn frames_bring_the_symbols_that_the_file_lost() {
    let root = tempfile::tempdir().unwrap();
    let files = symbols_slot();
    let dir = slot_of(root.path(), "slot", &files);
    let want = forebay(&["dump", "--rows"], &dir);
    assert_eq!(want.status, 0);
    for lost in [0, 8, 9, 30] {
        let mut files = files.clone();
        file(&mut files, ".symbol-dict").truncate(lost);
        let dir = slot_of(root.path(), "slot", &files);
        assert_eq!(forebay(&["dump", "--rows"], &dir), want, "{lost}");
        let ran = forebay(&["dump", "--rows", "--fsn", "5"], &dir);
        assert_eq!(
            ran.text(),
            want.text().lines().last().unwrap().to_owned() + "\n"
        );
        assert_eq!(forebay(&["verify"], &dir).status, 0, "{lost}");
    }
    fs::remove_file(dir.join(".symbol-dict")).unwrap();
    assert_eq!(forebay(&["dump", "--rows"], &dir), want);
}
