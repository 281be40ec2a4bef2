//! An intake entry becomes a QWP message: header, symbol delta, blocks with global ids.
//!
//! Pure: the caller gives the dictionary and the memory (the active segment itself), so the bytes
//! are written once, where they stay.

use forebay_wire::control;
use forebay_wire::header::{Flags, HEADER_LEN, Header};
use forebay_wire::varint;

use crate::router::entry::Entry;
use crate::slot::{Dictionary, DictionaryFull};

/// A local id that has no global one yet.
const UNKNOWN: u32 = u32::MAX;

/// Local to global symbol ids of one producer.
#[derive(Debug, Default)]
pub(crate) struct SymbolMap {
    /// The producer's table that the local ids are of.
    table: u16,
    ids: Vec<u32>,
}

/// Why an entry cannot become a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The dictionary takes no more symbols.
    #[error("{0}")]
    Full(#[from] DictionaryFull),
    /// The entry contradicts itself: a bug of the producer side.
    #[error("malformed intake entry")]
    Malformed,
}

impl SymbolMap {
    /// Gives every symbol of the entry a global id below `symbols_max`. On an error the caller
    /// takes the new ids back, here ([`forget`](Self::forget)) and in the dictionary.
    pub(crate) fn learn(
        &mut self,
        entry: &Entry<'_>,
        dictionary: &mut Dictionary,
        symbols_max: u32,
    ) -> Result<(), Refusal> {
        if entry.header.symbol_table != self.table {
            self.table = entry.header.symbol_table;
            self.ids.clear();
        }
        let mut seen = 0;
        for (local, text) in entry.symbols() {
            seen += 1;
            let index = local as usize;
            if index >= self.ids.len() {
                // Local ids are dense, so this grows by what the producer interned.
                self.ids
                    .resize((index + 1).next_power_of_two().max(64), UNKNOWN);
            }
            if self.ids[index] == UNKNOWN {
                let text = std::str::from_utf8(text).map_err(|_| Refusal::Malformed)?;
                match dictionary.intern_within(text, symbols_max) {
                    Ok((id, _)) => self.ids[index] = id,
                    Err(full) => return Err(full.into()),
                }
            }
        }
        if seen == entry.header.symbols {
            Ok(())
        } else {
            Err(Refusal::Malformed)
        }
    }

    /// Drops ids at or above `count`.
    pub(crate) fn forget(&mut self, count: u32) {
        for id in self.ids.iter_mut().filter(|id| **id >= count) {
            *id = UNKNOWN;
        }
    }
}

/// Writes the message of `entry` to the front of `out` and returns its length. Symbols from
/// `known` on are new with this message: its delta. `out` has room for
/// [`EntryHeader::message_bytes_max`](crate::router::entry::EntryHeader::message_bytes_max).
pub(crate) fn assemble(
    entry: &Entry<'_>,
    map: &SymbolMap,
    dictionary: &Dictionary,
    known: u32,
    out: &mut [u8],
) -> Result<usize, Refusal> {
    let count = dictionary.len() - known;
    let mut at = HEADER_LEN;
    at += control::write_delta_head(u64::from(known), u64::from(count), &mut out[at..]);
    let entries = dictionary.entries(known, dictionary.len());
    out[at..at + entries.len()].copy_from_slice(entries);
    at += entries.len();
    let mut from = 0;
    for (offset, cells) in entry.runs() {
        let plain = entry.blocks.get(from..offset).ok_or(Refusal::Malformed)?;
        out[at..at + plain.len()].copy_from_slice(plain);
        at += plain.len();
        from = offset + 4 * cells;
        let cells = entry.blocks.get(offset..from).ok_or(Refusal::Malformed)?;
        at += translate(cells, map, &mut out[at..])?;
    }
    let plain = entry.blocks.get(from..).ok_or(Refusal::Malformed)?;
    out[at..at + plain.len()].copy_from_slice(plain);
    at += plain.len();
    let payload = u32::try_from(at - HEADER_LEN).map_err(|_| Refusal::Malformed)?;
    let tables = entry.header.tables;
    Header::new(Flags::DELTA_SYMBOL_DICT, tables, payload).write(&mut out[..HEADER_LEN]);
    Ok(at)
}

/// Turns cells of 4-byte local ids into varint global ids; returns the bytes written. A varint of
/// an id is never longer than its cell: dictionaries end below 2^28.
fn translate(cells: &[u8], map: &SymbolMap, out: &mut [u8]) -> Result<usize, Refusal> {
    let mut at = 0;
    let out = out.get_mut(..cells.len()).ok_or(Refusal::Malformed)?;
    for cell in cells.chunks_exact(4) {
        let local = u32::from_le_bytes([cell[0], cell[1], cell[2], cell[3]]);
        let id = *map.ids.get(local as usize).ok_or(Refusal::Malformed)?;
        if id < 0x80 {
            out[at] = id.to_le_bytes()[0];
            at += 1;
        } else if id == UNKNOWN {
            return Err(Refusal::Malformed);
        } else {
            at += varint::encode(u64::from(id), &mut out[at..]);
        }
    }
    Ok(at)
}
