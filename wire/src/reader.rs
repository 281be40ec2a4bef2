//! A cursor over one message, used by every decoder. It keeps absolute offsets, so that an error
//! names the byte of the message, and knows how strict to be about varints.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

use crate::decode::{DecodeError, Mode, Reason, StrictRule};
use crate::varint::{self, VarintError};

/// The cursor. Copying it is how decoders look ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    mode: Mode,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], at: usize, mode: Mode) -> Self {
        Self {
            bytes,
            at: at.min(bytes.len()),
            mode,
        }
    }

    /// Offset of the next byte from the start of the message.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// The bytes from `start` (an offset this reader returned) to here.
    #[inline]
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn fail<T>(&self, reason: Reason) -> Result<T, DecodeError> {
        Err(DecodeError::new(self.at, reason))
    }

    /// The next `count` bytes.
    #[inline]
    pub(crate) fn take(&mut self, count: usize, short: Reason) -> Result<&'a [u8], DecodeError> {
        match self.rest().split_at_checked(count) {
            Some((head, _)) => {
                self.at = self.at.saturating_add(count);
                Ok(head)
            }
            None => self.fail(short),
        }
    }

    /// `count` values of `width` bytes; the product may be beyond any message.
    #[inline]
    pub(crate) fn take_values(
        &mut self,
        count: usize,
        width: usize,
        short: Reason,
    ) -> Result<&'a [u8], DecodeError> {
        match count.checked_mul(width) {
            Some(bytes) => self.take(bytes, short),
            None => self.fail(short),
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self, short: Reason) -> Result<u8, DecodeError> {
        match self.bytes.get(self.at) {
            Some(&byte) => {
                self.at = self.at.saturating_add(1);
                Ok(byte)
            }
            None => self.fail(short),
        }
    }

    #[inline]
    pub(crate) fn varint(&mut self, short: Reason) -> Result<u64, DecodeError> {
        match varint::decode(self.rest()) {
            Ok((value, used)) => {
                if self.mode == Mode::Strict && used != varint::len(value) {
                    return self.fail(Reason::Strict(StrictRule::PaddedVarint));
                }
                self.at = self.at.saturating_add(used);
                Ok(value)
            }
            Err(VarintError::Truncated) => self.fail(short),
            Err(VarintError::Overflow) => self.fail(Reason::VarintOverflow),
        }
    }

    /// A varint that is used as a length or a count; beyond `usize` it cannot be there.
    #[inline]
    pub(crate) fn length(&mut self, short: Reason) -> Result<usize, DecodeError> {
        let start = *self;
        match usize::try_from(self.varint(short)?) {
            Ok(length) => Ok(length),
            Err(_) => start.fail(short),
        }
    }

    /// Length-prefixed UTF-8.
    pub(crate) fn text(&mut self, short: Reason, bad: Reason) -> Result<&'a str, DecodeError> {
        let start = *self;
        let length = self.length(short)?;
        let body = *self;
        match std::str::from_utf8(self.take(length, short).map_err(|e| e.moved_to(start.at))?) {
            Ok(text) => Ok(text),
            Err(e) => Err(DecodeError::new(
                body.at.saturating_add(e.valid_up_to()),
                bad,
            )),
        }
    }

    /// Moves on by `count` bytes that a scan has just seen.
    #[inline]
    pub(crate) fn skip_seen(&mut self, count: usize) {
        self.at = self.at.saturating_add(count).min(self.bytes.len());
    }
}
