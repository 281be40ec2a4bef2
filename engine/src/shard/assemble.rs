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
/// Pieces up to so many bytes are copied as so many.
const SHORT: usize = 16;
/// So many cells of symbols are looked up before any is written.
const GROUP: usize = 8;

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
            let known = self.ids.get(local as usize);
            if known.is_none_or(|id| *id == UNKNOWN) {
                self.introduce(local as usize, text, dictionary, symbols_max)?;
            }
        }
        if seen == entry.header.symbols {
            Ok(())
        } else {
            Err(Refusal::Malformed)
        }
    }

    /// Gives a symbol its global id.
    #[cold]
    fn introduce(
        &mut self,
        local: usize,
        text: &[u8],
        dictionary: &mut Dictionary,
        symbols_max: u32,
    ) -> Result<(), Refusal> {
        let text = std::str::from_utf8(text).map_err(|_| Refusal::Malformed)?;
        if local >= self.ids.len() {
            // Local ids are dense, so this grows by what the producer interned.
            self.ids
                .resize((local + 1).next_power_of_two().max(64), UNKNOWN);
        }
        (self.ids[local], _) = dictionary.intern_within(text, symbols_max)?;
        Ok(())
    }

    /// The global id of the local one in a cell; [`UNKNOWN`] if it has none.
    #[inline]
    fn id_of(&self, cell: [u8; 4]) -> u32 {
        let local = u32::from_le_bytes(cell);
        self.ids.get(local as usize).copied().unwrap_or(UNKNOWN)
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
    let out_bytes = out.len();
    let (head, rest) = out
        .split_first_chunk_mut::<HEADER_LEN>()
        .ok_or(Refusal::Malformed)?;
    let used = control::write_delta_head(u64::from(known), u64::from(count), rest);
    let mut rest = &mut rest[used..];
    if count > 0 {
        rest = put(dictionary.entries(known, dictionary.len()), rest);
    }
    let (mut blocks, mut from) = (entry.blocks, 0);
    for (offset, cells) in entry.runs() {
        let plain_bytes = offset.checked_sub(from).ok_or(Refusal::Malformed)?;
        let (plain, behind) = cut(blocks, plain_bytes)?;
        // Between two columns of symbols lies a byte: most pieces are short.
        match (
            blocks.first_chunk::<SHORT>(),
            rest.first_chunk_mut::<SHORT>(),
        ) {
            (Some(piece), Some(place)) if plain_bytes <= SHORT => {
                *place = *piece;
                rest = &mut rest[plain_bytes..];
            }
            _ => rest = put(plain, rest),
        }
        let (ids, behind) = cut(behind, 4 * cells)?;
        let used = match ids.first_chunk() {
            Some(cell) if cells == 1 => put_id(map.id_of(*cell), rest)?,
            _ => translate(ids, map, rest)?,
        };
        rest = &mut rest[used..];
        (blocks, from) = (behind, offset + 4 * cells);
    }
    let rest = put(blocks, rest);
    let message_bytes = out_bytes - rest.len();
    let payload = u32::try_from(message_bytes - HEADER_LEN).map_err(|_| Refusal::Malformed)?;
    *head = Header::new(Flags::DELTA_SYMBOL_DICT, entry.header.tables, payload).to_bytes();
    Ok(message_bytes)
}

/// Copies `bytes` to the front of `out` and returns what lies behind.
#[inline]
fn put<'a>(bytes: &[u8], out: &'a mut [u8]) -> &'a mut [u8] {
    let (place, behind) = out.split_at_mut(bytes.len());
    place.copy_from_slice(bytes);
    behind
}

/// The first `count` bytes, and what lies behind.
#[inline]
fn cut(bytes: &[u8], count: usize) -> Result<(&[u8], &[u8]), Refusal> {
    bytes.split_at_checked(count).ok_or(Refusal::Malformed)
}

/// Turns cells of 4-byte local ids into varint global ids; returns the bytes written. A varint of
/// an id is never longer than its cell: dictionaries end below 2^28.
fn translate(cells: &[u8], map: &SymbolMap, out: &mut [u8]) -> Result<usize, Refusal> {
    let mut at = 0;
    let out = out.get_mut(..cells.len()).ok_or(Refusal::Malformed)?;
    let (groups, rest) = cells.as_chunks::<{ 4 * GROUP }>();
    for group in groups {
        let mut ids = [0; GROUP];
        for (id, cell) in ids.iter_mut().zip(group.as_chunks().0) {
            *id = map.id_of(*cell);
        }
        if ids.iter().fold(0, |all, id| all | id) < 0x80 {
            let bytes = ids.map(|id| id.to_le_bytes()[0]);
            out[at..at + GROUP].copy_from_slice(&bytes);
            at += GROUP;
        } else {
            for id in ids {
                at += put_id(id, &mut out[at..])?;
            }
        }
    }
    for cell in rest.as_chunks().0 {
        at += put_id(map.id_of(*cell), &mut out[at..])?;
    }
    Ok(at)
}

/// Writes an id to the front of `out`, which has room for a cell; returns the bytes written.
#[inline]
fn put_id(id: u32, out: &mut [u8]) -> Result<usize, Refusal> {
    if id >= 0x4000 {
        return if id == UNKNOWN {
            Err(Refusal::Malformed)
        } else {
            Ok(varint::encode(u64::from(id), out))
        };
    }
    let place = out.first_chunk_mut().ok_or(Refusal::Malformed)?;
    // One byte or two, without a branch: ids come in no order that could be guessed.
    let is_long = id >= 0x80;
    let low = (id & 0x7F) | u32::from(is_long) << 7;
    *place = [low.to_le_bytes()[0], (id >> 7).to_le_bytes()[0]];
    Ok(1 + usize::from(is_long))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_every_length_are_varints_in_the_order_of_their_cells() {
        let ids = [
            0, 1, 0x7F, 0x80, 0x3FFF, 0x4000, 0x1F_FFFF, 0x20_0000, 999_999,
        ];
        let map = SymbolMap {
            table: 0,
            ids: [&ids[..], &[UNKNOWN]].concat(),
        };
        let unknown = u32::try_from(ids.len()).unwrap();
        // Groups of one byte each, groups with longer ones, and what is left over.
        let small = (0..16_u32).map(|n| n % 3);
        let mixed = (0..37).map(|n| n * 5 % unknown);
        let locals: Vec<u32> = small.chain(mixed).collect();
        for from in 0..locals.len() {
            let cells: Vec<u8> = locals[from..]
                .iter()
                .flat_map(|n| n.to_le_bytes())
                .collect();
            let mut want = Vec::new();
            for local in &locals[from..] {
                varint::push(u64::from(ids[*local as usize]), &mut want);
            }
            let mut out = vec![0xEE; cells.len()];
            let used = translate(&cells, &map, &mut out).unwrap();
            assert!(out[..used] == want, "from {from}");
            // Neither a symbol without an id nor a number that nobody gave.
            for wrong in [unknown, unknown + 1] {
                let mut cells = cells.clone();
                let last = cells.len() - 4;
                cells[last..].copy_from_slice(&wrong.to_le_bytes());
                let refused = translate(&cells, &map, &mut out);
                assert_eq!(refused, Err(Refusal::Malformed));
            }
        }
    }
}
