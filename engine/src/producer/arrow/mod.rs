//! Record batches of Apache Arrow as chunks (feature `arrow`).
//!
//! `column` decides by type, `data` holds what a column becomes: a borrow of the batch's memory
//! where the layout is the same, else a converted copy.

mod column;
mod data;
mod nested;

use arrow_array::RecordBatch;

use self::data::Converted;
use super::{Chunk, Producer, Receipt};
use crate::error::Error;

impl Producer {
    /// Publishes a record batch as rows of `table`, as [`publish_chunk`](Self::publish_chunk)
    /// does. `at` names the column of designated timestamps, which must not be null; without it
    /// the rows are stamped as those of a chunk without timestamps are.
    ///
    /// | Arrow | QuestDB | copied before the ring |
    /// |---|---|---|
    /// | Boolean | BOOLEAN (null: false) | no |
    /// | Int8, Int16, UInt8, UInt16 | INT | yes |
    /// | Int32, UInt32 | LONG | yes |
    /// | Int64 | LONG | no |
    /// | UInt64 | LONG; above `i64::MAX` refused | yes |
    /// | Int8, Int16, Int32 with `questdb.column_type` `byte`, `short`, `int` | BYTE, SHORT (null: 0), INT | no |
    /// | UInt16 with `char`, UInt32 with `ipv4` | CHAR, IPv4 | no |
    /// | Float16 | FLOAT | yes |
    /// | Float32, Float64 | FLOAT, DOUBLE | no |
    /// | Timestamp(us), Timestamp(ns) | TIMESTAMP, `TIMESTAMP_NANOS` | no |
    /// | Timestamp(s) | TIMESTAMP | yes |
    /// | Timestamp(ms), Date64; Date32 | DATE | no; yes |
    /// | Utf8; LargeUtf8, Utf8View | VARCHAR | no; yes |
    /// | the same with `questdb.symbol` `true`, Dictionary(integers, Utf8 or LargeUtf8) | SYMBOL | keys of 32 bits: no |
    /// | Binary; LargeBinary, BinaryView, FixedSizeBinary | BINARY | no; yes |
    /// | FixedSizeBinary(16) with `arrow.uuid` or `questdb.column_type` `uuid` | UUID | yes |
    /// | FixedSizeBinary(32) with `long256` | LONG256 | no |
    /// | Decimal32; Decimal64, Decimal128, Decimal256, scale 0 and up | DECIMAL64; the same width | yes; no |
    /// | List(Float64), FixedSizeList(... Float64), no nulls within | `DOUBLE_ARRAY` | no |
    ///
    /// Time zones do not matter: Arrow's timestamps are UTC. Widening keeps null apart from
    /// values, as the official client does; `questdb.column_type` is its metadata of a field.
    /// Every other type is refused with the column and the type named
    /// ([`Error::Row`]); then nothing was published.
    ///
    /// ```no_run
    /// # fn show(producer: &mut forebay::Producer, batch: &arrow_array::RecordBatch)
    /// # -> Result<(), forebay::Error> {
    /// producer.publish_arrow("trades", batch, Some("timestamp"))?;
    /// # Ok(()) }
    /// ```
    #[expect(
        clippy::doc_markdown,
        reason = "a table of type names, in their own writing"
    )]
    pub fn publish_arrow(
        &mut self,
        table: &str,
        batch: &RecordBatch,
        at: Option<&str>,
    ) -> Result<Receipt, Error> {
        let columns = convert(table, batch, at)?;
        self.publish_chunk(&chunk(table, &columns, batch.num_rows(), at)?)
    }

    /// As [`publish_arrow`](Self::publish_arrow), but never waits for room. It may allocate.
    pub fn try_publish_arrow(
        &mut self,
        table: &str,
        batch: &RecordBatch,
        at: Option<&str>,
    ) -> Result<Receipt, Error> {
        let columns = convert(table, batch, at)?;
        self.try_publish_chunk(&chunk(table, &columns, batch.num_rows(), at)?)
    }
}

fn convert<'a>(
    table: &str,
    batch: &'a RecordBatch,
    at: Option<&str>,
) -> Result<Vec<Converted<'a>>, Error> {
    let refused = |column: &str, reason: String| Error::Row {
        table: table.to_owned(),
        column: column.to_owned(),
        reason,
    };
    let schema = batch.schema_ref();
    if let Some(at) = at.filter(|at| schema.column_with_name(at).is_none()) {
        return Err(refused(at, "the batch has no such column".to_owned()));
    }
    let fields = schema.fields().iter().zip(batch.columns());
    fields
        .map(|(field, array)| {
            column::convert(field, array.as_ref()).map_err(|reason| refused(field.name(), reason))
        })
        .collect()
}

fn chunk<'a>(
    table: &'a str,
    columns: &'a [Converted<'a>],
    rows: usize,
    at: Option<&str>,
) -> Result<Chunk<'a>, Error> {
    let mut chunk = Chunk::new(table);
    for column in columns.iter().filter(|column| Some(column.name) != at) {
        column.add(&mut chunk, rows)?;
    }
    for column in columns.iter().filter(|column| Some(column.name) == at) {
        column.add_designated(&mut chunk)?;
    }
    Ok(chunk)
}
