//! The symbol dictionary that a server keeps per connection (protocol.md section 9).
//!
//! A delta section is checked as a whole when its message is parsed, so applying it never stops
//! half-way: a section that fails leaves the dictionary as it was, and one that is applied stays,
//! even if a later part of the message is refused.

use crate::decode::{Delta, split_entry};
use crate::response::Status;

/// Most ids of one connection.
pub const SYMBOLS_MAX: u64 = 2_000_000;
/// Most bytes of text of one connection; the genuine server has no such limit of its own.
pub const TEXT_BYTES_MAX: usize = u32::MAX as usize;
/// Dead text is not worth compacting below this many bytes.
const GARBAGE_BYTES_MIN: usize = 1 << 20;

/// Why a delta cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DictError {
    /// The delta starts beyond what the connection knows.
    #[error("delta symbol dictionary gap: deltaStartId {start} exceeds dictionary size {size}")]
    Gap {
        /// First id of the delta.
        start: u64,
        /// Ids known.
        size: u64,
    },
    /// More ids than [`SYMBOLS_MAX`]. Parsing refuses such a delta already.
    #[error("delta symbol dictionary size exceeds limit")]
    Limit,
    /// More text than [`TEXT_BYTES_MAX`].
    #[error("delta symbol dictionary holds more than 4294967295 bytes of text")]
    TextLimit,
}

impl DictError {
    /// The status that a server answers with.
    pub const fn status(&self) -> Status {
        match self {
            Self::Gap { .. } => Status::DictionaryGap,
            Self::Limit | Self::TextLimit => Status::ParseError,
        }
    }
}

/// Where an id's text lies.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u32,
}

/// All symbols of one connection. Texts lie one after another in one string.
#[derive(Clone, Debug, Default)]
pub struct ConnectionDict {
    text: String,
    spans: Vec<Span>,
    garbage_bytes: usize,
}

impl ConnectionDict {
    /// An empty dictionary.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of ids; they are dense from 0.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether no id is known.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The text of an id.
    #[inline]
    pub fn get(&self, id: u64) -> Option<&str> {
        self.spans
            .get(usize::try_from(id).ok()?)
            .and_then(|span| self.slice(*span))
    }

    /// Registers a message's symbols. Ids that are known already are overwritten, which is the
    /// normal case when a queue is replayed; a different text redefines the id.
    pub fn apply(&mut self, delta: &Delta<'_>) -> Result<(), DictError> {
        let size = self.spans.len() as u64;
        if delta.start() > size {
            return Err(DictError::Gap {
                start: delta.start(),
                size,
            });
        }
        if delta.start() + delta.count() > SYMBOLS_MAX {
            return Err(DictError::Limit);
        }
        if self.text.len() + delta.entry_bytes().len() > TEXT_BYTES_MAX {
            self.compact();
            if self.text.len() + delta.entry_bytes().len() > TEXT_BYTES_MAX {
                return Err(DictError::TextLimit);
            }
        }
        let mut rest = delta.entry_bytes();
        let mut id = usize::try_from(delta.start()).unwrap_or(usize::MAX);
        while let Some((text, tail)) = split_entry(rest) {
            self.put(id, text);
            id += 1;
            rest = tail;
        }
        if self.garbage_bytes > GARBAGE_BYTES_MIN.max(self.text.len() / 2) {
            self.compact();
        }
        Ok(())
    }

    /// Forgets everything, as a new connection does; memory is kept.
    pub fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
        self.garbage_bytes = 0;
    }

    fn put(&mut self, id: usize, text: &str) {
        let known = self.spans.get(id).copied();
        if known.and_then(|span| self.slice(span)) == Some(text) {
            return;
        }
        // `apply` kept the total below `TEXT_BYTES_MAX`, so neither number is cut.
        let span = Span {
            start: u32::try_from(self.text.len()).unwrap_or(u32::MAX),
            len: u32::try_from(text.len()).unwrap_or(u32::MAX),
        };
        self.text.push_str(text);
        match self.spans.get_mut(id) {
            Some(old) => {
                self.garbage_bytes += old.len as usize;
                *old = span;
            }
            None => self.spans.push(span),
        }
    }

    fn slice(&self, span: Span) -> Option<&str> {
        let start = span.start as usize;
        self.text.get(start..start + span.len as usize)
    }

    /// Copies the live texts together.
    fn compact(&mut self) {
        let mut text = String::with_capacity(self.text.len() - self.garbage_bytes);
        for span in &mut self.spans {
            let start = span.start as usize;
            let live = self
                .text
                .get(start..start + span.len as usize)
                .unwrap_or_default();
            span.start = u32::try_from(text.len()).unwrap_or(u32::MAX);
            text.push_str(live);
        }
        self.text = text;
        self.garbage_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control;
    use crate::decode::{Message, Mode};
    use crate::varint;

    fn apply(dict: &mut ConnectionDict, start: u64, texts: &[&str]) -> Result<(), DictError> {
        let mut entries = Vec::new();
        for text in texts {
            varint::push(text.len() as u64, &mut entries);
            entries.extend_from_slice(text.as_bytes());
        }
        let mut bytes = Vec::new();
        control::write_catch_up(&mut bytes, start, texts.len() as u64, &entries);
        dict.apply(
            &Message::parse(&bytes, Mode::Strict)
                .unwrap()
                .delta()
                .unwrap(),
        )
    }

    #[test]
    fn a_gap_names_both_numbers_and_changes_nothing() {
        let mut dict = ConnectionDict::new();
        let error = apply(&mut dict, 3, &["x"]).unwrap_err();
        assert_eq!(error, DictError::Gap { start: 3, size: 0 });
        assert_eq!(error.status(), Status::DictionaryGap);
        let text = "delta symbol dictionary gap: deltaStartId 3 exceeds dictionary size 0";
        assert_eq!(error.to_string(), text);
        assert!(dict.is_empty());
    }

    #[test]
    fn overlap_keeps_what_is_equal_and_redefines_what_is_not() {
        let mut dict = ConnectionDict::new();
        apply(&mut dict, 0, &["a", "b", "c"]).unwrap();
        apply(&mut dict, 1, &["b", "CC", "d"]).unwrap();
        let all: Vec<_> = (0..5).map(|id| dict.get(id)).collect();
        assert_eq!(all, [Some("a"), Some("b"), Some("CC"), Some("d"), None]);
        assert_eq!(dict.len(), 4);
    }

    #[test]
    fn endless_redefinition_does_not_grow_without_bound() {
        let mut dict = ConnectionDict::new();
        let texts = ["x".repeat(600_000), "y".repeat(600_000)];
        for round in 0..20 {
            apply(&mut dict, 0, &[&texts[round % 2], "stays"]).unwrap();
        }
        assert_eq!(dict.get(0), Some(texts[1].as_str()));
        assert_eq!(dict.get(1), Some("stays"));
        assert!(
            dict.text.len() < 4_000_000,
            "{} bytes kept",
            dict.text.len()
        );
    }
}
