//! Rows that go where the application says (`route_by=key`), and the handles of such a producer.
//!
//! A prepared table belongs to the desk at which it was prepared; so do its columns. At another
//! desk they stand for the table and the columns of the same names, which are looked up then: a
//! handle is at its fastest at its own desk.

use super::Producer;
use super::ids::{ColumnId, TableId};
use crate::config::RouteBy;
use crate::error::Error;
use crate::router::route::shard_of;

/// Where handles of another desk lead in the row under construction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guest {
    /// As the application has it.
    table: TableId,
    /// Here.
    local: TableId,
}

impl Producer {
    /// Sends the rows that follow to the shard of `key`, until the next call: rows with the same
    /// key keep their order, whatever their tables. The shard is a fixed function of the key
    /// (docs/producer.md). Rows before the first call go to the first shard.
    ///
    /// Only with `route_by=key`, and not within a row: else [`Error::Misuse`].
    ///
    /// ```no_run
    /// # fn main() -> Result<(), forebay::Error> {
    /// # use forebay::{Engine, TimestampNanos};
    /// let engine = Engine::connect("ws::addr=localhost:9000;shards=4;route_by=key;")?;
    /// let mut rows = engine.producer()?;
    /// rows.route("BTC-USD")?.table("trades")?.column_f64("price", 25741.02)?;
    /// rows.at(TimestampNanos(1_700_000_000_000_000_000))?;
    /// # Ok(()) }
    /// ```
    pub fn route(&mut self, key: &str) -> Result<&mut Self, Error> {
        if self.options.route_by != RouteBy::Key {
            return Err(Error::Misuse("route() needs route_by=key"));
        }
        if self.row_open() {
            return Err(Error::Misuse(
                "route() while a row is open: call at(), at_now() or discard_row() first",
            ));
        }
        let shard = shard_of(key, self.others.len() + 1);
        self.sit_where(|desk| desk.gate.shard as usize == shard);
        Ok(self)
    }

    /// Goes to the desk of a table's name, where that decides.
    #[cold]
    pub(super) fn go_to_desk_of(&mut self, table: &str) {
        if self.options.route_by == RouteBy::Table && !self.others.is_empty() {
            let shard = shard_of(table, self.others.len() + 1);
            self.sit_where(|desk| desk.gate.shard as usize == shard);
        }
    }

    /// What a prepared table of another desk is here, having gone to its desk if the name decides.
    #[cold]
    pub(super) fn visit(&mut self, table: TableId) -> Result<TableId, Error> {
        if self.row_open() {
            return Err(Error::Misuse(
                "row() while a row is open: call at(), at_now() or discard_row() first",
            ));
        }
        let Some(owner) = self.desks().find(|desk| desk.id == table.owner()) else {
            return Err(Error::Misuse("a table of another producer"));
        };
        if self.options.route_by != RouteBy::Key {
            self.sit_where(|desk| desk.id == table.owner());
            return Ok(table);
        }
        let name = owner.tables[table.place()].name.clone();
        self.go_to_table(&name)?;
        let local = self.desk.tables[self.desk.current].id;
        self.guest = Some(Guest { table, local });
        // Its columns are looked up row by row, for which a tray is of no use.
        self.last = TableId::NONE;
        Ok(local)
    }

    /// What a column of another desk is in the open row; `None` if it is not of this row's table.
    #[cold]
    pub(super) fn visiting_column(&mut self, column: ColumnId) -> Option<ColumnId> {
        let guest = self.guest.filter(|guest| guest.table == column.table)?;
        if guest.local != self.open {
            return None;
        }
        let owner = self
            .others
            .iter()
            .find(|desk| desk.id == column.table.owner())?;
        let theirs = &owner.tables[column.table.place()].columns;
        let theirs = &theirs[column.place()];
        // It was checked when it was prepared.
        let ours = &mut self.desk.tables[guest.local.place()];
        let index = ours.index_of(&theirs.name, theirs.buffer.column_type(), |_| Ok(()));
        Some(ColumnId::new(
            guest.local,
            index.ok()?,
            theirs.buffer.column_type(),
        ))
    }
}
