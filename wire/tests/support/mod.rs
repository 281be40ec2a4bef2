//! Building whole messages from columns, for the tests of this crate.

#![allow(dead_code, reason = "every test file uses its part of this module")]

use forebay_wire::control::write_delta_head;
use forebay_wire::encode::{ColumnBuffer, block_head_len, write_block_head};
use forebay_wire::header::{Flags, HEADER_LEN, Header};
use forebay_wire::varint;

/// A message with one table. Rows are those of the first column.
pub(crate) fn message(
    flags: Flags,
    symbols: &[&str],
    table: &str,
    columns: &[(&str, &ColumnBuffer)],
) -> Vec<u8> {
    let mut payload = Vec::new();
    if flags.contains(Flags::DELTA_SYMBOL_DICT) {
        let mut head = [0; 20];
        let used = write_delta_head(0, symbols.len() as u64, &mut head);
        payload.extend_from_slice(&head[..used]);
    } else {
        assert!(symbols.is_empty(), "symbols need the delta flag");
    }
    for symbol in symbols {
        varint::push(symbol.len() as u64, &mut payload);
        payload.extend_from_slice(symbol.as_bytes());
    }
    append_block(flags, table, columns, &mut payload);
    finish(flags, 1, &payload)
}

/// Appends a table block.
pub(crate) fn append_block(
    flags: Flags,
    table: &str,
    columns: &[(&str, &ColumnBuffer)],
    out: &mut Vec<u8>,
) {
    let rows = columns.first().map_or(0, |(_, column)| column.rows());
    let names = columns
        .iter()
        .map(|(name, column)| (*name, column.column_type()));
    let mut head = vec![0; block_head_len(table, rows, names.clone())];
    assert_eq!(write_block_head(&mut head, table, rows, names), head.len());
    out.extend_from_slice(&head);
    for (_, column) in columns {
        column.encode_wire(flags.contains(Flags::GORILLA), out);
    }
}

/// A payload behind its header.
pub(crate) fn finish(flags: Flags, tables: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("test payloads are small");
    let mut out = vec![0; HEADER_LEN];
    Header::new(flags, tables, length).write(&mut out);
    out.extend_from_slice(payload);
    out
}
