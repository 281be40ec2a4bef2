//! A column given as a slice is written exactly as the same values pushed row by row, for any
//! range of rows; and a slice of a pushed column is what pushing those rows alone gives.

use std::ops::Range;

use forebay_wire::encode::{ColumnBuffer, SliceColumn, Validity, Values};
use forebay_wire::types::ColumnType;
use proptest::collection::vec;
use proptest::prelude::*;

const PRECISION: u8 = 21;
const SCALE: u8 = 3;

/// The caller's memory for one column, whatever its type.
struct Memory {
    words: Vec<u64>,
    bools: Vec<bool>,
    bits: Vec<u8>,
    i8s: Vec<i8>,
    i16s: Vec<i16>,
    u16s: Vec<u16>,
    i32s: Vec<i32>,
    u32s: Vec<u32>,
    i64s: Vec<i64>,
    f32s: Vec<f32>,
    f64s: Vec<f64>,
    u128s: Vec<u128>,
    i128s: Vec<i128>,
    wide: Vec<[u8; 32]>,
    hashes: Vec<u64>,
    offsets: Vec<u32>,
    bytes: Vec<u8>,
    shape: Vec<u32>,
    elements: Vec<f64>,
}

fn bytes<const N: usize>(word: u64) -> [u8; N] {
    let mut all = [0; N];
    let n = N.min(8);
    all[..n].copy_from_slice(&word.to_le_bytes()[..n]);
    all
}

impl Memory {
    fn new(words: Vec<u64>) -> Self {
        let each = |length: &dyn Fn(u64) -> usize| {
            let mut end = 0_u32;
            let mut offsets = vec![0];
            for word in &words {
                end += u32::try_from(length(*word)).expect("small");
                offsets.push(end);
            }
            offsets
        };
        let offsets = each(&|word| usize::try_from(word % 5).expect("small"));
        let total = *offsets.last().expect("not empty") as usize;
        let mut bits = vec![0; words.len().div_ceil(8) + 1];
        for (row, word) in words.iter().enumerate() {
            bits[(row + 3) / 8] |= u8::from(word % 2 == 1) << ((row + 3) % 8);
        }
        Self {
            bools: words.iter().map(|word| word % 2 == 1).collect(),
            bits,
            i8s: words.iter().map(|w| i8::from_le_bytes(bytes(*w))).collect(),
            i16s: words
                .iter()
                .map(|w| i16::from_le_bytes(bytes(*w)))
                .collect(),
            u16s: words
                .iter()
                .map(|w| u16::from_le_bytes(bytes(*w)))
                .collect(),
            i32s: words
                .iter()
                .map(|w| i32::from_le_bytes(bytes(*w)))
                .collect(),
            u32s: words
                .iter()
                .map(|w| u32::from_le_bytes(bytes(*w)))
                .collect(),
            i64s: words.iter().map(|w| w.cast_signed()).collect(),
            f32s: words
                .iter()
                .map(|w| f32::from_le_bytes(bytes(*w)))
                .collect(),
            f64s: words.iter().map(|w| f64::from_bits(*w)).collect(),
            u128s: words.iter().map(|w| u128::from(*w) << 37).collect(),
            i128s: words.iter().map(|w| i128::from(w.cast_signed())).collect(),
            wide: words.iter().map(|w| bytes(w >> 1)).collect(),
            hashes: words.iter().map(|w| w % (1 << PRECISION)).collect(),
            offsets,
            bytes: (0..total)
                .map(|at| b'a' + bytes::<1>(at as u64 % 26)[0])
                .collect(),
            shape: vec![2, 1],
            // Four per row, as long as the longest vector; arrays take two of them.
            elements: words
                .iter()
                .flat_map(|w| [f64::from_bits(*w), 1.5, -0.0, f64::from_bits(!*w)])
                .collect(),
            words,
        }
    }

    fn values(&self, ty: ColumnType, packed: bool) -> (Values<'_>, u8) {
        let values = match ty {
            ColumnType::Boolean if packed => Values::Bits {
                bits: &self.bits,
                offset: 3,
                rows: self.words.len(),
            },
            ColumnType::Boolean => Values::Bool(&self.bools),
            ColumnType::Byte => Values::I8(&self.i8s),
            ColumnType::Short => Values::I16(&self.i16s),
            ColumnType::Char => Values::U16(&self.u16s),
            ColumnType::Int => Values::I32(&self.i32s),
            ColumnType::Float => Values::F32(&self.f32s),
            ColumnType::Double => Values::F64(&self.f64s),
            ColumnType::Symbol | ColumnType::Ipv4 => Values::U32(&self.u32s),
            ColumnType::Uuid => Values::U128(&self.u128s),
            ColumnType::Long256 => Values::Wide(&self.wide),
            ColumnType::Geohash => return (Values::Geohash(&self.hashes), PRECISION),
            ColumnType::Decimal64 => return (Values::I64(&self.i64s), SCALE),
            ColumnType::Decimal128 => return (Values::I128(&self.i128s), SCALE),
            ColumnType::Decimal256 => return (Values::Wide(&self.wide), SCALE),
            ColumnType::Varchar | ColumnType::Binary => Values::Bytes {
                offsets: &self.offsets,
                bytes: &self.bytes,
            },
            ColumnType::DoubleArray if packed => Values::Vectors {
                offsets: &self.offsets,
                values: &self.elements,
            },
            ColumnType::DoubleArray => Values::Arrays {
                shape: &self.shape,
                values: &self.elements,
                rows: self.words.len(),
            },
            _ => Values::I64(&self.i64s),
        };
        (values, 0)
    }

    fn push(&self, column: &mut ColumnBuffer, row: usize, packed: bool) {
        let span = self.offsets[row] as usize..self.offsets[row + 1] as usize;
        let fine = match column.column_type() {
            ColumnType::Boolean => return column.push_bool(self.bools[row]),
            ColumnType::Byte => return column.push_i8(self.i8s[row]),
            ColumnType::Short => return column.push_i16(self.i16s[row]),
            ColumnType::Char => return column.push_char(self.u16s[row]),
            ColumnType::Int => return column.push_i32(self.i32s[row]),
            ColumnType::Float => return column.push_f32(self.f32s[row]),
            ColumnType::Double => return column.push_f64(self.f64s[row]),
            ColumnType::Symbol => return column.push_symbol(self.u32s[row]),
            ColumnType::Ipv4 => return column.push_ipv4(self.u32s[row]),
            ColumnType::Uuid => {
                let [lo, hi] = [self.u128s[row], self.u128s[row] >> 64];
                let half = |half: u128| u64::try_from(half & u128::from(u64::MAX)).expect("cut");
                return column.push_uuid(half(lo), half(hi));
            }
            ColumnType::Long256 => {
                let words = self.wide[row].as_chunks::<8>().0;
                let word = |at: usize| u64::from_le_bytes(words[at]);
                return column.push_long256([word(0), word(1), word(2), word(3)]);
            }
            ColumnType::Varchar => {
                let text = std::str::from_utf8(&self.bytes[span]).expect("ASCII");
                return column.push_str(text);
            }
            ColumnType::Binary => return column.push_bytes(&self.bytes[span]),
            ColumnType::Geohash => column.push_geohash(self.hashes[row], PRECISION),
            ColumnType::Decimal64 => column.push_decimal(self.i64s[row], SCALE),
            ColumnType::Decimal128 => column.push_decimal(self.i128s[row], SCALE),
            ColumnType::Decimal256 => column.push_decimal(self.wide[row], SCALE),
            ColumnType::DoubleArray if packed => {
                let values = self.elements[span].iter().copied();
                column.push_double_array(&[values.len()], values)
            }
            ColumnType::DoubleArray => {
                let values = self.elements[2 * row..2 * row + 2].iter().copied();
                column.push_double_array(&[2, 1], values)
            }
            _ => return column.push_i64(self.i64s[row]),
        };
        fine.expect("a legal value");
    }

    fn pushed(
        &self,
        ty: ColumnType,
        rows: Range<usize>,
        valid: &[bool],
        packed: bool,
    ) -> ColumnBuffer {
        let mut column = ColumnBuffer::new(ty);
        for row in rows {
            if valid[row] {
                self.push(&mut column, row, packed);
            } else {
                column.push_null();
            }
        }
        column
    }
}

fn encoded(column: &ColumnBuffer) -> Vec<u8> {
    let mut out = vec![0; column.encoded_len()];
    assert_eq!(column.encode(&mut out), out.len());
    out
}

fn check(words: Vec<u64>, valid: &[bool], all_valid: bool, rows: Range<usize>, offset: usize) {
    let memory = Memory::new(words);
    let valid: Vec<bool> = valid.iter().map(|valid| *valid || all_valid).collect();
    let mut bitmap = vec![0xff; (valid.len() + offset).div_ceil(8)];
    for (row, valid) in valid.iter().enumerate() {
        let bit = row + offset;
        bitmap[bit / 8] &= !(u8::from(!valid) << (bit % 8));
    }
    let validity = (!all_valid).then(|| Validity::new(&bitmap, offset));
    for ty in ColumnType::ALL
        .into_iter()
        .filter(|ty| *ty != ColumnType::LongArray)
    {
        for packed in [false, true] {
            let (values, parameter) = memory.values(ty, packed);
            let column = SliceColumn {
                ty,
                values,
                validity,
                parameter,
            };
            let pushed = memory.pushed(ty, rows.clone(), &valid, packed);
            let none = rows.clone().all(|row| !valid[row]);
            if none && parameter > 0 {
                continue; // a column without values has no scale of its own when pushed
            }
            let mut out = vec![0xaa; column.encoded_len(rows.clone())];
            assert_eq!(column.encode(rows.clone(), &mut out), out.len());
            assert_eq!(out, encoded(&pushed), "{ty:?} {rows:?} packed {packed}");
            assert_eq!(
                column.symbol_run(rows.clone()),
                pushed.symbol_run(),
                "{ty:?}"
            );
            let whole = memory.pushed(ty, 0..valid.len(), &valid, packed);
            assert_eq!(
                encoded(&whole.slice(rows.clone())),
                out,
                "{ty:?} {rows:?} sliced"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn slices_are_written_like_rows(
        rows in vec((any::<u64>(), any::<bool>()), 1..40),
        all_valid in any::<bool>(),
        offset in 0..9_usize,
        cut in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let (a, b) = (cut.0.index(rows.len() + 1), cut.1.index(rows.len() + 1));
        let (words, valid): (Vec<u64>, Vec<bool>) = rows.into_iter().unzip();
        check(words, &valid, all_valid, a.min(b)..a.max(b), offset);
    }
}
