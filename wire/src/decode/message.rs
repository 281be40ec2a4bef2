//! The message as a whole: header, delta dictionary, then a walk over the table blocks.

use super::table::Context;
use super::{DecodeError, Delta, Mode, Reason, StrictRule, Tables};
use crate::header::{Flags, HEADER_LEN, Header, PAYLOAD_BYTES_MAX};
use crate::reader::Reader;

/// A message whose header and delta section are known to be well-formed.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    header: Header,
    delta: Option<Delta<'a>>,
    blocks: Reader<'a>,
    mode: Mode,
}

impl<'a> Message<'a> {
    /// Checks header and delta dictionary (every entry), in the order of protocol.md section 10.6.
    ///
    /// Bytes after the payload are tolerated in [`Mode::Genuine`].
    pub fn parse(bytes: &'a [u8], mode: Mode) -> Result<Self, DecodeError> {
        let header = Header::parse(bytes)?;
        let payload_len = header.payload_len;
        if payload_len > PAYLOAD_BYTES_MAX {
            return Err(DecodeError::new(8, Reason::PayloadTooLarge { payload_len }));
        }
        let available = bytes.len().saturating_sub(HEADER_LEN);
        let payload = usize::try_from(payload_len).unwrap_or(usize::MAX);
        if payload > available {
            return Err(DecodeError::new(
                8,
                Reason::PayloadBeyondData {
                    payload_len,
                    available,
                },
            ));
        }
        let end = HEADER_LEN.saturating_add(payload);
        if mode == Mode::Strict {
            check_strict(header, end, bytes.len())?;
        }
        let used = bytes.get(..end).unwrap_or_default();
        let mut blocks = Reader::new(used, HEADER_LEN, mode);
        let delta = if header.flags.contains(Flags::DELTA_SYMBOL_DICT) {
            Some(Delta::read(&mut blocks)?)
        } else {
            None
        };
        Ok(Self {
            header,
            delta,
            blocks,
            mode,
        })
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> Header {
        self.header
    }

    /// The delta dictionary, when the message has one.
    #[inline]
    pub fn delta(&self) -> Option<Delta<'a>> {
        self.delta
    }

    /// The table blocks in order. Each is checked to its last byte before it is handed out; the
    /// walk ends at the first error.
    #[inline]
    pub fn tables(&self) -> Tables<'a> {
        self.walk(None)
    }

    /// Like [`Message::tables`], and refuses connection-wide symbol ids of `symbols` and more:
    /// the size of the receiver's dictionary once this message's delta is in it.
    #[inline]
    pub fn tables_within(&self, symbols: u64) -> Tables<'a> {
        self.walk(Some(symbols))
    }

    fn walk(&self, symbols: Option<u64>) -> Tables<'a> {
        let context = Context {
            flags: self.header.flags,
            mode: self.mode,
            symbols,
        };
        Tables::new(self.blocks, self.header.table_count, context)
    }
}

fn check_strict(header: Header, end: usize, len: usize) -> Result<(), DecodeError> {
    let bits = header.flags.reserved();
    if bits != 0 {
        return Err(DecodeError::new(
            5,
            Reason::Strict(StrictRule::ReservedFlags { bits }),
        ));
    }
    if len > end {
        let bytes = len.saturating_sub(end);
        return Err(DecodeError::new(
            end,
            Reason::Strict(StrictRule::PayloadSurplus { bytes }),
        ));
    }
    Ok(())
}
