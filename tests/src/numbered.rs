//! Rows that follow from their number, so that whoever meets one again can tell that it is whole.

use forebay::{Error, Producer, TimestampNanos};
use forebay_wire::decode::{Cell, Table};

/// Table of these rows.
pub const TABLE: &str = "numbered";
/// Bytes of text vary up to this.
const TEXT_BYTES: u64 = 5_000;
/// Every so many rows bring a symbol that was never there before.
const SYMBOL_EVERY: u64 = 3;

/// Text of a row: of any length, and of bytes that differ from block to block.
fn text(number: u64) -> String {
    let len = number.wrapping_mul(2_654_435_761) % TEXT_BYTES;
    let letters = (0..len).map(|at| char::from(b'a' + ((number + at / 7) % 26) as u8));
    letters.collect()
}

fn symbol(number: u64) -> String {
    format!("S{}", number / SYMBOL_EVERY)
}

/// Puts a row into a producer's batch.
pub fn fill(producer: &mut Producer, number: u64) -> Result<(), Error> {
    let signed = i64::try_from(number).expect("few rows");
    let row = producer.table(TABLE)?;
    let row = row.symbol("sym", &symbol(number))?;
    let row = row.column_i64("n", signed)?;
    row.column_str("v", &text(number))?
        .at(TimestampNanos(signed + 1))
}

/// The number of the one row in a block. Panics if the row is not what its number says; of symbols
/// the ids count, which one producer gets in the order of its rows.
#[must_use]
pub fn number_of(block: &Table<'_>) -> u64 {
    let (mut number, mut said, mut id) = (None, None, None);
    for column in block.columns() {
        let column = column.expect("a column");
        let cells: Vec<_> = column.cells().collect();
        match (column.name, cells.as_slice()) {
            ("n", [Some(Cell::Integer(value))]) => number = u64::try_from(*value).ok(),
            ("v", [Some(Cell::Text(Ok(value)))]) => said = Some((*value).to_owned()),
            ("sym", [Some(Cell::Symbol(value))]) => id = Some(*value),
            (_, [Some(Cell::Time(_))]) => {}
            (name, cells) => panic!("column {name}: {cells:?}"),
        }
    }
    let number = number.expect("a number");
    assert_eq!(said.as_ref(), Some(&text(number)), "text of row {number}");
    assert_eq!(id, Some(number / SYMBOL_EVERY), "symbol of row {number}");
    number
}
