//! Table blocks (protocol.md section 6): `name rows columns { name type }* data*`.

use super::{Column, DecodeError, Mode, Reason, StrictRule};
use crate::header::Flags;
use crate::names::NAME_BYTES_MAX;
use crate::reader::Reader;
use crate::types::ColumnType;

/// Most rows of one block.
const ROWS_MAX: usize = 1_000_000;
/// Most columns of one block.
const COLUMNS_MAX: usize = 2048;

/// What the message says about how its columns are written, and how strictly to read them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub(super) flags: Flags,
    pub(super) mode: Mode,
    /// Size of the connection's dictionary, when ids are to be checked against it.
    pub(super) symbols: Option<u64>,
}

/// One table block, checked to its last byte.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    name: &'a str,
    rows: usize,
    column_count: usize,
    /// At the first column definition.
    defs: Reader<'a>,
    /// At the first column's data.
    data: Reader<'a>,
    context: Context,
    offset: usize,
}

impl<'a> Table<'a> {
    /// The table's name as sent.
    #[inline]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Rows of the block.
    #[inline]
    pub fn row_count(&self) -> usize {
        self.rows
    }

    /// Columns of the block.
    #[inline]
    pub fn column_count(&self) -> usize {
        self.column_count
    }

    /// Where the block begins, in bytes from the start of the message.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Names and types of the columns, without touching their data.
    pub fn definitions(&self) -> impl Iterator<Item = (&'a str, ColumnType)> + use<'a> {
        let mut defs = self.defs;
        (0..self.column_count).map_while(move |_| read_definition(&mut defs).ok())
    }

    /// The columns in order. The block was checked already, so an error here would be a bug.
    #[inline]
    pub fn columns(&self) -> Columns<'a> {
        let context = Context {
            symbols: None,
            ..self.context
        };
        Columns {
            defs: self.defs,
            data: self.data,
            rows: self.rows,
            left: self.column_count,
            context,
        }
    }

    /// Reads the block's head; `reader` then stands at the first column's data.
    fn read_head(reader: &mut Reader<'a>, context: Context) -> Result<Self, DecodeError> {
        let short = Reason::TableTruncated;
        let offset = reader.at();
        let name = read_name(reader, Reason::TableNameTooLong)?;
        if name.is_empty() {
            return Err(DecodeError::new(offset, Reason::TableNameEmpty));
        }
        let rows = read_count(reader, ROWS_MAX, Reason::RowCountTooLarge)?;
        let columns_at = *reader;
        let column_count = read_count(reader, COLUMNS_MAX, Reason::ColumnCountTooLarge)?;
        if context.mode == Mode::Strict && column_count == 0 {
            return columns_at.fail(Reason::Strict(StrictRule::NoColumns));
        }
        if column_count > reader.left() {
            return reader.fail(short);
        }
        let defs = *reader;
        for _ in 0..column_count {
            read_definition(reader)?;
        }
        let table = Self {
            name,
            rows,
            column_count,
            defs,
            data: *reader,
            context,
            offset,
        };
        if context.mode == Mode::Strict {
            table.check_names()?;
        }
        Ok(table)
    }

    /// No two columns of one name, and an empty name on a timestamp only.
    fn check_names(&self) -> Result<(), DecodeError> {
        let mut defs = self.defs;
        for index in 0..self.column_count {
            let at = defs;
            let (name, ty) = read_definition(&mut defs)?;
            if name.is_empty() && !ty.is_timestamp() {
                return at.fail(Reason::Strict(StrictRule::EmptyColumnName));
            }
            let before = self.definitions().take(index);
            if before
                .into_iter()
                .any(|(other, _)| other.eq_ignore_ascii_case(name))
            {
                return at.fail(Reason::Strict(StrictRule::DuplicateColumn));
            }
        }
        Ok(())
    }
}

fn read_name<'a>(reader: &mut Reader<'a>, long: Reason) -> Result<&'a str, DecodeError> {
    let start = *reader;
    let mut peek = *reader;
    if peek.length(Reason::TableTruncated)? > NAME_BYTES_MAX {
        return start.fail(long);
    }
    reader.text(Reason::TableTruncated, Reason::NameNotUtf8)
}

fn read_count(
    reader: &mut Reader<'_>,
    most: usize,
    too_large: Reason,
) -> Result<usize, DecodeError> {
    let start = *reader;
    let count = reader.varint(Reason::TableTruncated)?;
    match usize::try_from(count) {
        Ok(count) if count <= most => Ok(count),
        _ => start.fail(too_large),
    }
}

fn read_definition<'a>(reader: &mut Reader<'a>) -> Result<(&'a str, ColumnType), DecodeError> {
    let name = read_name(reader, Reason::ColumnNameTooLong)?;
    let at = *reader;
    let code = reader.byte(Reason::TableTruncated)?;
    match ColumnType::from_code(code) {
        Some(ty) => Ok((name, ty)),
        None => at.fail(Reason::UnknownType { code }),
    }
}

/// Iterator over the table blocks of a message; ends after the first error.
#[derive(Clone, Debug)]
pub struct Tables<'a> {
    reader: Reader<'a>,
    left: u16,
    context: Context,
    ended: bool,
}

impl<'a> Tables<'a> {
    pub(super) fn new(reader: Reader<'a>, count: u16, context: Context) -> Self {
        Self {
            reader,
            left: count,
            context,
            ended: false,
        }
    }

    fn read(&mut self) -> Result<Table<'a>, DecodeError> {
        let table = Table::read_head(&mut self.reader, self.context)?;
        let mut defs = table.defs;
        for _ in 0..table.column_count {
            let (name, ty) = read_definition(&mut defs)?;
            Column::read(&mut self.reader, name, ty, table.rows, self.context)?;
        }
        Ok(table)
    }

    /// Behind the last block: nothing more, or an error once.
    fn finish(&mut self) -> Option<DecodeError> {
        self.ended = true;
        let bytes = self.reader.left();
        (self.context.mode == Mode::Strict && bytes > 0).then(|| {
            let rule = StrictRule::BytesAfterTables { bytes };
            DecodeError::new(self.reader.at(), Reason::Strict(rule))
        })
    }
}

impl<'a> Iterator for Tables<'a> {
    type Item = Result<Table<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let Some(left) = self.left.checked_sub(1) else {
            return self.finish().map(Err);
        };
        self.left = left;
        let table = self.read();
        self.ended = table.is_err();
        Some(table)
    }
}

/// Iterator over the columns of a table block.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    defs: Reader<'a>,
    data: Reader<'a>,
    rows: usize,
    left: usize,
    context: Context,
}

impl<'a> Columns<'a> {
    fn read(&mut self) -> Result<Column<'a>, DecodeError> {
        let (name, ty) = read_definition(&mut self.defs)?;
        Column::read(&mut self.data, name, ty, self.rows, self.context)
    }
}

impl<'a> Iterator for Columns<'a> {
    type Item = Result<Column<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let column = self.read();
        if column.is_err() {
            self.left = 0;
        }
        Some(column)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}
