//! The row API: `table`, then symbols and columns in any order, then `at` or `at_now`.
//!
//! A value that is refused takes its row with it: the row is left out, the batch stays as it was.

use std::sync::Arc;

use forebay_wire::encode::{ColumnBuffer, PushError};
use forebay_wire::names;
use forebay_wire::types::ColumnType;

use super::Producer;
use super::ends::Ends;
use super::ids::TableId;
use super::names::{check_column, check_length, same};
use super::table::Table;
use super::timestamp::Timestamp;
use crate::error::Error;

/// Most tables of a message (protocol.md section 4.1).
const TABLES_MAX: usize = 65_535;

impl Producer {
    /// Begins a row of `name`. A row begun before and not completed is an error.
    #[inline]
    pub fn table(&mut self, name: &str) -> Result<&mut Self, Error> {
        self.home.check()?;
        if self.row_open() {
            return Err(Error::Misuse(
                "table() while a row is open: call at(), at_now() or \
                                      discard_row() first",
            ));
        }
        self.go_to_table(name)?;
        self.begin_row();
        Ok(self)
    }

    /// Makes `name` the current table.
    #[inline]
    pub(super) fn go_to_table(&mut self, name: &str) -> Result<(), Error> {
        let is_there = self
            .desk
            .tables
            .get(self.desk.current)
            .is_some_and(|table| same(&table.name, name));
        if is_there {
            return Ok(());
        }
        self.switch_table(name)
    }

    #[cold]
    fn switch_table(&mut self, name: &str) -> Result<(), Error> {
        if self.find_table(name) {
            return Ok(());
        }
        let before = self.desk.id;
        self.go_to_desk_of(name);
        if self.desk.id != before && self.find_table(name) {
            return Ok(());
        }
        let refused = |reason: String| Error::Row {
            table: name.to_owned(),
            column: String::new(),
            reason,
        };
        names::check_table(name).map_err(|error| refused(error.to_string()))?;
        check_length(name, self.options.name_bytes_max).map_err(refused)?;
        if self.desk.tables.len() >= TABLES_MAX {
            return Err(refused(format!(
                "a producer holds at most {TABLES_MAX} tables"
            )));
        }
        let desk = &mut *self.desk;
        let counters = desk.gate.hall.tables.of(name);
        desk.lane.ledger.add(Arc::clone(&counters));
        desk.current = desk.tables.len();
        let mut table = Table::new(name, counters);
        table.id = TableId::new(desk.id, desk.current);
        desk.tables.push(table);
        Ok(())
    }

    /// Makes a table of the present desk the current one; `false` if it has none of that name.
    fn find_table(&mut self, name: &str) -> bool {
        let desk = &mut *self.desk;
        let found = desk.tables.iter().position(|table| same(&table.name, name));
        desk.current = found.unwrap_or(desk.current);
        found.is_some()
    }

    /// Finds the row's column and gives it a value that has a cell, which `push` pushes.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a name that is a literal is compared as numbers"
    )]
    pub(super) fn set_cell(
        &mut self,
        name: &str,
        ty: ColumnType,
        cell: u64,
        push: impl FnOnce(&mut ColumnBuffer),
    ) -> Result<&mut Self, Error> {
        if self.tray.set(Ends::of(name.as_bytes()), ty, cell) {
            return Ok(self);
        }
        self.set(name, ty, Some(cell), move |buffer| {
            push(buffer);
            Ok(())
        })
    }

    /// Finds the row's column and pushes a value to it. Of a type with cells, `cell` is the value,
    /// or there is none for NULL.
    #[inline]
    pub(super) fn set(
        &mut self,
        name: &str,
        ty: ColumnType,
        cell: Option<u64>,
        push: impl FnOnce(&mut ColumnBuffer) -> Result<(), PushError>,
    ) -> Result<&mut Self, Error> {
        if self.open != TableId::NONE && !name.is_empty() {
            let table = &mut self.desk.tables[self.desk.current];
            if let Some(buffer) = table.expected(name, ty) {
                return match push(buffer) {
                    Ok(()) => Ok(self),
                    Err(error) => self.refuse_value_of(name, error),
                };
            }
        }
        self.set_elsewhere(name, ty, cell, push)
    }

    #[cold]
    fn refuse_value_of(&mut self, name: &str, error: PushError) -> Result<&mut Self, Error> {
        Err(self.refuse_row(name, error.to_string()))
    }

    /// The same for a column that is not the next one, for a new one, and for what is refused.
    #[inline(never)]
    fn set_elsewhere(
        &mut self,
        name: &str,
        ty: ColumnType,
        cell: Option<u64>,
        push: impl FnOnce(&mut ColumnBuffer) -> Result<(), PushError>,
    ) -> Result<&mut Self, Error> {
        if self.set_on_tray(name, ty, cell) {
            return Ok(self);
        }
        self.put_tray_away();
        if !self.row_open() {
            return Err(Error::Misuse("a column before table()"));
        }
        if name.is_empty() {
            // It would be found: the designated timestamp has this name.
            return Err(self.refuse_row(name, names::NameError::Empty.to_string()));
        }
        let limit = self.options.name_bytes_max;
        let table = &mut self.desk.tables[self.desk.current];
        let outcome = table
            .column(name, ty, |name| check_column(name, limit))
            .and_then(|buffer| push(buffer).map_err(|error| error.to_string()));
        match outcome {
            Ok(()) => Ok(self),
            Err(reason) => Err(self.refuse_row(name, reason)),
        }
    }

    /// Leaves the row out and says why.
    #[cold]
    pub(super) fn refuse_row(&mut self, column: &str, reason: String) -> Error {
        let table = &self.desk.tables[self.desk.current];
        table.counters.refused(1);
        self.desk.gate.counters.rows_invalid.add_shared(1);
        let table = table.name.clone();
        self.discard_row();
        Error::Row {
            table,
            column: column.to_owned(),
            reason,
        }
    }

    /// Takes the row under construction back, if there is one.
    pub fn discard_row(&mut self) {
        let desk = &mut *self.desk;
        if self.tray.is_open() {
            self.tray.drop_row();
        } else if self.open != TableId::NONE {
            desk.tables[desk.current].drop_row();
            self.open = TableId::NONE;
        } else {
            return;
        }
        desk.symbols.rewind(desk.symbol_mark);
    }

    /// Forgets all buffered rows, the one under construction included. Their columns stay known.
    pub fn clear(&mut self) {
        self.discard_row();
        self.put_tray_away();
        self.at_each_desk(|this| {
            this.desk.symbols.rewind_all();
            this.start_batch();
        });
    }

    /// Completes the row with its designated timestamp, which must not lie before 1970.
    ///
    /// With automatic flushing this may publish the batch, and return the errors of
    /// [`publish`](Self::publish): the row is then in the batch that stays with the producer.
    #[inline]
    pub fn at(&mut self, timestamp: impl Into<Timestamp>) -> Result<(), Error> {
        let timestamp = timestamp.into();
        let (ty, value) = match timestamp {
            Timestamp::Micros(value) => (ColumnType::Timestamp, value),
            Timestamp::Nanos(value) => (ColumnType::TimestampNanos, value),
        };
        if value >= 0 && self.tray.end(ty, value.cast_unsigned()) {
            return self.end_row_on_tray();
        }
        self.end_at_table(timestamp, ty, value)
    }

    /// Completes a row that is not on the tray, or cannot be completed there.
    #[inline(never)]
    fn end_at_table(
        &mut self,
        timestamp: Timestamp,
        ty: ColumnType,
        value: i64,
    ) -> Result<(), Error> {
        self.put_tray_away();
        if !self.row_open() {
            return Err(Error::Misuse("at() before table()"));
        }
        if value < 0 {
            let reason = format!("designated timestamp {value} lies before 1970");
            return Err(self.refuse_row("", reason));
        }
        let table = &mut self.desk.tables[self.desk.current];
        if table.columns_set() == 0 {
            return Err(self.refuse_row("", "a row needs at least one column".to_owned()));
        }
        let outcome = table.designated(ty).map(|buffer| buffer.push_i64(value));
        match outcome {
            Ok(()) => self.end_row(Some(timestamp)),
            Err(reason) => Err(self.refuse_row("", reason)),
        }
    }

    /// Completes the row with the present time: with `at_now=client` (the default with `sf_dir`)
    /// the time of this call, else the server stamps it when it arrives.
    pub fn at_now(&mut self) -> Result<(), Error> {
        if !self.row_open() {
            return Err(Error::Misuse("at_now() before table()"));
        }
        if self.options.keys.stamp_at_now {
            return self.at(self.stamp_of_now());
        }
        if self.tray.end_unstamped() {
            return self.end_row_on_tray();
        }
        self.put_tray_away();
        let table = &mut self.desk.tables[self.desk.current];
        if table.columns_set() == 0 {
            return Err(self.refuse_row("", "a row needs at least one column".to_owned()));
        }
        self.end_row(None)
    }

    #[inline]
    fn end_row(&mut self, timestamp: Option<Timestamp>) -> Result<(), Error> {
        if self.stamps.is_some()
            && let Err((column, reason)) = self.stamp(timestamp)
        {
            return Err(self.refuse_row(&column, reason));
        }
        match self.desk.tables[self.desk.current].end_row() {
            Ok(()) => {
                self.open = TableId::NONE;
                self.desk.rows += 1;
                if self.auto_flush {
                    return self.after_row();
                }
                Ok(())
            }
            Err(reason) => Err(self.refuse_row("", reason)),
        }
    }
}
