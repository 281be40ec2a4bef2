//! A short way for small messages that look like the one before: one block of the same table with
//! the same columns, no new symbols. Comparing the block's head with remembered bytes costs a
//! tenth of reading it, which is what counts at one row a frame.
//!
//! The short way checks what the long one checks when it counts (every section is there), and
//! gives up at anything unusual: the long way then judges the message. So it can make a difference
//! in time only.

use forebay_wire::decode::Table;
use forebay_wire::header::{Flags, HEADER_LEN, MAGIC, VERSION};
use forebay_wire::types::ColumnType;
use forebay_wire::varint;

/// Above this the long way costs little a row, and it is the one with the fast scans.
const ROWS_MAX: u64 = 64;

/// What the short way found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quick {
    /// The caller's number of the table.
    pub(super) table: usize,
    pub(super) rows: u64,
    pub(super) block_bytes: u64,
    pub(super) deferred: bool,
}

/// The head of the last small block, as bytes.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    table: usize,
    /// Length and text of the table's name.
    name: Vec<u8>,
    /// Column count, then name and type of each column.
    columns: Vec<u8>,
    types: Vec<ColumnType>,
}

impl Remembered {
    /// Remembers the block of a message that went the long way.
    pub(super) fn remember(&mut self, table: usize, block: &Table<'_>) {
        self.types.clear();
        self.name.clear();
        self.columns.clear();
        if block.row_count() as u64 > ROWS_MAX {
            return;
        }
        self.table = table;
        put_text(&mut self.name, block.name());
        varint::push(block.column_count() as u64, &mut self.columns);
        for (name, ty) in block.definitions() {
            put_text(&mut self.columns, name);
            self.columns.push(ty.code());
            self.types.push(ty);
        }
    }

    /// Reads a message the short way; `None` sends it the long way. `symbols` is the size of the
    /// connection's dictionary.
    pub(super) fn look(&self, message: &[u8], symbols: u64) -> Option<Quick> {
        if self.types.is_empty() {
            return None;
        }
        let (header, payload) = message.split_first_chunk::<HEADER_LEN>()?;
        let [m0, m1, m2, m3, version, flags, t0, t1, p0, p1, p2, p3] = *header;
        let payload_len = u32::from_le_bytes([p0, p1, p2, p3]);
        let flags = flags & !Flags::DEFER_COMMIT.bits();
        let usual = [m0, m1, m2, m3] == MAGIC
            && version == VERSION
            && flags == Flags::DELTA_SYMBOL_DICT.bits()
            && [t0, t1] == [1, 0]
            && payload_len as usize == payload.len();
        if !usual {
            return None;
        }
        let (start, used) = varint::decode(payload).ok()?;
        let (&no_new_symbols, block) = payload.get(used..)?.split_first()?;
        if no_new_symbols != 0 || start > symbols {
            return None;
        }
        let rest = block.strip_prefix(&self.name[..])?;
        let (rows, used) = varint::decode(rest).ok()?;
        if rows > ROWS_MAX {
            return None;
        }
        let mut data = rest.get(used..)?.strip_prefix(&self.columns[..])?;
        for ty in &self.types {
            data = after_column(data, *ty, usize::try_from(rows).ok()?)?;
        }
        let deferred = header[5] & Flags::DEFER_COMMIT.bits() != 0;
        Some(Quick {
            table: self.table,
            rows,
            block_bytes: block.len() as u64,
            deferred,
        })
    }
}

/// What follows a column without a null bitmap; `None` for types that are not simply skipped.
fn after_column(data: &[u8], ty: ColumnType, rows: usize) -> Option<&[u8]> {
    let (&null_flag, data) = data.split_first()?;
    if null_flag != 0 {
        return None;
    }
    if let Some(width) = ty.fixed_width().filter(|_| ty.decimal_limits().is_none()) {
        return data.get(rows * width..);
    }
    if ty != ColumnType::Symbol {
        return None;
    }
    // Ids of up to two bytes; longer ones go the long way.
    let mut data = data;
    for _ in 0..rows {
        data = match data {
            [0x00..0x80, rest @ ..] | [_, 0x00..0x80, rest @ ..] => rest,
            _ => return None,
        };
    }
    Some(data)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    varint::push(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::test_client::quotes;
    use forebay_wire::decode::{Message, Mode};

    fn remembered(message: &[u8]) -> Remembered {
        let message = Message::parse(message, Mode::Genuine).unwrap();
        let mut remembered = Remembered::default();
        remembered.remember(7, &message.tables().next().unwrap().unwrap());
        remembered
    }

    #[test]
    fn a_repeated_shape_gives_what_the_long_way_gives() {
        let remembered = remembered(&quotes(1, 0, &["a"]));
        for rows in [1, 2, 64] {
            let message = quotes(rows, 1, &[]);
            let block_bytes = (message.len() - HEADER_LEN - 2) as u64;
            let want = Quick {
                table: 7,
                rows: rows.into(),
                block_bytes,
                deferred: false,
            };
            assert_eq!(remembered.look(&message, 1), Some(want));
        }
    }

    #[test]
    fn whatever_is_unusual_or_cut_goes_the_long_way() {
        let remembered = remembered(&quotes(1, 0, &["a"]));
        assert_eq!(remembered.look(&quotes(65, 1, &[]), 1), None, "many rows");
        assert_eq!(
            remembered.look(&quotes(1, 1, &["b"]), 1),
            None,
            "a new symbol"
        );
        assert_eq!(remembered.look(&quotes(1, 2, &[]), 1), None, "a gap");
        let whole = quotes(2, 1, &[]);
        for len in 0..whole.len() {
            let mut cut = whole[..len].to_vec();
            if let Some(field) = cut.get_mut(8..12) {
                field.copy_from_slice(&u32::try_from(len - HEADER_LEN).unwrap_or(0).to_le_bytes());
            }
            assert_eq!(remembered.look(&cut, 1), None, "{len}");
        }
        for at in 0..HEADER_LEN {
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            assert_eq!(remembered.look(&changed, 1), None, "header byte {at}");
        }
    }
}
