//! The dictionary of a slot as that of a connection, which is what messages are decoded with.

use forebay::internals::slot::{Symbols, symbol_file};
use forebay_wire::control;
use forebay_wire::decode::{Message, Mode};
use forebay_wire::dict::ConnectionDict;

use crate::error::Failure;
use crate::slot::dir::{DICTIONARY, Dir};

/// Bytes of entries that are handed over at once: well below the size of a message.
const BATCH_BYTES: usize = 4 << 20;

/// All valid symbols of the slot's `.symbol-dict`; none where there is no such file.
pub(super) fn load(dir: &Dir) -> Result<ConnectionDict, Failure> {
    let file = match dir.open(DICTIONARY) {
        Ok(file) => file,
        Err(failure) if failure.is_gone() => return Ok(ConnectionDict::new()),
        Err(failure) => return Err(failure),
    };
    let file = symbol_file(file, &dir.join(DICTIONARY))?;
    Ok(connection_dict(&file.symbols))
}

/// The same ids as a server has them after a catch-up.
fn connection_dict(symbols: &Symbols) -> ConnectionDict {
    let mut dict = ConnectionDict::new();
    let mut message = Vec::new();
    let mut from = 0;
    while from < symbols.len() {
        let mut to = from + 1;
        while to < symbols.len() && symbols.entries(from, to + 1).len() <= BATCH_BYTES {
            to += 1;
        }
        message.clear();
        let (start, count) = (u64::from(from), u64::from(to - from));
        control::write_catch_up(&mut message, start, count, symbols.entries(from, to));
        let parsed = Message::parse(&message, Mode::Genuine).ok();
        let applied = parsed
            .and_then(|message| message.delta())
            .and_then(|delta| dict.apply(&delta).ok());
        if applied.is_none() {
            // Symbols that no server takes: what depends on them shows as undecodable.
            break;
        }
        from = to;
    }
    dict
}
