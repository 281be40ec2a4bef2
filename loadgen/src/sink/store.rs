//! Rows in files: `<table>.ndjson` in one directory, one JSON object a line.
//!
//! A connection renders the rows of a message into memory, and hands them to the files when its
//! session settles, which is before the OK. So a row that a client has heard an OK for is in the
//! file, also when the sink is killed right after; and a write that fails is taken back in all
//! files, so that no message is stored in part. (A kill *during* a write can leave a part of rows
//! that nobody was told about; a torn last line is cut off when the file is opened again.)

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_wire::decode::{DecodeError, Table};
use forebay_wire::dict::ConnectionDict;
use forebay_wire::ndjson::Rows;

#[derive(Debug)]
struct TableFile {
    file: File,
    bytes: u64,
}

/// The directory, shared by all connections.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    files: Mutex<HashMap<Arc<str>, TableFile>>,
}

impl Store {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
            files: Mutex::new(HashMap::new()),
        })
    }

    /// Appends the chunks in order; all of them or none.
    fn append(&self, chunks: &[Chunk], text: &[u8]) -> io::Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut written: Vec<(&Arc<str>, u64)> = Vec::new();
        for chunk in chunks {
            let result = self.append_one(&mut files, chunk, text, &mut written);
            let Err(e) = result else { continue };
            for (table, bytes_before) in written.iter().rev() {
                if let Some(file) = files.get_mut(*table) {
                    file.file.set_len(*bytes_before)?;
                    file.bytes = *bytes_before;
                }
            }
            return Err(e);
        }
        Ok(())
    }

    fn append_one<'c>(
        &self,
        files: &mut HashMap<Arc<str>, TableFile>,
        chunk: &'c Chunk,
        text: &[u8],
        written: &mut Vec<(&'c Arc<str>, u64)>,
    ) -> io::Result<()> {
        if !files.contains_key(&chunk.table) {
            let file = open_table(&self.dir.join(file_name(&chunk.table)))?;
            files.insert(Arc::clone(&chunk.table), file);
        }
        let Some(file) = files.get_mut(&chunk.table) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        written.push((&chunk.table, file.bytes));
        let rows = &text[chunk.text.clone()];
        file.file.write_all(rows)?;
        file.bytes += rows.len() as u64;
        Ok(())
    }
}

/// Rows of one table within the text of a [`RowWriter`].
#[derive(Debug)]
struct Chunk {
    table: Arc<str>,
    text: Range<usize>,
}

/// One connection's rows on their way into the files.
#[derive(Debug)]
pub(super) struct RowWriter<'s> {
    store: &'s Store,
    text: Vec<u8>,
    chunks: Vec<Chunk>,
    /// Chunks at the front that are committed; those behind wait for a later message.
    committed: usize,
    /// Chunks before the message that is being applied.
    settled_messages: usize,
}

impl<'s> RowWriter<'s> {
    pub(super) fn new(store: &'s Store) -> Self {
        Self {
            store,
            text: Vec::new(),
            chunks: Vec::new(),
            committed: 0,
            settled_messages: 0,
        }
    }

    /// Renders a block's rows.
    pub(super) fn append(
        &mut self,
        table: &Arc<str>,
        block: &Table<'_>,
        dict: &ConnectionDict,
    ) -> Result<(), DecodeError> {
        let start = self.text.len();
        let result = Rows::new(block, dict).map(|mut rows| {
            while rows.append_next(&mut self.text) {
                self.text.push(b'\n');
            }
        });
        self.chunks.push(Chunk {
            table: Arc::clone(table),
            text: start..self.text.len(),
        });
        result
    }

    /// The message is whole, and its rows wait for a later one to commit them.
    pub(super) fn keep(&mut self) {
        self.settled_messages = self.chunks.len();
    }

    /// Everything rendered so far is committed.
    pub(super) fn commit(&mut self) {
        self.keep();
        self.committed = self.chunks.len();
    }

    /// Forgets the message that is being applied.
    pub(super) fn roll_back(&mut self) {
        self.chunks.truncate(self.settled_messages);
        self.text
            .truncate(self.chunks.last().map_or(0, |chunk| chunk.text.end));
    }

    /// Writes the committed rows to their files, or none of them.
    pub(super) fn write_out(&mut self) -> io::Result<()> {
        let result = self
            .store
            .append(&self.chunks[..self.committed], &self.text);
        let gone = match self.committed.checked_sub(1) {
            Some(last) => self.chunks[last].text.end,
            None => 0,
        };
        self.text.drain(..gone);
        self.chunks.drain(..self.committed);
        for chunk in &mut self.chunks {
            chunk.text = chunk.text.start - gone..chunk.text.end - gone;
        }
        self.settled_messages -= self.committed;
        self.committed = 0;
        result
    }
}

/// Opens a table's file for appending; what follows its last line end is cut off.
fn open_table(path: &Path) -> io::Result<TableFile> {
    let mut file = File::options()
        .create(true)
        .append(true)
        .read(true)
        .open(path)?;
    let len = file.metadata()?.len();
    let bytes = whole_lines(&mut file, len)?;
    if bytes < len {
        file.set_len(bytes)?;
    }
    Ok(TableFile { file, bytes })
}

/// Bytes up to and with the last line end.
fn whole_lines(file: &mut File, len: u64) -> io::Result<u64> {
    let mut piece = [0; 4096];
    let mut end = len;
    while end > 0 {
        let start = end.saturating_sub(piece.len() as u64);
        let piece = &mut piece[..usize::try_from(end - start).unwrap_or(0)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(piece)?;
        if let Some(at) = piece.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// A table's file name. What could leave the directory or hide in it is written as `%XX`; names
/// that the official clients allow stay as they are.
fn file_name(table: &str) -> String {
    use std::fmt::Write;

    let mut name = String::with_capacity(table.len() + 7);
    for (at, c) in table.char_indices() {
        if c.is_control() || matches!(c, '/' | '\\' | '%') || (at == 0 && c == '.') {
            let mut utf8 = [0; 4];
            for byte in c.encode_utf8(&mut utf8).bytes() {
                write!(name, "%{byte:02X}").expect("writing to a String cannot fail");
            }
        } else {
            name.push(c);
        }
    }
    name + ".ndjson"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(writer: &mut RowWriter<'_>, table: &str, text: &str) {
        let start = writer.text.len();
        writer.text.extend_from_slice(text.as_bytes());
        writer.chunks.push(Chunk {
            table: Arc::from(table),
            text: start..writer.text.len(),
        });
    }

    fn read(dir: &Path, name: &str) -> String {
        fs::read_to_string(dir.join(name)).unwrap_or_default()
    }

    #[test]
    fn only_committed_rows_reach_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let mut writer = RowWriter::new(&store);
        write(&mut writer, "a", "1\n");
        writer.commit();
        write(&mut writer, "a", "2\n");
        writer.keep();
        write(&mut writer, "b", "bad\n");
        writer.roll_back();
        writer.write_out().unwrap();
        assert_eq!(read(dir.path(), "a.ndjson"), "1\n");
        write(&mut writer, "b", "3\n");
        writer.commit();
        writer.write_out().unwrap();
        assert_eq!(read(dir.path(), "a.ndjson"), "1\n2\n");
        assert_eq!(read(dir.path(), "b.ndjson"), "3\n");
    }

    #[test]
    fn a_failed_write_is_taken_back_everywhere() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b.ndjson")).unwrap();
        let store = Store::open(dir.path()).unwrap();
        let mut writer = RowWriter::new(&store);
        write(&mut writer, "a", "1\n");
        write(&mut writer, "b", "1\n");
        writer.commit();
        writer.write_out().unwrap_err();
        assert_eq!(read(dir.path(), "a.ndjson"), "");
        write(&mut writer, "a", "2\n");
        writer.commit();
        writer.write_out().unwrap();
        assert_eq!(read(dir.path(), "a.ndjson"), "2\n");
    }

    #[test]
    fn a_torn_last_line_is_cut_off_when_the_file_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(10_000);
        fs::write(dir.path().join("a.ndjson"), format!("1\n{long}")).unwrap();
        let store = Store::open(dir.path()).unwrap();
        let mut writer = RowWriter::new(&store);
        write(&mut writer, "a", "2\n");
        writer.commit();
        writer.write_out().unwrap();
        assert_eq!(read(dir.path(), "a.ndjson"), "1\n2\n");
    }

    #[test]
    fn no_table_name_leaves_the_directory() {
        assert_eq!(file_name("trades.eu 1-é"), "trades.eu 1-é.ndjson");
        assert_eq!(file_name("../x\0"), "%2E.%2Fx%00.ndjson");
        assert_eq!(file_name("50%"), "50%25.ndjson");
    }
}
