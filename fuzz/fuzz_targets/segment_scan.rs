//! The scan of a segment file against a naive one, and against itself on a prefix.
#![no_main]

use std::path::Path;

use forebay::internals::slot::{Reader, SegmentFile, is_frame};
use forebay_fuzz::{file_with, flags, mend};
use libfuzzer_sys::fuzz_target;

const HEADER: usize = 24;

/// `(offset, payload bytes)` of every frame.
type Frames = Vec<(usize, usize)>;

thread_local! {
    static READER: std::cell::RefCell<Reader> = std::cell::RefCell::default();
}

fn length(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at + 4..at + 8)?;
    let length = i32::from_le_bytes(field.try_into().ok()?);
    let length = usize::try_from(length).ok().filter(|length| *length > 0)?;
    (at + 8 + length <= bytes.len()).then_some(length)
}

fn mend_frames(bytes: &mut [u8]) {
    let mut at = HEADER;
    while let Some(length) = length(bytes, at) {
        let end = at + 8 + length;
        mend(bytes, at + 4..end, at);
        at = end;
    }
}

/// Frames and end of data, by the book and without care for speed.
fn naive(bytes: &[u8]) -> (Frames, usize) {
    let mut frames = Vec::new();
    let mut at = HEADER;
    while let Some(length) = length(bytes, at) {
        let end = at + 8 + length;
        if crc32c::crc32c(&bytes[at + 4..end]).to_le_bytes() != bytes[at..at + 4] {
            break;
        }
        assert!(is_frame(&bytes[at..end]));
        frames.push((at, length));
        at = end;
    }
    (frames, at)
}

fn scan(bytes: &[u8]) -> (SegmentFile, Frames) {
    let mut frames = Vec::new();
    let mut fsns = Vec::new();
    let (size, found) = READER.with_borrow_mut(|reader| {
        let file = file_with(bytes);
        let visit = &mut |frame: forebay::internals::slot::Frame<'_>| {
            let (at, length) = (frame.offset as usize, frame.payload_len as usize);
            assert_eq!(frame.payload, &bytes[at + 8..at + 8 + length]);
            frames.push((at, length));
            fsns.push(frame.fsn);
        };
        reader
            .segment(file, Path::new("fuzz.sfa"), visit)
            .expect("the file can be read")
    });
    assert_eq!(size, bytes.len() as u64);
    if let SegmentFile::Segment(segment) = &found {
        assert!(
            fsns.iter()
                .zip(0..)
                .all(|(fsn, index)| *fsn == segment.base() + index)
        );
        assert_eq!(segment.end_fsn(), segment.base() + frames.len() as u64);
    } else {
        assert!(frames.is_empty());
    }
    (found, frames)
}

fn check(bytes: &[u8]) {
    let (found, frames) = scan(bytes);
    let SegmentFile::Segment(segment) = found else {
        let blank = bytes.iter().all(|byte| *byte == 0);
        assert_eq!(found == SegmentFile::Blank, blank);
        return;
    };
    let (expected, end) = naive(bytes);
    assert_eq!(frames, expected);
    assert_eq!(
        (segment.end(), segment.frames()),
        (end as u64, frames.len() as u64)
    );
    let tail = &bytes[end..];
    let first = tail.iter().position(|byte| *byte != 0);
    let last = tail.iter().rposition(|byte| *byte != 0);
    let residue = first
        .zip(last)
        .map(|(first, last)| ((end + first) as u64, (end + last) as u64));
    assert_eq!(segment.residue(), residue);

    let (prefix, again) = scan(&bytes[..end]);
    let SegmentFile::Segment(prefix) = prefix else {
        panic!("the prefix with the same header is no segment");
    };
    assert_eq!(again, frames);
    assert_eq!((prefix.end(), prefix.residue()), (end as u64, None));
}

fuzz_target!(|data: &[u8]| {
    let Some((flags, bytes)) = flags(data) else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if flags & 1 != 0 {
        mend_frames(&mut bytes);
    }
    check(&bytes);
});
