//! Rows as text, one JSON object each: what a server that keeps rows as text and a tool that shows
//! them write.
//!
//! | column | cell |
//! |---|---|
//! | BYTE, SHORT, INT, LONG, both timestamps, DATE | integer |
//! | FLOAT, DOUBLE | number; `"NaN"`, `"inf"`, `"-inf"` as text |
//! | BOOLEAN | `"true"`, `"false"` |
//! | SYMBOL, VARCHAR | text (bytes that are not UTF-8 are replaced) |
//! | CHAR | code unit in decimal, as text |
//! | UUID | canonical text |
//! | LONG256 | `0x` and 64 hexadecimal digits |
//! | GEOHASH | `bits/precision` |
//! | BINARY | hexadecimal |
//! | DECIMAL64, 128, 256 | fixed point with the column's scale, as text |
//! | IPv4 | dotted |
//! | arrays | `{"dims": [..], "v": [..]}`, DOUBLE as bits `"0x.."`, LONG as decimal text |
//!
//! NULL is `null`. Without a bitmap a null BOOLEAN, integer or float shows as the sentinel that
//! was sent; UUID, LONG256, IPv4 and GEOHASH sentinels show as `null`. The designated timestamp
//! is called `timestamp` and keeps its wire unit; where a row has none, the server's clock would
//! have counted, and it is `null` or absent here.

use std::io::Write;

use crate::decode::{
    ArrayValue, Cell, Cells, Column, DecodeError, FixedValue, Table, Uuid, Values,
};
use crate::dict::ConnectionDict;

/// Name of the designated timestamp, as in tables that the server creates.
const DESIGNATED: &str = "timestamp";

/// The rows of a block, one object at a time.
#[derive(Debug)]
pub struct Rows<'a> {
    sources: Vec<Source<'a>>,
    dict: &'a ConnectionDict,
    left: usize,
}

/// A column ready to give its cells one by one.
#[derive(Debug)]
struct Source<'a> {
    /// `"name":`, with a comma or brace in front.
    key: Vec<u8>,
    cells: Cells<'a>,
    has_bitmap: bool,
    local_symbols: Vec<&'a str>,
}

impl<'a> Rows<'a> {
    /// Gets ready for the rows of `block`, whose symbols are in `dict` or its own. An id that is
    /// in neither shows as `null`.
    pub fn new(block: &Table<'a>, dict: &'a ConnectionDict) -> Result<Self, DecodeError> {
        let has_designated = block.definitions().any(|(name, _)| name.is_empty());
        let mut sources = Vec::with_capacity(block.column_count());
        for column in block.columns() {
            let column = column?;
            // A second column of that name would be the designated one to the server as well.
            if has_designated && column.name == DESIGNATED {
                continue;
            }
            sources.push(Source::new(&column, sources.is_empty()));
        }
        Ok(Self {
            sources,
            dict,
            left: block.row_count(),
        })
    }

    /// Appends the next row as an object, without a newline; `false` when there is none.
    pub fn append_next(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(left) = self.left.checked_sub(1) else {
            return false;
        };
        self.left = left;
        if self.sources.is_empty() {
            out.push(b'{');
        }
        for source in &mut self.sources {
            out.extend_from_slice(&source.key);
            match source.cells.next().flatten() {
                Some(cell) if source.has_bitmap || !is_sentinel(&cell) => {
                    write_cell(out, &cell, &source.local_symbols, self.dict);
                }
                _ => out.extend_from_slice(b"null"),
            }
        }
        out.push(b'}');
        true
    }
}

impl<'a> Source<'a> {
    fn new(column: &Column<'a>, is_first: bool) -> Self {
        let mut key = vec![if is_first { b'{' } else { b',' }];
        append_text(
            &mut key,
            if column.name.is_empty() {
                DESIGNATED
            } else {
                column.name
            },
        );
        key.push(b':');
        let local_symbols = match &column.values {
            Values::Symbol(ids) => ids
                .local()
                .map_or_else(Vec::new, |local| local.iter().collect()),
            _ => Vec::new(),
        };
        let has_bitmap = column.nulls.has_bitmap();
        Self {
            key,
            cells: column.cells(),
            has_bitmap,
            local_symbols,
        }
    }
}

/// Whether a value of a column without a bitmap stands for NULL, in the types where no value of
/// its own would be lost by saying so.
fn is_sentinel(cell: &Cell<'_>) -> bool {
    const MIN: u64 = 1 << 63;
    match cell {
        Cell::Uuid(uuid) => uuid.lo == MIN && uuid.hi == MIN,
        Cell::Long256(words) => *words == [MIN; 4],
        Cell::Ipv4(address) => *address == 0,
        Cell::Geohash { sentinel, .. } => *sentinel,
        _ => false,
    }
}

fn write_cell(out: &mut Vec<u8>, cell: &Cell<'_>, local: &[&str], dict: &ConnectionDict) {
    match cell {
        Cell::Boolean(value) => put(out, format_args!("\"{value}\"")),
        Cell::Integer(value) | Cell::Time(value) => put(out, format_args!("{value}")),
        Cell::Float(value) if value.is_finite() => put(out, format_args!("{value:?}")),
        Cell::Float(value) => put(out, format_args!("\"{value}\"")),
        Cell::Double(value) if value.is_finite() => put(out, format_args!("{value:?}")),
        Cell::Double(value) => put(out, format_args!("\"{value}\"")),
        Cell::Symbol(id) => write_symbol(out, *id, local, dict),
        Cell::Uuid(uuid) => write_uuid(out, *uuid),
        Cell::Long256([a, b, c, d]) => {
            put(out, format_args!("\"0x{d:016x}{c:016x}{b:016x}{a:016x}\""));
        }
        Cell::Geohash {
            bits, precision, ..
        } => put(out, format_args!("\"{bits}/{precision}\"")),
        Cell::Text(Ok(text)) => append_text(out, text),
        Cell::Text(Err(bytes)) => append_text(out, &String::from_utf8_lossy(bytes)),
        Cell::Bytes(bytes) => {
            out.push(b'"');
            for byte in *bytes {
                put(out, format_args!("{byte:02x}"));
            }
            out.push(b'"');
        }
        Cell::DoubleArray(array) => {
            write_array(out, array, |out, v| {
                put(out, format_args!("\"{:#018x}\"", v.to_bits()));
            });
        }
        Cell::LongArray(array) => {
            write_array(out, array, |out, v| put(out, format_args!("\"{v}\"")));
        }
        Cell::Decimal { unscaled, scale } => {
            put(out, format_args!("\"{}\"", unscaled.to_text(*scale)));
        }
        Cell::Char(unit) => put(out, format_args!("\"{unit}\"")),
        Cell::Ipv4(address) => {
            put(
                out,
                format_args!("\"{}\"", std::net::Ipv4Addr::from_bits(*address)),
            );
        }
    }
}

fn write_symbol(out: &mut Vec<u8>, id: u64, local: &[&str], dict: &ConnectionDict) {
    let from_local = usize::try_from(id)
        .ok()
        .and_then(|id| local.get(id).copied());
    let text = if local.is_empty() {
        dict.get(id)
    } else {
        from_local
    };
    match text {
        Some(text) => append_text(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

/// Canonical form: 8-4-4-4-12 digits, the more significant half first.
fn write_uuid(out: &mut Vec<u8>, uuid: Uuid) {
    let (head, mid) = (uuid.hi >> 32, uuid.hi >> 16 & 0xFFFF);
    let (version, variant) = (uuid.hi & 0xFFFF, uuid.lo >> 48);
    let node = uuid.lo & 0xFFFF_FFFF_FFFF;
    put(
        out,
        format_args!("\"{head:08x}-{mid:04x}-{version:04x}-{variant:04x}-{node:012x}\""),
    );
}

fn write_array<T: FixedValue>(
    out: &mut Vec<u8>,
    array: &ArrayValue<'_, T>,
    element: impl Fn(&mut Vec<u8>, T),
) {
    out.extend_from_slice(b"{\"dims\":[");
    for (at, dim) in array.dims.iter().enumerate() {
        put(out, format_args!("{}{dim}", if at == 0 { "" } else { "," }));
    }
    out.extend_from_slice(b"],\"v\":[");
    for (at, value) in array.elements.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        element(out, value);
    }
    out.extend_from_slice(b"]}");
}

/// Appends a text with its quotes, escaped where JSON demands it.
pub fn append_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 => put(out, format_args!("\\u{byte:04x}")),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes all of it");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_as_json_demands_and_no_further() {
        let mut out = Vec::new();
        append_text(&mut out, "a\"b\\c\n\r\t\u{8}\u{c}\u{1}\u{1f}\u{7f}é/");
        let want = "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f\u{7f}é/\"";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
