//! Dual records: the layout of `sf-manifest.bin` and `.ack-watermark` (slot-format.md section 3).
//!
//! The file has exactly 8,192 bytes. A record is written to byte `4096 * (generation & 1)`, so the
//! first one, generation 1, lies at 4096 and a torn write can only hit the older of the two.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `SFM1` (manifest) or `AKW1` (watermark) |
//! | 4 | 4 | version, 1 |
//! | 8 | 8 | generation, i64 > 0 |
//! | 16 | 8 | manifest: base of the chain's first segment; watermark: acked FSN, -1 for none |
//! | 24 | 8 | manifest: base of the active segment; watermark: 0 |
//! | 32 | 28 | zero |
//! | 60 | 4 | CRC-32C of bytes 0 to 59 |

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

/// Bytes of a dual-record file.
pub(crate) const DUAL_BYTES: u64 = 8192;
/// Bytes of one record.
pub(crate) const RECORD_LEN: usize = 64;
/// Bytes between the two records; also the unit in which a record is written.
pub(crate) const HALF_LEN: usize = 4096;
/// Largest generation that is taken from disk: far above any honest one, and low enough that
/// adding 1 per write never overflows.
const GENERATION_MAX: i64 = i64::MAX / 2;

/// Bytes of a dual-record file of the form before the present one.
const OLDER_LEN: usize = 128;
/// Bytes of a watermark file of the form before that.
const OLDEST_LEN: usize = 16;

const VERSION: u32 = 1;
const CRC_OFFSET: usize = 60;

/// An FSN as the records store it. Bases of a slot's chain are below 2^63.
pub(crate) fn signed(fsn: u64) -> i64 {
    i64::try_from(fsn).unwrap_or(i64::MAX)
}

/// Which of the two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `sf-manifest.bin`.
    Manifest,
    /// `.ack-watermark`.
    Watermark,
}

impl Kind {
    const fn magic(self) -> [u8; 4] {
        match self {
            Self::Manifest => *b"SFM1",
            Self::Watermark => *b"AKW1",
        }
    }

    const fn allows(self, first: i64, second: i64) -> bool {
        match self {
            Self::Manifest => 0 <= first && first <= second,
            Self::Watermark => first >= -1 && second == 0,
        }
    }
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    /// Counts the writes of the file from 1.
    pub generation: i64,
    /// Manifest: base of the first segment; watermark: acked FSN or -1.
    pub first: i64,
    /// Manifest: base of the active segment; watermark: 0.
    pub second: i64,
}

impl Record {
    /// Where in the file this record belongs.
    pub(crate) fn offset(self) -> u64 {
        if self.generation & 1 == 0 { 0 } else { 4096 }
    }

    /// The 64 bytes.
    pub(crate) fn to_bytes(self, kind: Kind) -> [u8; RECORD_LEN] {
        let mut out = [0; RECORD_LEN];
        let fields = kind
            .magic()
            .into_iter()
            .chain(VERSION.to_le_bytes())
            .chain(self.generation.to_le_bytes())
            .chain(self.first.to_le_bytes())
            .chain(self.second.to_le_bytes());
        for (to, from) in out.iter_mut().zip(fields) {
            *to = from;
        }
        let (body, crc) = out.split_at_mut(CRC_OFFSET);
        crc.copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
        out
    }

    /// The 4,096 bytes of its half of the file: the record, then zeros.
    pub(crate) fn to_half(self, kind: Kind) -> [u8; HALF_LEN] {
        let mut out = [0; HALF_LEN];
        out.split_at_mut(RECORD_LEN)
            .0
            .copy_from_slice(&self.to_bytes(kind));
        out
    }

    /// Reads a record; `None` unless every rule of the format holds.
    pub(super) fn parse(bytes: &[u8], kind: Kind) -> Option<Self> {
        let raw = bytes.first_chunk::<RECORD_LEN>()?;
        let (body, crc) = raw.split_at(CRC_OFFSET);
        let head = body.first_chunk::<8>()?;
        let [m0, m1, m2, m3, v0, v1, v2, v3] = *head;
        let valid = [m0, m1, m2, m3] == kind.magic()
            && u32::from_le_bytes([v0, v1, v2, v3]) == VERSION
            && crc == crc32c::crc32c(body).to_le_bytes();
        let field = |at| Some(i64::from_le_bytes(*body.get(at..)?.first_chunk()?));
        let record = Self {
            generation: field(8)?,
            first: field(16)?,
            second: field(24)?,
        };
        let generation_valid = 0 < record.generation && record.generation <= GENERATION_MAX;
        (valid && generation_valid && kind.allows(record.first, record.second)).then_some(record)
    }
}

/// The record that counts in a whole file: the higher generation, on a tie the one at 4096.
pub(crate) fn current(file: &[u8], kind: Kind) -> Option<Record> {
    let (lower, upper) = file.split_at_checked(HALF_LEN)?;
    newer(Record::parse(lower, kind), Record::parse(upper, kind))
}

/// The record that counts in a file of an older form (slot-format.md section 3): 128 bytes with the
/// same records at 0 and 64, or a watermark of 16 bytes, magic at 0 and FSN at 8, without a CRC.
pub(crate) fn older(file: &[u8], kind: Kind) -> Option<Record> {
    match file.len() {
        OLDER_LEN => {
            let (lower, upper) = file.split_at_checked(RECORD_LEN)?;
            newer(Record::parse(lower, kind), Record::parse(upper, kind))
        }
        OLDEST_LEN if kind == Kind::Watermark && file.starts_with(&kind.magic()) => {
            let acked = i64::from_le_bytes(*file.get(8..)?.first_chunk()?);
            kind.allows(acked, 0).then_some(Record {
                generation: 0,
                first: acked,
                second: 0,
            })
        }
        _ => None,
    }
}

/// Which of a file's two records counts.
pub(super) fn newer(lower: Option<Record>, upper: Option<Record>) -> Option<Record> {
    match (lower, upper) {
        (Some(lower), Some(upper)) if lower.generation > upper.generation => Some(lower),
        (lower, upper) => upper.or(lower),
    }
}

#[cfg(test)]
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "positions of the test"
)]
mod tests {
    use super::*;

    fn file(records: &[(usize, Record)], kind: Kind) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        for (at, record) in records {
            bytes[*at..*at + HALF_LEN].copy_from_slice(&record.to_half(kind));
        }
        bytes
    }

    #[test]
    fn the_specified_records_encode_exactly() {
        let record = |generation, first, second| Record {
            generation,
            first,
            second,
        };
        let cases = [
            (
                Kind::Manifest,
                record(1, 0, 0),
                4096,
                [0x30, 0x27, 0xa8, 0xcb],
            ),
            (
                Kind::Manifest,
                record(2, 42, 100),
                0,
                [0x1c, 0x79, 0x2e, 0xbd],
            ),
            (
                Kind::Watermark,
                record(1, -1, 0),
                4096,
                [0x02, 0x12, 0xcd, 0xb1],
            ),
            (
                Kind::Watermark,
                record(2, 42, 0),
                0,
                [0xb5, 0xea, 0x0f, 0x97],
            ),
        ];
        let heads: [&[u8]; 4] = [
            b"SFM1\x01\0\0\0\x01\0\0\0\0\0\0\0",
            b"SFM1\x01\0\0\0\x02\0\0\0\0\0\0\0\x2a\0\0\0\0\0\0\0\x64",
            b"AKW1\x01\0\0\0\x01\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
            b"AKW1\x01\0\0\0\x02\0\0\0\0\0\0\0\x2a",
        ];
        for ((kind, record, offset, crc), head) in cases.into_iter().zip(heads) {
            let mut expected = [0; RECORD_LEN];
            expected[..head.len()].copy_from_slice(head);
            expected[CRC_OFFSET..].copy_from_slice(&crc);
            assert_eq!(record.to_bytes(kind), expected);
            assert_eq!(record.offset(), offset);
            assert_eq!(Record::parse(&expected, kind), Some(record));
        }
    }

    #[test]
    fn the_higher_generation_wins_and_a_tie_goes_to_the_upper_half() {
        let kind = Kind::Manifest;
        let old = Record {
            generation: 3,
            first: 0,
            second: 8,
        };
        let new = Record {
            generation: 4,
            first: 0,
            second: 12,
        };
        let twin = Record {
            generation: 4,
            first: 1,
            second: 13,
        };
        assert_eq!(
            current(&file(&[(0, new), (4096, old)], kind), kind),
            Some(new)
        );
        assert_eq!(
            current(&file(&[(0, old), (4096, new)], kind), kind),
            Some(new)
        );
        assert_eq!(
            current(&file(&[(0, new), (4096, twin)], kind), kind),
            Some(twin)
        );
        assert_eq!(current(&file(&[], kind), kind), None);
        assert_eq!(current(&[0; 4095], kind), None);
    }

    #[test]
    fn a_half_overwritten_with_junk_leaves_the_other() {
        let kind = Kind::Watermark;
        let old = Record {
            generation: 1,
            first: 7,
            second: 0,
        };
        let new = Record {
            generation: 2,
            first: 9,
            second: 0,
        };
        let mut bytes = file(&[(0, new), (4096, old)], kind);
        for at in 0..RECORD_LEN {
            let kept = bytes[at];
            bytes[at] ^= 0x40;
            assert_eq!(current(&bytes, kind), Some(old), "byte {at}");
            bytes[at] = kept;
        }
        assert_eq!(current(&bytes, kind), Some(new));
    }

    #[test]
    fn older_forms_are_read() {
        let kind = Kind::Manifest;
        let record = |generation, second| Record {
            generation,
            first: 4,
            second,
        };
        let mut file = record(2, 8).to_bytes(kind).to_vec();
        file.extend_from_slice(&record(3, 12).to_bytes(kind));
        assert_eq!(older(&file, kind), Some(record(3, 12)));
        assert_eq!(older(&file, Kind::Watermark), None);
        file[70] ^= 1;
        assert_eq!(older(&file, kind), Some(record(2, 8)));
        assert_eq!(older(&file[..127], kind), None);
        let mut short = b"AKW1\x01\0\0\0".to_vec();
        short.extend_from_slice(&30_i64.to_le_bytes());
        let acked = older(&short, Kind::Watermark).map(|record| (record.generation, record.first));
        assert_eq!(acked, Some((0, 30)));
        assert_eq!(older(&short, kind), None);
        short[15] = 0xFF;
        assert_eq!(older(&short, Kind::Watermark), None, "a negative FSN");
    }

    #[test]
    fn values_that_cannot_be_are_no_record() {
        let manifest = |generation, first, second| {
            let record = Record {
                generation,
                first,
                second,
            };
            Record::parse(&record.to_bytes(Kind::Manifest), Kind::Manifest)
        };
        assert!(manifest(1, 5, 5).is_some());
        assert_eq!(manifest(1, 6, 5), None);
        assert_eq!(manifest(1, -1, 5), None);
        assert_eq!(manifest(0, 0, 0), None);
        assert_eq!(manifest(-1, 0, 0), None);
        assert_eq!(manifest(i64::MAX, 0, 0), None);
        let watermark = Record {
            generation: 1,
            first: -2,
            second: 0,
        };
        assert_eq!(
            Record::parse(&watermark.to_bytes(Kind::Watermark), Kind::Watermark),
            None
        );
        assert_eq!(
            Record::parse(&watermark.to_bytes(Kind::Watermark), Kind::Manifest),
            None
        );
    }
}
