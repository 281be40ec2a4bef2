//! The first pass: what type is each column, and does every cell parse as it.
//!
//! A column without a given type is LONG if all its cells are integers, else DOUBLE if all are
//! numbers, else VARCHAR. Empty cells say nothing; a column of empty cells only is VARCHAR.

use csv::StringRecord;

use super::types::ColumnType;
use super::{Column, CsvOptions, Schema, cell_error, csv_error, line_of, reader};
use crate::error::Error;

/// What the cells seen so far allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guess {
    /// Only empty cells so far.
    Unknown,
    Long,
    Double,
    Varchar,
}

impl Guess {
    fn after(self, text: &str) -> Self {
        if text.is_empty() || self == Self::Varchar {
            self
        } else if self != Self::Double && text.parse::<i64>().is_ok() {
            Self::Long
        } else if is_number(text) {
            Self::Double
        } else {
            Self::Varchar
        }
    }

    fn column_type(self) -> ColumnType {
        match self {
            Self::Long => ColumnType::Long,
            Self::Double => ColumnType::Double,
            Self::Unknown | Self::Varchar => ColumnType::Varchar,
        }
    }
}

/// A finite decimal number. `inf` and `nan` also parse as one, yet in a file they are words, and
/// `1e999` would become an infinity that nobody wrote.
fn is_number(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Reads the whole file; returns its schema and the number of rows.
pub(super) fn infer(options: &CsvOptions) -> Result<(Schema, u64), Error> {
    let path = &options.path;
    let mut reader = reader(path)?;
    let nameless = Schema {
        columns: vec![],
        timestamp: 0,
        send_order: vec![],
    };
    let header = reader
        .headers()
        .map_err(|source| csv_error(path, &nameless, source))?
        .clone();
    let (given, timestamp) = given_types(options, &header)?;
    let mut guesses = vec![Guess::Unknown; header.len()];
    let mut record = StringRecord::new();
    let mut rows = 0;
    let named = schema(&header, &given, &guesses, timestamp);
    loop {
        let more = reader
            .read_record(&mut record)
            .map_err(|source| csv_error(path, &named, source))?;
        if !more {
            break;
        }
        rows += 1;
        let line = line_of(&record);
        for (index, ((text, given), guess)) in
            record.iter().zip(&given).zip(&mut guesses).enumerate()
        {
            let name = &header[index];
            if index == timestamp && text.is_empty() {
                let reason = "the designated timestamp is empty".to_owned();
                return Err(cell_error(path, line, name, reason));
            }
            match given {
                Some(column_type) => {
                    column_type
                        .parse(text)
                        .map_err(|reason| cell_error(path, line, name, reason))?;
                }
                None => *guess = guess.after(text),
            }
        }
    }
    Ok((schema(&header, &given, &guesses, timestamp), rows))
}

fn schema(
    header: &StringRecord,
    given: &[Option<ColumnType>],
    guesses: &[Guess],
    timestamp: usize,
) -> Schema {
    let columns: Vec<Column> = header
        .iter()
        .zip(given.iter().zip(guesses))
        .map(|(name, (given, guess))| Column {
            name: name.to_owned(),
            column_type: given.unwrap_or_else(|| guess.column_type()),
        })
        .collect();
    let is_symbol = |index: &usize| columns[*index].column_type == ColumnType::Symbol;
    let others = || (0..columns.len()).filter(|&index| index != timestamp);
    let send_order = others()
        .filter(is_symbol)
        .chain(others().filter(|index| !is_symbol(index)))
        .collect();
    Schema {
        columns,
        timestamp,
        send_order,
    }
}

/// The types that the options give, by column, and the index of the designated timestamp.
fn given_types(
    options: &CsvOptions,
    header: &StringRecord,
) -> Result<(Vec<Option<ColumnType>>, usize), Error> {
    let find = |option: &'static str, name: &str| {
        header
            .iter()
            .position(|known| known == name)
            .ok_or_else(|| {
                let names: Vec<&str> = header.iter().collect();
                let file = options.path.display();
                let reason = format!(
                    "{file} has no column {name:?}; its columns are {}",
                    names.join(", ")
                );
                Error::config(option, reason)
            })
    };
    for (index, name) in header.iter().enumerate() {
        if header.iter().take(index).any(|earlier| earlier == name) {
            let reason = "the header names this column twice".to_owned();
            return Err(cell_error(&options.path, 1, name, reason));
        }
    }
    let mut given = vec![None; header.len()];
    let timestamp = find("--timestamp", &options.timestamp)?;
    for name in &options.symbols {
        given[find("--symbols", name)?] = Some(ColumnType::Symbol);
    }
    for (name, column_type) in &options.types {
        let slot = &mut given[find("--types", name)?];
        if slot.is_some_and(|earlier| earlier != *column_type) {
            return Err(Error::config(
                "--types",
                format!("column {name:?} has two types"),
            ));
        }
        *slot = Some(*column_type);
    }
    match given[timestamp] {
        None => given[timestamp] = Some(ColumnType::Timestamp),
        Some(ColumnType::Timestamp | ColumnType::TimestampNanos) => {}
        Some(other) => {
            let reason = format!(
                "column {:?} cannot be the designated timestamp as {}; timestamp or timestamp_ns",
                options.timestamp,
                other.name()
            );
            return Err(Error::config("--timestamp", reason));
        }
    }
    Ok((given, timestamp))
}
