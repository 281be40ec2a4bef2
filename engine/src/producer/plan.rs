//! Sizing and writing a batch as an intake entry.

use forebay_wire::encode::{block_head_len, write_block_head};

use super::Producer;
use super::table::Table;
use crate::router::entry::{EntryHeader, HEADER_BYTES, RUN_BYTES, SYMBOL_HEAD_BYTES};

/// The sizes of a batch; its memory is kept from batch to batch.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Symbol cells in the blocks: (offset, cells).
    runs: Vec<(u32, u32)>,
}

/// `None` if a size exceeds what an entry can express, which no ring can hold either.
fn size(value: usize) -> Option<u32> {
    u32::try_from(value).ok()
}

impl Producer {
    /// Sizes the batch. `None` when it is far beyond any limit.
    pub(super) fn size_batch(&mut self, accepted_ns: u64) -> Option<EntryHeader> {
        self.plan.runs.clear();
        let (mut block_bytes, mut tables) = (0usize, 0);
        for table in self.tables.iter().filter(|table| table.rows > 0) {
            tables += 1;
            block_bytes += block_head_len(&table.name, table.rows, definitions(table));
            for column in &table.columns {
                if let Some((offset, cells)) = column.buffer.symbol_run() {
                    self.plan
                        .runs
                        .push((size(block_bytes + offset)?, size(cells)?));
                }
                block_bytes += column.buffer.encoded_len();
            }
        }
        let (symbols, text_bytes) = self.symbols.used_size();
        Some(EntryHeader {
            accepted_ns,
            rows: size(self.rows)?,
            tables: u16::try_from(tables).ok()?,
            symbol_table: self.symbols.number(),
            symbols: size(symbols)?,
            symbol_bytes: size(symbols * SYMBOL_HEAD_BYTES + text_bytes)?,
            runs: size(self.plan.runs.len())?,
            block_bytes: size(block_bytes)?,
        })
    }

    /// Writes the batch that was sized just before into its entry.
    pub(super) fn write_batch(
        header: &EntryHeader,
        tables: &[Table],
        symbols: &super::Symbols,
        plan: &Plan,
        out: &mut [u8],
    ) {
        header.write(out);
        let mut at = HEADER_BYTES;
        for (id, text) in symbols.used() {
            out[at..at + 4].copy_from_slice(&id.to_le_bytes());
            let bytes = size(text.len()).expect("sized before");
            out[at + 4..at + 8].copy_from_slice(&bytes.to_le_bytes());
            at += SYMBOL_HEAD_BYTES;
            out[at..at + text.len()].copy_from_slice(text.as_bytes());
            at += text.len();
        }
        for (offset, cells) in &plan.runs {
            out[at..at + 4].copy_from_slice(&offset.to_le_bytes());
            out[at + 4..at + RUN_BYTES].copy_from_slice(&cells.to_le_bytes());
            at += RUN_BYTES;
        }
        for table in tables.iter().filter(|table| table.rows > 0) {
            let head = &mut out[at..];
            at += write_block_head(head, &table.name, table.rows, definitions(table));
            for column in &table.columns {
                at += column.buffer.encode(&mut out[at..]);
            }
        }
        assert_eq!(at, out.len(), "a batch fills exactly what was sized");
    }
}

fn definitions(
    table: &Table,
) -> impl ExactSizeIterator<Item = (&str, forebay_wire::types::ColumnType)> + Clone {
    table
        .columns
        .iter()
        .map(|column| (column.name.as_str(), column.buffer.column_type()))
}
