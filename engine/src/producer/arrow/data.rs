//! What an Arrow column becomes: borrowed where the memory has the form that a chunk takes.

use std::borrow::Cow;

use arrow_buffer::NullBuffer;
use forebay_wire::types::ColumnType;

use crate::error::Error;
use crate::producer::{Chunk, Nulls};

/// A column of the batch, ready to be added to a chunk.
pub(super) struct Converted<'a> {
    pub(super) name: &'a str,
    pub(super) nulls: Option<NullBuffer>,
    pub(super) data: Data<'a>,
}

/// Values by the form in which a chunk takes them.
pub(super) enum Data<'a> {
    Bits {
        bits: &'a [u8],
        offset: usize,
    },
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(Cow<'a, [i32]>),
    Long(Cow<'a, [i64]>),
    /// DATE, TIMESTAMP or `TIMESTAMP_NANOS`.
    Time(ColumnType, Cow<'a, [i64]>),
    F32(Cow<'a, [f32]>),
    F64(&'a [f64]),
    Char(&'a [u16]),
    Ipv4(&'a [u32]),
    Uuid(Vec<u128>),
    Long256(&'a [[u8; 32]]),
    Dec64(Cow<'a, [i64]>, u8),
    Dec128(&'a [i128], u8),
    Dec256(&'a [[u8; 32]], u8),
    Text(Cow<'a, [u32]>, Cow<'a, str>),
    Binary(Cow<'a, [u32]>, Cow<'a, [u8]>),
    SymbolText(Cow<'a, [u32]>, Cow<'a, str>),
    SymbolCodes(Cow<'a, [u32]>, Vec<&'a str>),
    Arrays(Vec<u32>, &'a [f64]),
    Vectors(Cow<'a, [u32]>, &'a [f64]),
}

impl Converted<'_> {
    fn nulls(&self) -> Nulls<'_> {
        match &self.nulls {
            Some(nulls) if nulls.null_count() > 0 => {
                Nulls::from_validity(nulls.validity(), nulls.offset())
            }
            _ => Nulls::NONE,
        }
    }

    /// Adds the column to the chunk.
    pub(super) fn add<'c>(&'c self, chunk: &mut Chunk<'c>, rows: usize) -> Result<(), Error> {
        let (name, nulls) = (self.name, self.nulls());
        match &self.data {
            Data::Bits { bits, offset } => chunk.bits(name, bits, *offset, rows, nulls),
            Data::I8(v) => chunk.i8(name, v, nulls),
            Data::I16(v) => chunk.i16(name, v, nulls),
            Data::I32(v) => chunk.i32(name, v, nulls),
            Data::Long(v) => chunk.i64(name, v, nulls),
            Data::Time(ColumnType::Date, v) => chunk.date(name, v, nulls),
            Data::Time(ColumnType::Timestamp, v) => chunk.ts_micros(name, v, nulls),
            Data::Time(_, v) => chunk.ts_nanos(name, v, nulls),
            Data::F32(v) => chunk.f32(name, v, nulls),
            Data::F64(v) => chunk.f64(name, v, nulls),
            Data::Char(v) => chunk.char(name, v, nulls),
            Data::Ipv4(v) => chunk.ipv4(name, v, nulls),
            Data::Uuid(v) => chunk.uuid(name, v, nulls),
            Data::Long256(v) => chunk.long256(name, v, nulls),
            Data::Dec64(v, scale) => chunk.dec64(name, v, *scale, nulls),
            Data::Dec128(v, scale) => chunk.dec128(name, v, *scale, nulls),
            Data::Dec256(v, scale) => chunk.dec256(name, v, *scale, nulls),
            Data::Text(ends, text) => chunk.text(name, ends, text, nulls),
            Data::Binary(ends, bytes) => chunk.binary(name, ends, bytes, nulls),
            Data::SymbolText(ends, text) => chunk.symbol_text(name, ends, text, nulls),
            Data::SymbolCodes(codes, words) => chunk.symbol_codes(name, codes, words, nulls),
            Data::Arrays(shape, v) => chunk.arrays(name, shape, v, rows, nulls),
            Data::Vectors(ends, v) => chunk.vectors(name, ends, v, nulls),
        }
        .map(drop)
    }

    /// Adds the column as the designated timestamps.
    pub(super) fn add_designated<'c>(&'c self, chunk: &mut Chunk<'c>) -> Result<(), Error> {
        if let Some(row) = self.nulls.as_ref().and_then(first_null) {
            let reason = format!("row {row}: a designated timestamp must not be null");
            return Err(chunk.refused(self.name, reason));
        }
        match &self.data {
            Data::Time(ColumnType::TimestampNanos, v) => chunk.at_nanos(v).map(drop),
            Data::Time(ColumnType::Timestamp, v) => chunk.at_micros(v).map(drop),
            _ => {
                let reason = "designated timestamps are Timestamp(s), (us) or (ns)".to_owned();
                Err(chunk.refused(self.name, reason))
            }
        }
    }
}

fn first_null(nulls: &NullBuffer) -> Option<usize> {
    (0..nulls.len()).find(|row| nulls.is_null(*row))
}
