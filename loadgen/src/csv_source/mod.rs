//! A CSV file as typed rows: who replays real data reads it through here.
//!
//! Opening reads the whole file once. That pass decides every column's type and parses every cell,
//! so a file with a bad cell is refused before its first row is sent. The second pass hands out
//! rows. Memory use is one row, whatever the size of the file.

mod infer;
mod types;

use std::fs::File;
use std::path::{Path, PathBuf};

use csv::StringRecord;

pub use types::{ColumnType, Value};

use crate::error::Error;

/// What to read and what its columns mean.
#[derive(Debug, Clone)]
pub struct CsvOptions {
    /// The file. Its first line names the columns.
    pub path: PathBuf,
    /// Columns sent as SYMBOL.
    pub symbols: Vec<String>,
    /// The column with the designated timestamp.
    pub timestamp: String,
    /// Types that replace the inferred ones.
    pub types: Vec<(String, ColumnType)>,
}

/// One column: its name in the header and its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name as in the header.
    pub name: String,
    /// Given, or inferred from all its cells.
    pub column_type: ColumnType,
}

/// The columns in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// All columns, the designated timestamp among them.
    pub columns: Vec<Column>,
    /// Index of the designated timestamp in `columns`.
    pub timestamp: usize,
    /// Indexes of `columns` in the order in which they are sent: symbols first, in file order
    /// within each kind, without the designated timestamp.
    pub send_order: Vec<usize>,
}

/// One parsed row. Texts stay in the record they came from.
#[derive(Debug, Default)]
pub struct Row {
    record: StringRecord,
    values: Vec<Value>,
    line: u64,
}

impl Row {
    /// The value of column `index`.
    pub fn value(&self, index: usize) -> Value {
        self.values.get(index).copied().unwrap_or(Value::Null)
    }

    /// The text of column `index` as it is in the file.
    pub fn text(&self, index: usize) -> &str {
        self.record.get(index).unwrap_or_default()
    }

    /// Line of the file on which the row starts, counted from 1 (the header).
    pub fn line(&self) -> u64 {
        self.line
    }
}

/// An open file whose every cell is known to parse.
#[derive(Debug)]
pub struct CsvSource {
    path: PathBuf,
    schema: Schema,
    rows_total: u64,
    reader: csv::Reader<File>,
}

impl CsvSource {
    /// Opens the file, infers the types and checks every cell.
    ///
    /// # Errors
    /// [`Error::Config`] for options that name no column or contradict each other, [`Error::Csv`]
    /// for the first row that cannot be parsed, [`Error::Io`] for the file.
    pub fn open(options: &CsvOptions) -> Result<Self, Error> {
        let (schema, rows_total) = infer::infer(options)?;
        let reader = reader(&options.path)?;
        Ok(Self {
            path: options.path.clone(),
            schema,
            rows_total,
            reader,
        })
    }

    /// The columns.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Rows in the file, without the header.
    pub fn rows_total(&self) -> u64 {
        self.rows_total
    }

    /// Reads the next row into `row`; false at the end of the file.
    ///
    /// # Errors
    /// As [`CsvSource::open`]: only a file that changed meanwhile gets this far.
    pub fn read(&mut self, row: &mut Row) -> Result<bool, Error> {
        let more = self
            .reader
            .read_record(&mut row.record)
            .map_err(|source| csv_error(&self.path, &self.schema, source))?;
        if !more {
            return Ok(false);
        }
        row.line = line_of(&row.record);
        row.values.clear();
        for (column, text) in self.schema.columns.iter().zip(&row.record) {
            let value = column
                .column_type
                .parse(text)
                .map_err(|reason| cell_error(&self.path, row.line, &column.name, reason))?;
            row.values.push(value);
        }
        Ok(true)
    }

    /// Passes over up to `rows` rows and returns how many there were.
    ///
    /// # Errors
    /// As [`CsvSource::read`].
    pub fn skip(&mut self, rows: u64) -> Result<u64, Error> {
        let mut row = Row::default();
        let mut skipped = 0;
        while skipped < rows && self.read(&mut row)? {
            skipped += 1;
        }
        Ok(skipped)
    }
}

fn reader(path: &Path) -> Result<csv::Reader<File>, Error> {
    let file = File::open(path).map_err(|source| Error::io("open", path, source))?;
    Ok(csv::Reader::from_reader(file))
}

fn line_of(record: &StringRecord) -> u64 {
    record.position().map_or(0, csv::Position::line)
}

fn cell_error(path: &Path, line: u64, column: &str, reason: String) -> Error {
    Error::Csv {
        path: path.to_path_buf(),
        line,
        column: column.to_owned(),
        reason,
    }
}

/// Sorts the reader's own errors: a broken row has a line, everything else is the file's.
fn csv_error(path: &Path, schema: &Schema, source: csv::Error) -> Error {
    let line = source.position().map_or(0, csv::Position::line);
    let name = |index: usize| {
        schema
            .columns
            .get(index)
            .map_or_else(|| "(row)".to_owned(), |column| column.name.clone())
    };
    match source.into_kind() {
        csv::ErrorKind::Io(source) => Error::io("read", path, source),
        csv::ErrorKind::Utf8 { err, .. } => {
            cell_error(path, line, &name(err.field()), format!("not UTF-8: {err}"))
        }
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            let index = usize::try_from(len).unwrap_or(usize::MAX);
            let reason = format!("the row has {len} cells, the header names {expected_len}");
            cell_error(path, line, &name(index), reason)
        }
        other => cell_error(path, line, "(row)", format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests;
