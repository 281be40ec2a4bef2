//! The head of a table block: name, row count, column count, then each column's name and type.

use crate::types::ColumnType;
use crate::varint;

/// Bytes that [`write_block_head`] writes.
pub fn block_head_len<'c>(
    table: &str,
    rows: usize,
    columns: impl Iterator<Item = (&'c str, ColumnType)>,
) -> usize {
    let mut count = 0;
    let definitions: usize = columns
        .map(|(name, _)| {
            count += 1;
            text_len(name) + 1
        })
        .sum();
    text_len(table) + varint::len(rows as u64) + varint::len(count) + definitions
}

/// Writes the head at the start of `out` and returns the bytes written. Names are written as they
/// are: [`crate::names`] checks them where they enter.
///
/// # Panics
/// When `out` is shorter than [`block_head_len`].
pub fn write_block_head<'c>(
    out: &mut [u8],
    table: &str,
    rows: usize,
    columns: impl Iterator<Item = (&'c str, ColumnType)> + Clone,
) -> usize {
    let mut used = write_text(out, table);
    used += varint::encode(rows as u64, &mut out[used..]);
    used += varint::encode(columns.clone().count() as u64, &mut out[used..]);
    for (name, ty) in columns {
        used += write_text(&mut out[used..], name);
        out[used] = ty.code();
        used += 1;
    }
    used
}

fn text_len(text: &str) -> usize {
    varint::len(text.len() as u64) + text.len()
}

fn write_text(out: &mut [u8], text: &str) -> usize {
    let head = varint::encode(text.len() as u64, out);
    let length = head + text.len();
    out[head..length].copy_from_slice(text.as_bytes());
    length
}
