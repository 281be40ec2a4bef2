//! One frame as text: an object, its rows, or its bytes.

use std::fs::File;
use std::io::{self, Write};

use forebay::internals::slot::Frame;
use forebay_wire::decode::{Message, Mode};
use forebay_wire::dict::ConnectionDict;
use forebay_wire::header::Flags;
use forebay_wire::ndjson::{Rows, append_text};
use serde_json::{Map, Value, json};

use crate::error::Failure;
use crate::slot::dir::read_up_to;

/// Bytes in front of a frame's payload.
const FRAME_HEADER_BYTES: u64 = 8;
/// Largest message that servers take, its header included; a longer one is not read at once.
const MESSAGE_BYTES_MAX: usize = (16 << 20) + 12;
/// Bytes copied at once.
const PIECE: usize = 1 << 20;

/// What to write of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Show {
    Frames,
    Rows,
    Raw,
}

/// Writes frames, which it must see in the order of their numbers.
pub(super) struct Printer<'a, O> {
    show: Show,
    dict: ConnectionDict,
    out: &'a mut O,
    text: Vec<u8>,
}

/// Why a frame cannot be decoded.
type Undecodable = String;

impl<'a, O: Write> Printer<'a, O> {
    pub(super) fn new(show: Show, dict: ConnectionDict, out: &'a mut O) -> Self {
        Self {
            show,
            dict,
            out,
            text: Vec::new(),
        }
    }

    /// Takes the symbols of a longer dictionary.
    pub(super) fn learn(&mut self, dict: ConnectionDict) {
        if dict.len() > self.dict.len() {
            self.dict = dict;
        }
    }

    /// Takes a frame's symbols and, if it is `wanted`, writes it. `file` is the segment `name`.
    pub(super) fn frame(
        &mut self,
        name: &str,
        file: &File,
        frame: &Frame<'_>,
        wanted: bool,
    ) -> Result<Result<(), Undecodable>, Failure> {
        if self.show == Show::Raw {
            if wanted {
                self.raw(name, file, frame)?;
            }
            return Ok(Ok(()));
        }
        let len = usize::try_from(frame.payload_len).unwrap_or(usize::MAX);
        let whole;
        let payload = if frame.payload.len() == len || len > MESSAGE_BYTES_MAX {
            frame.payload
        } else {
            whole = read(name, file, frame.offset + FRAME_HEADER_BYTES, len)?;
            &whole
        };
        let decoded = if len > MESSAGE_BYTES_MAX {
            Err(format!(
                "a message of {len} bytes is larger than servers take"
            ))
        } else {
            self.decode(payload, wanted)
        };
        if !wanted {
            return Ok(decoded.map(drop));
        }
        if self.show == Show::Rows {
            if decoded.is_ok() {
                self.rows(frame.fsn, payload).map_err(Failure::Output)?;
            }
        } else {
            self.line(name, frame, &decoded).map_err(Failure::Output)?;
        }
        Ok(decoded.map(drop))
    }

    /// Writes the object of a frame.
    fn line(
        &mut self,
        name: &str,
        frame: &Frame<'_>,
        decoded: &Result<Map<String, Value>, Undecodable>,
    ) -> io::Result<()> {
        let mut line = Map::new();
        line.insert("fsn".to_owned(), json!(frame.fsn));
        line.insert("file".to_owned(), json!(name));
        line.insert("offset".to_owned(), json!(frame.offset));
        line.insert("bytes".to_owned(), json!(frame.payload_len));
        match decoded {
            Ok(more) => line.extend(more.clone()),
            Err(reason) => drop(line.insert("undecodable".to_owned(), json!(reason))),
        }
        writeln!(self.out, "{}", Value::Object(line))
    }

    /// Decodes a message with the symbols so far; its own stay, also when a later part is broken,
    /// as at a server. Gives what is said about the frame.
    fn decode(&mut self, payload: &[u8], wanted: bool) -> Result<Map<String, Value>, Undecodable> {
        let message = Message::parse(payload, Mode::Genuine).map_err(|e| e.to_string())?;
        let mut about = Map::new();
        let flags = message.header().flags;
        about.insert("flags".to_owned(), json!(flags.bits()));
        let deferred = flags.contains(Flags::DEFER_COMMIT);
        about.insert("defer_commit".to_owned(), json!(deferred));
        if let Some(delta) = message.delta() {
            self.dict.apply(&delta).map_err(|e| e.to_string())?;
            about.insert("delta_start".to_owned(), json!(delta.start()));
            about.insert("delta_count".to_owned(), json!(delta.count()));
        }
        if !wanted {
            return Ok(about);
        }
        let mut tables = Vec::new();
        for table in message.tables_within(self.dict.len() as u64) {
            let table = table.map_err(|e| e.to_string())?;
            tables.push(json!({
                "name": table.name(),
                "row_count": table.row_count(),
                "column_count": table.column_count(),
            }));
        }
        about.insert("tables".to_owned(), Value::Array(tables));
        Ok(about)
    }

    /// Writes the rows of a message that was decoded to its end. One row is in memory at a time:
    /// a column of nulls takes a bit a row here and a name a row there.
    fn rows(&mut self, fsn: u64, payload: &[u8]) -> io::Result<()> {
        let Ok(message) = Message::parse(payload, Mode::Genuine) else {
            return Ok(());
        };
        for table in message.tables_within(self.dict.len() as u64).flatten() {
            let Ok(mut rows) = Rows::new(&table, &self.dict) else {
                continue;
            };
            self.text.clear();
            let text = &mut self.text;
            text.extend_from_slice(format!("{{\"fsn\":{fsn},\"table\":").as_bytes());
            append_text(text, table.name());
            text.extend_from_slice(b",\"columns\":");
            let start = text.len();
            while rows.append_next(text) {
                text.extend_from_slice(b"}\n");
                self.out.write_all(text)?;
                text.truncate(start);
            }
        }
        Ok(())
    }

    fn raw(&mut self, name: &str, file: &File, frame: &Frame<'_>) -> Result<(), Failure> {
        let len = u64::from(frame.payload_len);
        if frame.payload.len() as u64 == len {
            return self.out.write_all(frame.payload).map_err(Failure::Output);
        }
        let mut at = frame.offset + FRAME_HEADER_BYTES;
        let end = at + len;
        while at < end {
            let want = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
            let piece = read(name, file, at, want)?;
            self.out.write_all(&piece).map_err(Failure::Output)?;
            at += want as u64;
        }
        Ok(())
    }
}

/// Exactly `len` bytes, which the scan saw there.
fn read(name: &str, file: &File, at: u64, len: usize) -> Result<Vec<u8>, Failure> {
    let bytes = read_up_to(file, at, len).and_then(|bytes| {
        if bytes.len() == len {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    });
    bytes.map_err(|source| Failure::read("read", name.as_ref(), source))
}
