//! Cells in the notation of the corpus (its README, "Cells"): null, text, or an object for arrays.

use forebay_wire::decode::{ArrayValue, Cell, Column, FixedValue};
use serde_json::{Value, json};

/// The word that stands for NULL in UUID and LONG256 columns without a bitmap.
const WORD_NULL: u64 = 1 << 63;

/// The cells of a column, one per row. `symbol` gives the text of an id.
pub fn column_cells(
    column: &Column<'_>,
    symbol: &dyn Fn(u64) -> Option<String>,
) -> Result<Vec<Value>, String> {
    let bitmap = column.nulls.has_bitmap();
    column
        .cells()
        .map(|cell| match cell {
            Some(cell) if bitmap || !is_sentinel(&cell) => cell_value(&cell, symbol),
            _ => Ok(Value::Null),
        })
        .collect()
}

/// Whether the value means NULL in a column without a bitmap. Numbers, booleans and characters
/// show as what the client wrote, so they do not count.
fn is_sentinel(cell: &Cell<'_>) -> bool {
    match cell {
        Cell::Uuid(uuid) => uuid.lo == WORD_NULL && uuid.hi == WORD_NULL,
        Cell::Long256(words) => *words == [WORD_NULL; 4],
        Cell::Geohash { sentinel, .. } => *sentinel,
        Cell::Ipv4(address) => *address == 0,
        _ => false,
    }
}

/// One value in the notation of the corpus.
pub fn cell_value(
    cell: &Cell<'_>,
    symbol: &dyn Fn(u64) -> Option<String>,
) -> Result<Value, String> {
    Ok(Value::String(match cell {
        Cell::Boolean(value) => value.to_string(),
        Cell::Integer(value) | Cell::Time(value) => value.to_string(),
        Cell::Float(value) => format!("0x{:08x}", value.to_bits()),
        Cell::Double(value) => double_bits(*value),
        Cell::Symbol(id) => symbol(*id).ok_or_else(|| format!("symbol id {id} is unknown"))?,
        Cell::Uuid(uuid) => uuid_text(uuid.hi, uuid.lo),
        Cell::Long256([a, b, c, d]) => format!("0x{d:016x}{c:016x}{b:016x}{a:016x}"),
        Cell::Geohash {
            bits, precision, ..
        } => format!("{bits}/{precision}"),
        Cell::Text(Ok(text)) => shortened(text),
        Cell::Text(Err(bytes)) => return Err(format!("VARCHAR is not UTF-8: {bytes:02x?}")),
        Cell::Bytes(bytes) => hex(bytes),
        Cell::DoubleArray(array) => return Ok(array_value(array, double_bits)),
        Cell::LongArray(array) => return Ok(array_value(array, |value: i64| value.to_string())),
        Cell::Decimal { unscaled, scale } => unscaled.to_text(*scale),
        Cell::Char(unit) => unit.to_string(),
        Cell::Ipv4(address) => std::net::Ipv4Addr::from(*address).to_string(),
    }))
}

/// Text as the corpus stores it: more than 1,000 times `x` is only counted.
fn shortened(text: &str) -> String {
    if text.len() > 1000 && text.bytes().all(|byte| byte == b'x') {
        return format!("<'x' x {}>", text.len());
    }
    text.to_owned()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('?');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

fn double_bits(value: f64) -> String {
    format!("0x{:016x}", value.to_bits())
}

fn uuid_text(hi: u64, lo: u64) -> String {
    let [a, b, c] = [hi >> 32, (hi >> 16) & 0xffff, hi & 0xffff];
    format!(
        "{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}",
        lo >> 48,
        lo & 0xffff_ffff_ffff
    )
}

fn array_value<T: FixedValue>(array: &ArrayValue<'_, T>, text: impl Fn(T) -> String) -> Value {
    let dims: Vec<u32> = array.dims.iter().collect();
    let values: Vec<String> = array.elements.iter().map(text).collect();
    json!({ "dims": dims, "v": values })
}
