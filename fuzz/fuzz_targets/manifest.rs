//! Dual records of manifest and watermark: which one counts, and that what is written is read.
#![no_main]

use forebay::internals::codec::{current_record, record_bytes};
use forebay::internals::slot::{Record, records};
use forebay_fuzz::{flags, mend};
use libfuzzer_sys::fuzz_target;

const RECORD: usize = 64;
const HALF: usize = 4096;

/// The rules of the format for a record's fields.
fn allowed(record: Record, manifest: bool) -> bool {
    let fields = if manifest {
        0 <= record.first && record.first <= record.second
    } else {
        record.first >= -1 && record.second == 0
    };
    fields && 0 < record.generation && record.generation <= i64::MAX / 2
}

/// What is written is read back, unless the rules refuse it.
fn check_fields(record: Record, manifest: bool) {
    let bytes = record_bytes(record, manifest);
    let expected = allowed(record, manifest).then_some(record);
    assert_eq!(records(&bytes, &[], manifest)[0], expected);
    assert_eq!(records(&bytes, &[], !manifest), [None; 3]);
    for cut in [0, 59, 63] {
        assert_eq!(records(&bytes[..cut], &[], manifest), [None; 3]);
    }
}

fn check_halves(lower: &[u8], upper: &[u8], manifest: bool) {
    let [first, second, counts] = records(lower, upper, manifest);
    for (record, bytes) in [(first, lower), (second, upper)] {
        let Some(record) = record else { continue };
        assert!(allowed(record, manifest));
        let written = record_bytes(record, manifest);
        assert_eq!(written[..32], bytes[..32]);
        check_fields(record, manifest);
    }
    let expected = match (first, second) {
        (Some(first), Some(second)) if first.generation > second.generation => Some(first),
        (first, second) => second.or(first),
    };
    assert_eq!(counts, expected);

    // The same two records in a file of the present form and in one of the form before.
    let mut file = vec![0; 2 * HALF];
    file[..lower.len()].copy_from_slice(lower);
    file[HALF..HALF + upper.len()].copy_from_slice(upper);
    assert_eq!(current_record(&file, manifest), counts);
    if lower.len() == RECORD && upper.len() == RECORD {
        assert_eq!(current_record(&[lower, upper].concat(), manifest), counts);
    }
}

fn field(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fuzz_target!(|data: &[u8]| {
    let Some((flags, bytes)) = flags(data) else {
        return;
    };
    let manifest = flags & 2 != 0;
    if let Some(older) = current_record(bytes, manifest) {
        assert!(allowed(older, manifest) || (!manifest && bytes.len() == 16));
    }
    let (lower, upper) = bytes.split_at(bytes.len().min(RECORD));
    let (mut lower, mut upper) = (lower.to_vec(), upper[..upper.len().min(RECORD)].to_vec());
    if flags & 1 != 0 {
        mend(&mut lower, 0..60, 60);
        mend(&mut upper, 0..60, 60);
    }
    check_halves(&lower, &upper, manifest);
    if let (Some(generation), Some(first), Some(second)) =
        (field(bytes, 8), field(bytes, 16), field(bytes, 24))
    {
        check_fields(
            Record {
                generation,
                first,
                second,
            },
            manifest,
        );
    }
});
