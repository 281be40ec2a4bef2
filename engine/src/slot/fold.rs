//! Completing the symbol dictionary from the frames (slot-format.md section 4, Rebuild).
//!
//! A frame starts with the symbols that it introduces. Folding every frame's delta, in FSN order,
//! over what the file holds restores ids whose chunk was lost. A frame may lean on ids below its
//! `delta_start` only; so a frame is deliverable exactly when its start is covered and it redefines
//! nothing.

#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![deny(clippy::arithmetic_side_effects)]

use forebay_wire::varint;

use super::chunk::split_entry;
use super::dictionary::Dictionary;
use crate::fsn::Fsn;

/// How far into a payload a symbol delta is looked for: a message has at most 16 MiB.
pub(crate) const DELTA_PREFIX_LEN: usize = 16 << 20;

const MESSAGE_HEADER_LEN: usize = 12;
const MAGIC: &[u8] = b"QWP1";
const DELTA_FLAG: u8 = 0x08;
const DEFER_COMMIT_FLAG: u8 = 0x01;

/// Whether a message that starts like this carries a symbol delta.
pub(crate) fn has_delta(message: &[u8]) -> bool {
    message.starts_with(MAGIC) && message.get(5).is_some_and(|flags| flags & DELTA_FLAG != 0)
}

/// Whether a message that starts like this is known to leave its commit to a later one.
pub(crate) fn defers_commit(message: &[u8]) -> bool {
    let flags = message.get(5).copied().unwrap_or_default();
    message.len() >= MESSAGE_HEADER_LEN
        && message.starts_with(MAGIC)
        && flags & DEFER_COMMIT_FLAG != 0
}

/// A frame that the dictionary does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// FSN of the frame.
    pub fsn: Fsn,
    /// Offset of the frame in its file.
    pub offset: u64,
    /// Name of its file.
    pub file: String,
    /// What does not fit.
    pub reason: String,
}

/// A dictionary that grows by the frames shown to it.
#[derive(Debug)]
pub(crate) struct Fold {
    /// All ids known so far.
    pub dictionary: Dictionary,
    /// The first FSN that the watermark does not call acked, true or not.
    claimed: Fsn,
    /// The first frame that did not fit.
    first: Option<Misfit>,
    /// The first from `claimed` on that did not fit.
    first_unacked: Option<Misfit>,
    /// Ids of the file, and of the frames up to the last that commits.
    committed: u32,
}

impl Fold {
    /// Starts from what the file holds, with the first FSN that the watermark does not call acked.
    pub(crate) fn new(dictionary: Dictionary, claimed: Fsn) -> Self {
        Self {
            committed: dictionary.len(),
            dictionary,
            claimed,
            first: None,
            first_unacked: None,
        }
    }

    /// The first frame that did not fit and must be delivered; the watermark is believed or not.
    /// Frames from `end` on are never delivered.
    pub(crate) fn misfit(&mut self, believed: bool, end: Fsn) -> Option<Misfit> {
        let first = if believed {
            self.first_unacked.take()
        } else {
            self.first.take()
        };
        first.filter(|misfit| misfit.fsn < end)
    }

    /// All ids, without those that only an unfinished group of frames introduced.
    pub(crate) fn into_dictionary(self) -> Dictionary {
        let mut dictionary = self.dictionary;
        dictionary.truncate(self.committed);
        dictionary
    }

    /// Folds the delta of one frame's payload.
    pub(crate) fn frame(&mut self, fsn: Fsn, file: &str, offset: u64, payload: &[u8]) {
        if has_delta(payload)
            && let Err(reason) = self.delta(payload)
        {
            let misfit = Misfit {
                fsn,
                offset,
                file: file.to_owned(),
                reason,
            };
            if fsn >= self.claimed {
                self.first_unacked.get_or_insert_with(|| misfit.clone());
            }
            self.first.get_or_insert(misfit);
        }
        if !defers_commit(payload) {
            self.committed = self.dictionary.len();
        }
    }

    fn delta(&mut self, payload: &[u8]) -> Result<(), String> {
        let cut = || "the symbol delta of the frame is cut off or malformed".to_owned();
        let body = payload.get(MESSAGE_HEADER_LEN..).ok_or_else(cut)?;
        let (start, used) = varint::decode(body).map_err(|_| cut())?;
        let body = body.get(used..).ok_or_else(cut)?;
        let (count, used) = varint::decode(body).map_err(|_| cut())?;
        let mut entries = body.get(used..).ok_or_else(cut)?;
        let known = u64::from(self.dictionary.len());
        if start > known {
            return Err(format!(
                "the frame needs symbol ids 0..{start}, .symbol-dict and the frames before it \
                 hold 0..{known}"
            ));
        }
        // A hostile count ends with the entries: each takes at least one byte.
        let mut left = count;
        let mut id = start;
        while left > 0 {
            let (symbol, rest) = split_entry(entries).ok_or_else(cut)?;
            self.entry(id, symbol)?;
            entries = rest;
            left = left.saturating_sub(1);
            id = id.saturating_add(1);
        }
        Ok(())
    }

    fn entry(&mut self, id: u64, symbol: &str) -> Result<(), String> {
        let stored = u32::try_from(id)
            .ok()
            .and_then(|id| self.dictionary.get(id));
        match stored {
            Some(stored) if stored == symbol => Ok(()),
            Some(_) => Err(format!("the frame gives symbol id {id} another string")),
            None => self
                .dictionary
                .append(symbol)
                .map(drop)
                .map_err(|full| full.to_string()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "positions of the test")]
mod tests {
    use super::*;

    const ALL: Fsn = Fsn(u64::MAX);

    fn message(start: u64, symbols: &[&str]) -> Vec<u8> {
        let mut out = b"QWP1\x01\x08\x01\0\0\0\0\0".to_vec();
        varint::push(start, &mut out);
        varint::push(symbols.len() as u64, &mut out);
        for symbol in symbols {
            varint::push(symbol.len() as u64, &mut out);
            out.extend_from_slice(symbol.as_bytes());
        }
        out.extend_from_slice(b"table block");
        out
    }

    fn folded(messages: &[Vec<u8>]) -> Fold {
        let mut fold = Fold::new(Dictionary::new(), Fsn(1));
        for (fsn, message) in messages.iter().enumerate() {
            fold.frame(Fsn(fsn as u64), "f.sfa", 24, message);
        }
        fold
    }

    #[test]
    fn deltas_complete_the_dictionary() {
        let mut fold = folded(&[
            message(0, &["one"]),
            message(1, &["two", "three"]),
            message(3, &[]),
            message(0, &["one", "two", "three", "four"]),
            b"not a message".to_vec(),
        ]);
        assert_eq!(
            (fold.misfit(true, ALL), fold.misfit(false, ALL)),
            (None, None)
        );
        assert_eq!(
            fold.dictionary.entries(0, 4),
            b"\x03one\x03two\x05three\x04four"
        );
    }

    #[test]
    fn an_unfinished_group_adds_no_symbols_and_needs_none() {
        let deferred = |start, symbols: &[&str]| {
            let mut message = message(start, symbols);
            message[5] |= DEFER_COMMIT_FLAG;
            message
        };
        let mut fold = folded(&[
            deferred(0, &["one"]),
            message(1, &["two"]),
            deferred(2, &["three"]),
            deferred(9, &["ten"]),
        ]);
        assert_eq!(fold.misfit(true, Fsn(2)), None);
        assert_eq!(fold.into_dictionary().len(), 2, "the second group is open");
    }

    #[test]
    fn a_gap_a_redefinition_and_a_lie_are_misfits() {
        let mut gap = folded(&[
            message(1, &["two"]),
            message(0, &["one"]),
            message(2, &["three"]),
            message(3, &["four"]),
        ]);
        assert_eq!(gap.dictionary.len(), 1);
        assert_eq!(gap.misfit(true, ALL).map(|m| m.fsn), Some(Fsn(2)));
        assert_eq!(gap.misfit(false, ALL).map(|m| m.fsn), Some(Fsn(0)));
        let mut redefined = folded(&[message(0, &["one"]), message(0, &["uno"])]);
        let reason = redefined.misfit(true, ALL).unwrap().reason;
        assert_eq!(reason, "the frame gives symbol id 0 another string");
        let mut lie = message(0, &["one"]);
        lie.truncate(16);
        assert!(folded(&[lie]).misfit(false, ALL).is_some());
        let mut endless = message(0, &[]);
        endless.truncate(13);
        endless.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert!(folded(&[endless]).misfit(false, ALL).is_some());
    }
}
