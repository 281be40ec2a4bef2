//! The four files that slot-format.md section 20 lists byte for byte, as slots.

use crate::slots::{Rig, dual, frame, message, name, record, segment};

const SEGMENT: &str = "\
    53 46 30 31 01 00 00 00 2a 00 00 00 00 00 00 00 \
    cb 04 fb 71 1f 01 00 00 a6 0e cb 49 03 00 00 00 \
    6f 6e 65 3a f6 00 07 07 00 00 00 74 77 6f 2d 74 \
    77 6f 00 00 00 00 00 00 00 00 00 00 00 00 00 00";
const DICTIONARY: &str = "\
    53 59 44 31 01 00 00 00 01 04 03 6f 6e 65 89 31 \
    8d 70 02 0a 03 74 77 6f 05 74 68 72 65 65 a2 44 \
    4d 7f";
/// Where the torn ones differ, and what is there.
const SEGMENT_TORN: (usize, u8) = (0x2c, 0x76);
const DICTIONARY_TORN: (usize, u8) = (0x15, 0x75);
/// Where the first frame and the first chunk end.
const FRAME_END: usize = 35;
const CHUNK_END: usize = 18;

fn bytes(hex: &str, torn: Option<(usize, u8)>) -> Vec<u8> {
    let words = hex.split_whitespace();
    let bytes = words.map(|word| u8::from_str_radix(word, 16).expect("hex"));
    let mut bytes: Vec<u8> = bytes.collect();
    if let Some((at, byte)) = torn {
        assert_ne!(bytes[at], byte);
        bytes[at] = byte;
    }
    bytes
}

/// Opens the segment under the name that its client gave it, and checks what becomes of it.
fn open_segment(torn: Option<(usize, u8)>, end: usize, frames: u64) {
    let rig = Rig::empty();
    let file = bytes(SEGMENT, torn);
    assert_eq!(file.len(), 64);
    rig.put("sf-initial.sfa", &file);
    let engine = rig.connect().expect("opens");
    let stats = engine.stats();
    assert_eq!(stats.frames_recovered, frames);
    let tail = if torn.is_some() { 64 - end as u64 } else { 0 };
    assert_eq!(stats.torn_tail_bytes, tail);
    drop(engine);
    let mut expected = file.clone();
    expected[5] = 1;
    expected[end..].fill(0);
    assert_eq!(rig.read("sf-initial.sfa"), expected, "flagged, zero behind");
    let manifest = dual(&[record(*b"SFM1", 1, 42, 42)]);
    assert_eq!(rig.read("sf-manifest.bin"), manifest);
    // Later than what its client gives a spare (the next FSN): it never stands in for a lost file.
    let spare = rig.read(&name(0));
    assert_eq!(spare[8..16], (43 + frames).to_le_bytes());
    if torn.is_some() {
        assert_eq!(rig.read("sf-initial.sfa.torn-0"), file[end..]);
    }
}

#[test]
fn java_two_frame() {
    open_segment(None, 50, 2);
}

#[test]
fn java_two_frame_torn_tail() {
    open_segment(Some(SEGMENT_TORN), FRAME_END, 1);
}

/// A slot with the dictionary and a frame that needs so many symbols of it.
fn slot_with_dictionary(file: &[u8], needs: u8) -> Rig {
    let rig = Rig::empty();
    rig.put(
        &name(0),
        &segment(0, 65_536, &[frame(&message(0, needs, None))]),
    );
    rig.put("sf-manifest.bin", &dual(&[record(*b"SFM1", 1, 0, 0)]));
    rig.put(".symbol-dict", file);
    rig
}

#[test]
fn java_two_chunk_symbol_dict() {
    let file = bytes(DICTIONARY, None);
    let rig = slot_with_dictionary(&file, 3);
    let engine = rig.connect().expect("opens");
    let stats = engine.stats();
    assert_eq!((stats.symbols, stats.frames_recovered), (3, 1));
    drop(engine);
    assert_eq!(rig.read(".symbol-dict"), file);
    assert_eq!(rig.drain(), [0]);
}

#[test]
fn java_two_chunk_symbol_dict_torn_tail() {
    let file = bytes(DICTIONARY, Some(DICTIONARY_TORN));
    let rig = slot_with_dictionary(&file, 1);
    let engine = rig.connect().expect("opens");
    let stats = engine.stats();
    assert_eq!((stats.symbols, stats.frames_recovered), (1, 1));
    drop(engine);
    assert_eq!(rig.read(".symbol-dict"), file[..CHUNK_END]);
    assert_eq!(rig.read(".symbol-dict.torn-0"), file[CHUNK_END..]);
    assert_eq!(rig.drain(), [0]);
    // A frame that needs what was torn off: nothing is guessed, every byte is kept.
    let reason = slot_with_dictionary(&file, 3).assert_set_aside();
    assert!(reason.contains("0..3"), "{reason}");
}
