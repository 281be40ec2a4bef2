//! Reading an answer. Every check is exact: a byte too many is as wrong as one too few.

use super::{ERROR_TEXT_BYTES_MAX, Response, Status};

/// Why an answer is malformed. A sender counts it as a strike and paces its reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// No byte at all.
    #[error("server answer is empty")]
    Empty,
    /// Bytes are missing.
    #[error("server answer is cut off at byte {offset}")]
    Truncated {
        /// Where more bytes were due.
        offset: usize,
    },
    /// Bytes are left over.
    #[error("server answer has {bytes} bytes too many at byte {offset}")]
    Surplus {
        /// Where the answer should have ended.
        offset: usize,
        /// How many there are.
        bytes: usize,
    },
    /// A table name of no bytes.
    #[error("server answer has an empty table name at byte {offset}")]
    EmptyName {
        /// Offset of the name's length.
        offset: usize,
    },
    /// Text that is not UTF-8.
    #[error("server answer is not UTF-8 at byte {offset}")]
    NotUtf8 {
        /// Offset of the first bad byte.
        offset: usize,
    },
    /// More error text than the protocol allows.
    #[error("server answer has {bytes} bytes of error text, at most 1024 are allowed")]
    TextTooLong {
        /// The announced length.
        bytes: u16,
    },
}

/// The table list of an acknowledgement, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableAcks<'a> {
    count: u16,
    entries: &'a [u8],
}

impl<'a> TableAcks<'a> {
    /// Number of tables.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether no table is named.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Name and transaction number of each table.
    pub fn iter(&self) -> TableAcksIter<'a> {
        TableAcksIter {
            rest: Cursor {
                bytes: self.entries,
                at: 0,
            },
        }
    }
}

impl<'a> IntoIterator for &TableAcks<'a> {
    type Item = (&'a str, i64);
    type IntoIter = TableAcksIter<'a>;

    fn into_iter(self) -> TableAcksIter<'a> {
        self.iter()
    }
}

/// Iterator over [`TableAcks`].
#[derive(Clone, Debug)]
pub struct TableAcksIter<'a> {
    rest: Cursor<'a>,
}

impl<'a> Iterator for TableAcksIter<'a> {
    type Item = (&'a str, i64);

    fn next(&mut self) -> Option<Self::Item> {
        // The list was checked when it was parsed: an error only ever means the end.
        self.rest.entry().ok()
    }
}

/// Reads an answer; 0x0E is a local durable acknowledgement.
///
/// ```
/// use forebay_wire::response::{Response, parse};
/// let answer = parse(&[0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
/// assert!(matches!(answer, Response::Ok { seq: 7, tables } if tables.is_empty()));
/// # Ok::<(), forebay_wire::response::ResponseError>(())
/// ```
pub fn parse(bytes: &[u8]) -> Result<Response<'_>, ResponseError> {
    parse_with(bytes, true)
}

/// Reads an answer. Unless the server granted the `local` tier, 0x0E is one more unknown error
/// status, with an error's layout.
pub fn parse_with(bytes: &[u8], local_tier: bool) -> Result<Response<'_>, ResponseError> {
    let Some((&code, _)) = bytes.split_first() else {
        return Err(ResponseError::Empty);
    };
    let mut cursor = Cursor { bytes, at: 1 };
    let response = match Status::from_code(code) {
        Status::Ok => {
            let seq = cursor.int()?;
            Response::Ok {
                seq,
                tables: cursor.tables()?,
            }
        }
        Status::DurableAck => Response::DurableAck {
            tables: cursor.tables()?,
        },
        Status::LocalDurableAck if local_tier => Response::LocalDurableAck {
            tables: cursor.tables()?,
        },
        Status::LocalDurableAck => cursor.error(Status::Unknown(code))?,
        status => cursor.error(status)?,
    };
    match bytes.len().saturating_sub(cursor.at) {
        0 => Ok(response),
        surplus => Err(ResponseError::Surplus {
            offset: cursor.at,
            bytes: surplus,
        }),
    }
}

#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ResponseError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match rest.split_at_checked(count) {
            Some((head, _)) => {
                self.at = self.at.saturating_add(count);
                Ok(head)
            }
            None => Err(ResponseError::Truncated {
                offset: self.bytes.len(),
            }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ResponseError> {
        let taken = self.take(N)?;
        taken
            .try_into()
            .map_err(|_| ResponseError::Truncated { offset: self.at })
    }

    fn int(&mut self) -> Result<i64, ResponseError> {
        self.array().map(i64::from_le_bytes)
    }

    fn short(&mut self) -> Result<u16, ResponseError> {
        self.array().map(u16::from_le_bytes)
    }

    fn text(&mut self, length: u16) -> Result<&'a str, ResponseError> {
        let start = self.at;
        std::str::from_utf8(self.take(usize::from(length))?).map_err(|e| ResponseError::NotUtf8 {
            offset: start.saturating_add(e.valid_up_to()),
        })
    }

    fn entry(&mut self) -> Result<(&'a str, i64), ResponseError> {
        let offset = self.at;
        let length = self.short()?;
        if length == 0 {
            return Err(ResponseError::EmptyName { offset });
        }
        Ok((self.text(length)?, self.int()?))
    }

    fn tables(&mut self) -> Result<TableAcks<'a>, ResponseError> {
        let count = self.short()?;
        let start = self.at;
        for _ in 0..count {
            self.entry()?;
        }
        let entries = self.bytes.get(start..self.at).unwrap_or_default();
        Ok(TableAcks { count, entries })
    }

    fn error(&mut self, status: Status) -> Result<Response<'a>, ResponseError> {
        let seq = self.int()?;
        let length = self.short()?;
        if usize::from(length) > ERROR_TEXT_BYTES_MAX {
            return Err(ResponseError::TextTooLong { bytes: length });
        }
        Ok(Response::Error {
            status,
            seq,
            message: self.text(length)?,
        })
    }
}
