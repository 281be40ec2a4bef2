//! Messages made of one table of a frame: as a part of the conversation, and as a letter that needs
//! nothing else to be read.

use std::collections::HashMap;

use forebay_wire::control;
use forebay_wire::decode::{DecodeError, Message, Mode, Table, Values};
use forebay_wire::header::{Flags, HEADER_LEN, Header};
use forebay_wire::varint;

/// A table of a refused frame with everything that is needed to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Letter {
    /// Its name.
    pub(crate) table: String,
    /// Its rows.
    pub(crate) rows: u64,
    /// A message with this table alone, whose delta holds all its symbols from id 0.
    pub(crate) message: Vec<u8>,
}

/// How many tables a message has.
pub(crate) fn tables(message: &[u8]) -> usize {
    Header::parse(message).map_or(0, |header| usize::from(header.table_count))
}

/// Table number `index` of a message, as a message. The first to be sent brings the symbols of the
/// frame, the others know them.
pub(crate) fn part(message: &[u8], index: usize, first: bool) -> Result<Vec<u8>, DecodeError> {
    let (whole, block) = find(message, index)?;
    let delta = whole.delta();
    let (start, count, entries) = match delta {
        Some(delta) if first => (delta.start(), delta.count(), delta.entry_bytes()),
        Some(delta) => (delta.start() + delta.count(), 0, &[][..]),
        None => (0, 0, &[][..]),
    };
    let mut body = Vec::new();
    if delta.is_some() {
        varint::push(start, &mut body);
        varint::push(count, &mut body);
        body.extend_from_slice(entries);
    }
    body.extend_from_slice(block.1);
    Ok(assemble(whole.header().flags, &body))
}

/// A message that carries a frame of which nothing is left to send; `registered` symbols are known
/// to the server.
pub(crate) fn nothing(registered: u32) -> Vec<u8> {
    let mut message = Vec::new();
    control::commit_only(&mut message, u64::from(registered));
    message
}

/// Table number `index` with its symbols, which `text` gives by their ids.
pub(crate) fn letter<'s>(
    message: &[u8],
    index: usize,
    text: impl Fn(u32) -> Option<&'s str>,
) -> Result<Letter, DecodeError> {
    let (whole, (table, block)) = find(message, index)?;
    let mut ids = HashMap::new();
    let mut symbols = Vec::new();
    let mut body = Vec::new();
    let first = table.columns().next().transpose()?;
    let head = first.map_or(block.len(), |column| column.offset - table.offset());
    body.extend_from_slice(&block[..head]);
    for column in table.columns() {
        let column = column?;
        let at = column.offset - table.offset();
        let bytes = &block[at..at + column.byte_len];
        let Values::Symbol(cells) = column.values else {
            body.extend_from_slice(bytes);
            continue;
        };
        if cells.local().is_some() {
            body.extend_from_slice(bytes);
            continue;
        }
        body.extend_from_slice(&bytes[..bytes.len() - cells.cell_bytes().len()]);
        for id in &cells {
            let next = ids.len() as u64;
            let new = *ids.entry(id).or_insert(next);
            if new == next {
                let known = u32::try_from(id).ok().and_then(&text);
                let symbol = known.unwrap_or_default();
                varint::push(symbol.len() as u64, &mut symbols);
                symbols.extend_from_slice(symbol.as_bytes());
            }
            varint::push(new, &mut body);
        }
    }
    let mut payload = Vec::new();
    if whole.delta().is_some() {
        varint::push(0, &mut payload);
        varint::push(ids.len() as u64, &mut payload);
        payload.extend_from_slice(&symbols);
    }
    payload.extend_from_slice(&body);
    Ok(Letter {
        table: table.name().to_owned(),
        rows: table.row_count() as u64,
        message: assemble(whole.header().flags, &payload),
    })
}

/// The message, and table number `index` of it with its bytes. Frames of the slot have it.
fn find(message: &[u8], index: usize) -> Result<(Message<'_>, (Table<'_>, &[u8])), DecodeError> {
    let whole = Message::parse(message, Mode::Genuine)?;
    let mut tables = whole.tables();
    let mut found = None;
    let mut end = HEADER_LEN + whole.header().payload_len as usize;
    for (number, table) in tables.by_ref().enumerate() {
        let table = table?;
        if number == index {
            found = Some(table);
        } else if found.is_some() {
            end = table.offset();
            break;
        }
    }
    let table = found.expect("the index of a table of this frame");
    Ok((whole, (table, &message[table.offset()..end])))
}

fn assemble(flags: Flags, payload: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(payload.len()).expect("a part of a frame of at most 16 MiB");
    let mut message = Header::new(flags, 1, bytes).to_bytes().to_vec();
    message.extend_from_slice(payload);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_wire::dict::ConnectionDict;
    use forebay_wire::ndjson::Rows;

    /// Two tables: symbols 5 and 3 (new) in the first, 3 and 5 in the second.
    fn frame() -> Vec<u8> {
        let mut payload = vec![5, 1, 1, b'e']; // id 5 = "e"
        for (name, ids) in [(b'a', [5, 3]), (b'b', [3, 5])] {
            payload.extend_from_slice(&[1, name, 2, 2]); // name, 2 rows, 2 columns
            payload.extend_from_slice(&[1, b's', 0x09, 1, b'n', 0x02]);
            payload.push(0); // no bitmap
            payload.extend_from_slice(&ids);
            payload.extend_from_slice(&[0, 7, 8]);
        }
        let header = Header::new(
            Flags::DELTA_SYMBOL_DICT,
            2,
            u32::try_from(payload.len()).unwrap(),
        );
        [&header.to_bytes()[..], &payload].concat()
    }

    fn rows(message: &[u8], dictionary: &mut ConnectionDict) -> Vec<String> {
        let message = Message::parse(message, Mode::Strict).unwrap();
        dictionary.apply(&message.delta().unwrap()).unwrap();
        let mut lines = Vec::new();
        for table in message.tables_within(dictionary.len() as u64) {
            let table = table.unwrap();
            let mut rows = Rows::new(&table, dictionary).unwrap();
            let mut line = Vec::new();
            while rows.append_next(&mut line) {
                lines.push(format!(
                    "{} {}",
                    table.name(),
                    String::from_utf8_lossy(&line)
                ));
                line.clear();
            }
        }
        lines
    }

    #[test]
    fn parts_say_the_same_as_the_whole() {
        let mut known = Vec::new();
        control::write_catch_up(&mut known, 0, 5, b"\x01a\x01b\x01c\x01d\x01x");
        let dictionary = || {
            let mut dictionary = ConnectionDict::new();
            rows(&known, &mut dictionary);
            dictionary
        };
        let whole = rows(&frame(), &mut dictionary());
        assert_eq!(whole.len(), 4);
        let mut parts = dictionary();
        let first = rows(&part(&frame(), 0, true).unwrap(), &mut parts);
        let second = rows(&part(&frame(), 1, false).unwrap(), &mut parts);
        assert_eq!([first, second].concat(), whole);
        let second = rows(&part(&frame(), 1, true).unwrap(), &mut dictionary());
        assert_eq!(second, whole[2..], "alone it brings the symbols");
    }

    #[test]
    fn a_letter_needs_no_dictionary() {
        let text = |id: u32| ["a", "b", "c", "d", "x", "e"].get(id as usize).copied();
        let letter = letter(&frame(), 1, text).unwrap();
        assert_eq!((letter.table.as_str(), letter.rows), ("b", 2));
        let lines = rows(&letter.message, &mut ConnectionDict::new());
        assert_eq!(
            lines,
            [r#"b {"s":"d","n":7}"#, r#"b {"s":"e","n":8}"#].map(str::to_owned)
        );
    }

    #[test]
    fn a_frame_of_which_nothing_is_left_is_still_a_message() {
        assert!(rows(&nothing(0), &mut ConnectionDict::new()).is_empty());
        assert_eq!((tables(&nothing(0)), tables(&frame())), (0, 2));
    }
}
