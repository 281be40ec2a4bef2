//! Sizing and writing buffered rows as an intake entry.

use forebay_wire::encode::{block_head_len, write_block_head};

use super::Symbols;
use super::table::Table;
use crate::router::entry::{EntryHeader, HEADER_BYTES, RUN_BYTES, SYMBOL_HEAD_BYTES};

/// The sizes of a batch; its memory is kept from batch to batch.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Symbol cells in the blocks: (offset, cells).
    pub(super) runs: Vec<(u32, u32)>,
}

/// `None` if a size exceeds what an entry can express, which no ring can hold either.
pub(super) fn size(value: usize) -> Option<u32> {
    u32::try_from(value).ok()
}

impl Plan {
    /// Room for the runs of `columns` columns.
    pub(super) fn reserve(&mut self, columns: usize) {
        self.runs.reserve(columns);
    }

    /// Sizes the tables' rows. `None` when they are far beyond any limit.
    pub(super) fn size(
        &mut self,
        tables: &[Table],
        symbols: &Symbols,
        accepted_ns: u64,
    ) -> Option<EntryHeader> {
        self.runs.clear();
        let (mut block_bytes, mut count, mut rows) = (0usize, 0, 0);
        for table in tables.iter().filter(|table| table.rows > 0) {
            count += 1;
            rows += table.rows;
            block_bytes += block_head_len(&table.name, table.rows, definitions(table));
            for column in &table.columns {
                if let Some((offset, cells)) = column.buffer.symbol_run() {
                    self.runs.push((size(block_bytes + offset)?, size(cells)?));
                }
                block_bytes += column.buffer.encoded_len();
            }
        }
        self.header(symbols, accepted_ns, rows, count, block_bytes)
    }

    /// The header of an entry with these runs and the symbols used so far.
    pub(super) fn header(
        &self,
        symbols: &Symbols,
        accepted_ns: u64,
        rows: usize,
        tables: u32,
        block_bytes: usize,
    ) -> Option<EntryHeader> {
        let (used, text_bytes) = symbols.used_size();
        Some(EntryHeader {
            accepted_ns,
            rows: size(rows)?,
            tables: u16::try_from(tables).ok()?,
            symbol_table: symbols.number(),
            symbols: size(used)?,
            symbol_bytes: size(used * SYMBOL_HEAD_BYTES + text_bytes)?,
            runs: size(self.runs.len())?,
            block_bytes: size(block_bytes)?,
        })
    }

    /// Writes the batch that was sized just before into its entry.
    pub(super) fn write(
        &self,
        header: &EntryHeader,
        tables: &[Table],
        symbols: &Symbols,
        out: &mut [u8],
    ) {
        let mut at = self.write_front(header, symbols, out);
        for table in tables.iter().filter(|table| table.rows > 0) {
            let head = &mut out[at..];
            at += write_block_head(head, &table.name, table.rows, definitions(table));
            for column in &table.columns {
                at += column.buffer.encode(&mut out[at..]);
            }
        }
        assert_eq!(at, out.len(), "a batch fills exactly what was sized");
    }

    /// Writes what stands before the blocks; returns its length.
    pub(super) fn write_front(
        &self,
        header: &EntryHeader,
        symbols: &Symbols,
        out: &mut [u8],
    ) -> usize {
        let mut at = write_header_and_symbols(header, symbols, out);
        for run in &self.runs {
            write_run(*run, &mut out[at..]);
            at += RUN_BYTES;
        }
        at
    }
}

/// Writes the header and the symbols used; returns their length.
pub(super) fn write_header_and_symbols(
    header: &EntryHeader,
    symbols: &Symbols,
    out: &mut [u8],
) -> usize {
    header.write(out);
    let mut at = HEADER_BYTES;
    for (id, text) in symbols.used() {
        // The length fits 32 bits: it was sized before.
        let head = u64::from(id) | (text.len() as u64) << 32;
        let (place, rest) = out[at..].split_at_mut(SYMBOL_HEAD_BYTES);
        place.copy_from_slice(&head.to_le_bytes());
        rest[..text.len()].copy_from_slice(text);
        at += SYMBOL_HEAD_BYTES + text.len();
    }
    at
}

/// Writes where so many symbol cells are, as (offset in the blocks, cells).
pub(super) fn write_run((offset, cells): (u32, u32), out: &mut [u8]) {
    out[..4].copy_from_slice(&offset.to_le_bytes());
    out[4..RUN_BYTES].copy_from_slice(&cells.to_le_bytes());
}

/// Name and type of each column.
pub(super) fn definitions(
    table: &Table,
) -> impl ExactSizeIterator<Item = (&str, forebay_wire::types::ColumnType)> + Clone {
    table
        .columns
        .iter()
        .map(|column| (column.name.as_str(), column.buffer.column_type()))
}
