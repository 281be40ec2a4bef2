//! A slot on the test disk, and the steps by which a shard would write it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_wire::varint;

use super::disk::Disk;
use crate::error::Error;
use crate::fsn::Fsn;
use crate::io::{Fs, OpenMode};
use crate::slot::frame::{FrameHeader, crc};
use crate::slot::segment::SegmentHeader;
use crate::slot::{
    Drained, OpenedSlot, RecoveryProgress, Renewal, SetAside, SlotOptions, close_drained,
    make_spare, open,
};

pub(crate) const SEGMENT_BYTES: u64 = 64 * 1024;
pub(crate) const SLOT: &str = "/d/sf/id";

pub(crate) fn options() -> SlotOptions {
    SlotOptions {
        sf_dir: PathBuf::from("/d/sf"),
        sender_id: "id".to_owned(),
        segment_bytes: SEGMENT_BYTES,
        total_bytes: 100 * SEGMENT_BYTES,
        prefill: false,
        lock_retry: Duration::ZERO,
        progress: RecoveryProgress::new(),
    }
}

pub(crate) fn reopen(disk: &Disk) -> OpenedSlot {
    open(disk, &options()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn refusal(disk: &Disk) -> Error {
    let before = disk.files(SLOT);
    let error = open(disk, &options()).expect_err("must be refused");
    assert_eq!(
        disk.files(SLOT),
        before,
        "a refused slot keeps every byte: {error}"
    );
    error
}

/// Opens a slot that is to be set aside: every byte of it is kept under the other name, with the
/// reason, and an empty slot takes its place. Answers the file and offset at fault, and the rest.
pub(crate) fn set_aside(disk: &Disk) -> (String, u64, SetAside) {
    let mut before = disk.files(SLOT);
    let slot = reopen(disk);
    let told = slot.report.set_aside.clone().expect("must be set aside");
    assert!(slot.report.fresh, "an empty slot follows");
    assert_eq!((slot.acked, slot.next), (Fsn(0), Fsn(0)));
    let path = told.path.to_str().unwrap();
    let mut kept = disk.files(path);
    let reason = kept.remove(".failed").expect("a reason");
    let reason = String::from_utf8(reason).unwrap();
    match before.remove(".failed") {
        None => assert_eq!(reason, told.reason),
        Some(earlier) => {
            let earlier = String::from_utf8(earlier).unwrap();
            assert_eq!(reason, format!("{earlier}\n{}", told.reason));
        }
    }
    assert_eq!(kept, before, "every byte is kept: {}", told.reason);
    let (file, rest) = told.reason.split_once(" at offset ").unwrap();
    let (offset, _) = rest.split_once(": ").unwrap();
    (file.to_owned(), offset.parse().unwrap(), told.clone())
}

/// The operator puts a slot that was set aside back in its place.
pub(crate) fn put_back(disk: &Disk, told: &SetAside) {
    for name in disk.names(SLOT) {
        disk.unlink(&Path::new(SLOT).join(name)).unwrap();
    }
    for (name, bytes) in disk.files(told.path.to_str().unwrap()) {
        disk.put(&format!("{SLOT}/{name}"), &bytes);
    }
}

/// A frame: header and payload.
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let payload_len = u32::try_from(payload.len()).unwrap();
    let mut out = FrameHeader {
        crc: crc(payload_len, payload),
        payload_len,
    }
    .to_bytes()
    .to_vec();
    out.extend_from_slice(payload);
    out
}

/// A message with a symbol delta and `rest` bytes behind it.
pub(crate) fn message(start: u32, symbols: &[&str], rest: usize) -> Vec<u8> {
    let mut out = b"QWP1\x01\x08\x01\0\0\0\0\0".to_vec();
    varint::push(start.into(), &mut out);
    varint::push(symbols.len() as u64, &mut out);
    for symbol in symbols {
        varint::push(symbol.len() as u64, &mut out);
        out.extend_from_slice(symbol.as_bytes());
    }
    out.resize(out.len() + rest, 0xA5);
    out
}

/// Appends one frame to the active segment.
pub(crate) fn append(disk: &Disk, slot: &mut OpenedSlot, payload: &[u8]) {
    let bytes = frame(payload);
    let active = slot.segments.last_mut().unwrap();
    assert!(
        active.end + bytes.len() as u64 <= active.bytes,
        "does not fit"
    );
    let file = disk
        .open(&slot.dir.join(&active.name), OpenMode::ReadWrite)
        .unwrap();
    disk.write_at(&file, &bytes, active.end).unwrap();
    active.end += bytes.len() as u64;
    active.frames += 1;
    slot.next = slot.next.plus(1);
}

/// Appends a frame that introduces `symbols`, dictionary first.
pub(crate) fn append_symbols(disk: &Disk, slot: &mut OpenedSlot, symbols: &[&str]) {
    let start = slot.dictionary.len();
    for symbol in symbols {
        slot.dictionary.intern(symbol).unwrap();
    }
    let mut chunk = Vec::new();
    slot.dictionary
        .chunk(start, slot.dictionary.len(), &mut chunk);
    if !chunk.is_empty() {
        disk.write_at(&slot.dictionary_file, &chunk, slot.dictionary_bytes)
            .unwrap();
        slot.dictionary_bytes += chunk.len() as u64;
    }
    append(disk, slot, &message(start, symbols, 5));
}

/// Makes the spare the active segment (slot-format.md section 7, Rotation).
pub(crate) fn rotate(disk: &Disk, slot: &mut OpenedSlot) {
    let sealed = slot.segments.last().unwrap();
    let file = disk
        .open(&slot.dir.join(&sealed.name), OpenMode::ReadWrite)
        .unwrap();
    disk.sync(&file).unwrap();
    let mut spare = slot.spares.pop().expect("a spare");
    let file = disk
        .open(&slot.dir.join(&spare.name), OpenMode::ReadWrite)
        .unwrap();
    let header = SegmentHeader {
        manifest_required: true,
        base: slot.next,
        created_micros: spare.created_micros,
    };
    disk.write_at(&file, &header.to_bytes(), 0).unwrap();
    disk.sync(&file).unwrap();
    let number = |fsn: Fsn| i64::try_from(fsn.0).unwrap();
    let head = number(slot.segments[0].base);
    slot.manifest.write(disk, head, number(slot.next)).unwrap();
    spare.base = slot.next;
    slot.segments.push(spare);
    let generation = slot.next_generation;
    slot.next_generation.0 += 1;
    let made = make_spare(disk, &slot.dir, generation, SEGMENT_BYTES, slot.next, None).unwrap();
    slot.spares
        .push(crate::slot::OpenedSegment::empty(made, slot.next, 24));
}

/// Writes the watermark as a shard does: no sync.
pub(crate) fn ack(disk: &Disk, slot: &mut OpenedSlot, last: i64) {
    let record = slot.watermark.next(last, 0);
    let (offset, bytes) = slot.watermark.half(record);
    disk.write_at(&slot.watermark.file, &bytes, offset).unwrap();
    slot.watermark.set_current(record);
}

/// The drained close of a fully acked slot.
pub(crate) fn close(disk: &Disk, mut slot: OpenedSlot) -> Result<(), Error> {
    let segments = slot
        .segments
        .iter()
        .chain(&slot.spares)
        .map(|s| s.name.clone());
    let segments: Vec<String> = segments.collect();
    let drained = Drained {
        dir: &slot.dir,
        manifest: &mut slot.manifest,
        watermark: &mut slot.watermark,
        segments: &segments,
        active_base: slot.segments.last().unwrap().base,
        acked: slot.next,
    };
    close_drained(disk, drained)
}

/// What a shard that has it all acked asks for at the end of a dictionary epoch.
pub(crate) fn renewal(slot: &OpenedSlot) -> Renewal {
    let active = slot.segments.last().unwrap();
    let all = slot.segments.iter().chain(&slot.spares);
    Renewal {
        dir: slot.dir.clone(),
        lock: slot.lock.clone(),
        manifest: slot.manifest.clone(),
        watermark: slot.watermark.clone(),
        dictionary: slot.dictionary_file.clone(),
        segments: all.map(|segment| segment.name.clone()).collect(),
        handles: Vec::new(),
        active_base: active.base,
        next: slot.next,
        generation: slot.next_generation,
        segment_bytes: SEGMENT_BYTES,
        fill: false,
    }
}

/// A slot of four segments with four frames each; every frame introduces one symbol.
pub(crate) fn four_segments() -> Disk {
    let disk = Disk::new();
    let mut slot = reopen(&disk);
    for number in 0..16 {
        if number > 0 && number % 4 == 0 {
            rotate(&disk, &mut slot);
        }
        append_symbols(&disk, &mut slot, &[&format!("sym{number}")]);
    }
    drop(slot);
    disk
}

/// Path of the segment with this generation.
pub(crate) fn segment_path(generation: u64) -> String {
    format!("{SLOT}/sf-{generation:016x}.sfa")
}

/// All payloads of the chain, read back from the files.
pub(crate) fn payloads(disk: &Disk, slot: &OpenedSlot) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for segment in &slot.segments {
        let bytes = disk.read(&format!("{SLOT}/{}", segment.name));
        let mut at = 24;
        for _ in 0..segment.frames {
            let head = FrameHeader::parse(&bytes[at..]).unwrap();
            let end = at + 8 + head.payload_len as usize;
            all.push(bytes[at + 8..end].to_vec());
            at = end;
        }
        assert_eq!(at as u64, segment.end);
        if segment.base.0 + segment.frames == slot.next.0 {
            assert!(
                bytes[at..].iter().all(|byte| *byte == 0),
                "the tail is zero"
            );
        }
    }
    all
}
