//! What the keys `row_seq`, `receive_time` and `at_now` add to a chunk, and what
//! `timestamp_past_max` and `timestamp_future_max` demand of its timestamps.

use forebay_wire::encode::{SliceColumn, Values};
use forebay_wire::types::ColumnType;

use super::Chunk;
use crate::error::Error;
use crate::producer::stamps::now;
use crate::producer::table::COLUMNS_MAX;
use crate::producer::{Producer, Timestamp};

/// A column that the engine adds; its memory is kept from chunk to chunk.
#[derive(Debug)]
pub(super) struct Added {
    pub(super) name: String,
    pub(super) ty: ColumnType,
    values: Vec<i64>,
}

impl Added {
    pub(super) fn slice(&self) -> SliceColumn<'_> {
        SliceColumn {
            ty: self.ty,
            values: Values::I64(&self.values),
            validity: None,
            parameter: 0,
        }
    }
}

/// The next column of `added`, which keeps what it has of memory.
fn next<'a>(
    added: &'a mut Vec<Added>,
    used: &mut usize,
    name: &str,
    ty: ColumnType,
) -> &'a mut Vec<i64> {
    if *used == added.len() {
        added.push(Added {
            name: String::new(),
            ty,
            values: Vec::new(),
        });
    }
    let column = &mut added[*used];
    *used += 1;
    column.ty = ty;
    if column.name != name {
        name.clone_into(&mut column.name);
    }
    column.values.clear();
    &mut column.values
}

impl Producer {
    /// Judges the chunk's timestamps and fills `added`; the chunk's table is the current one. The
    /// error is a column and what is wrong with it.
    pub(super) fn stamp_chunk(
        &mut self,
        chunk: &Chunk<'_>,
        added: &mut Vec<Added>,
    ) -> Result<(), (String, String)> {
        let (rows, mut used) = (chunk.rows(), 0);
        if chunk.designated().is_none() && self.options.keys.stamp_at_now {
            let (ty, value) = match self.stamp_of_now() {
                Timestamp::Micros(value) => (ColumnType::Timestamp, value),
                Timestamp::Nanos(value) => (ColumnType::TimestampNanos, value),
            };
            next(added, &mut used, "", ty).resize(rows, value);
        }
        if let Some(stamps) = &mut self.stamps {
            let now = now();
            if let Some(reason) = late_or_early(chunk, |stamp| stamps.judge(stamp, now)) {
                return Err((String::new(), reason));
            }
            if let Some(name) = &stamps.row_seq {
                let column = next(added, &mut used, name, ColumnType::Long);
                column.extend(std::iter::repeat_with(|| stamps.numbers.take()).take(rows));
            }
            if let Some(name) = &stamps.receive_time {
                next(added, &mut used, name, ColumnType::TimestampNanos).resize(rows, now);
            }
        }
        added.truncate(used);
        let twice = |added: &&Added| chunk.column(&added.name).is_some();
        if let Some(added) = added.iter().find(twice) {
            let reason = "the engine fills this column (row_seq, receive_time)".to_owned();
            return Err((added.name.clone(), reason));
        }
        if chunk.columns.len() + used > COLUMNS_MAX {
            return Err((String::new(), Chunk::too_many_columns()));
        }
        Ok(())
    }

    /// A chunk that is refused as it is: nothing of it was accepted.
    #[cold]
    pub(super) fn refuse_chunk(&self, chunk: &Chunk<'_>, column: &str, reason: String) -> Error {
        let rows = chunk.rows() as u64;
        self.desk.tables[self.desk.current].counters.refused(rows);
        self.desk.gate.counters.rows_invalid.add_shared(rows);
        chunk.refused(column, reason)
    }
}

/// What is wrong with the first designated timestamp that is not taken.
fn late_or_early(chunk: &Chunk<'_>, judge: impl Fn(Timestamp) -> Option<String>) -> Option<String> {
    let designated = chunk.designated()?;
    let Values::I64(values) = designated.slice.values else {
        return None;
    };
    let unit = match designated.slice.ty {
        ColumnType::Timestamp => Timestamp::Micros,
        _ => Timestamp::Nanos,
    };
    let mut judged = values.iter().enumerate();
    judged.find_map(|(row, value)| Some(format!("row {row}: {}", judge(unit(*value))?)))
}
