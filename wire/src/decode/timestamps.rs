//! Timestamps: plain, or delta-of-delta coded when the message's flag allows it.

use super::fixed::{Fixed, FixedIter};
use super::{DecodeError, Reason};
use crate::gorilla::Decoder;
use crate::reader::Reader;
use crate::types::ColumnType;

/// How the values of a timestamp column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampEncoding {
    /// Plain, in a message without the Gorilla flag: there is no encoding byte.
    Unmarked,
    /// Plain, encoding byte 0.
    Plain,
    /// Delta-of-delta, encoding byte 1.
    Gorilla,
}

/// The values of a TIMESTAMP or `TIMESTAMP_NANOS` column.
#[derive(Clone, Copy, Debug)]
pub struct Timestamps<'a> {
    encoding: TimestampEncoding,
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Timestamps<'a> {
    pub(super) fn read(
        reader: &mut Reader<'a>,
        ty: ColumnType,
        count: usize,
        marked: bool,
    ) -> Result<Self, DecodeError> {
        let short = Reason::ValuesTruncated { ty };
        let start = *reader;
        let encoding = if marked {
            match reader.byte(short)? {
                0 => TimestampEncoding::Plain,
                1 => TimestampEncoding::Gorilla,
                code => return start.fail(Reason::TimestampEncoding { code }),
            }
        } else {
            TimestampEncoding::Unmarked
        };
        let bytes = if encoding == TimestampEncoding::Gorilla {
            let mut stream = Decoder::new(reader.rest(), count);
            for value in stream.by_ref() {
                if value.is_err() {
                    return reader.fail(short);
                }
            }
            reader.take(stream.bytes_used(), short)?
        } else {
            reader.take_values(count, 8, short)?
        };
        Ok(Self {
            encoding,
            count,
            bytes,
        })
    }

    /// How the values are written.
    #[inline]
    pub fn encoding(&self) -> TimestampEncoding {
        self.encoding
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The values with random access, unless they are delta-of-delta coded.
    #[inline]
    pub fn plain(&self) -> Option<Fixed<'a, i64>> {
        (self.encoding != TimestampEncoding::Gorilla).then(|| Fixed::new(self.bytes))
    }

    /// The values in order, in the unit of the column's type.
    #[inline]
    pub fn iter(&self) -> TimestampsIter<'a> {
        match self.plain() {
            Some(values) => TimestampsIter(Form::Plain(values.iter())),
            None => TimestampsIter(Form::Gorilla(Decoder::new(self.bytes, self.count))),
        }
    }
}

impl<'a> IntoIterator for &Timestamps<'a> {
    type Item = i64;
    type IntoIter = TimestampsIter<'a>;

    fn into_iter(self) -> TimestampsIter<'a> {
        self.iter()
    }
}

/// Iterator over [`Timestamps`].
#[derive(Clone, Debug)]
pub struct TimestampsIter<'a>(Form<'a>);

#[derive(Clone, Debug)]
enum Form<'a> {
    Plain(FixedIter<'a, i64>),
    Gorilla(Decoder<'a>),
}

impl Iterator for TimestampsIter<'_> {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        match &mut self.0 {
            Form::Plain(values) => values.next(),
            // The stream was read through when the column was checked.
            Form::Gorilla(stream) => stream.next()?.ok(),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Form::Plain(values) => values.size_hint(),
            Form::Gorilla(stream) => (stream.remaining(), Some(stream.remaining())),
        }
    }
}

impl ExactSizeIterator for TimestampsIter<'_> {}
