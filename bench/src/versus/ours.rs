//! Forebay as a contender.

use std::error::Error;
use std::time::Duration;

use forebay::{
    Chunk, ColumnId, ColumnType, Engine, Nulls, Producer, Receipt, Stage, Symbol, TableId,
    TimestampNanos,
};

use super::contender::{Contender, How};
use super::work::{COLUMNS, SIDES, TABLE, Work};

/// Handles of the prepared path.
#[derive(Debug)]
struct Handles {
    table: TableId,
    columns: [ColumnId; 6],
    names: Vec<Symbol>,
    sides: [Symbol; 2],
}

/// An engine with one producer.
#[derive(Debug)]
pub(super) struct Ours {
    // Declared first: it goes before its engine.
    producer: Producer,
    engine: Engine,
    how: How,
    handles: Option<Handles>,
    /// Flush every batch instead of publishing it.
    flush: bool,
    times: Vec<i64>,
    last: Option<Receipt>,
}

impl Ours {
    pub(super) fn connect(conf: &str, how: How, flush: bool) -> Result<Self, Box<dyn Error>> {
        let engine = Engine::connect(conf)?;
        let producer = engine.producer()?;
        Ok(Self {
            producer,
            engine,
            how,
            handles: None,
            flush,
            times: Vec::new(),
            last: None,
        })
    }

    /// Ends it; what the server has not confirmed stays.
    pub(super) fn close(self) -> Result<(), forebay::Error> {
        drop(self.producer);
        match self.engine.close() {
            Err(forebay::Error::NotDrained { .. }) => Ok(()),
            ended => ended,
        }
    }

    /// Waits until what was handed over is in the files of the slot.
    pub(super) fn wait_written(&self, limit: Duration) -> Result<(), forebay::Error> {
        let last = self.last.as_ref();
        last.map_or(Ok(()), |receipt| receipt.wait(Stage::Written, limit))
    }

    fn handles(&mut self, work: &Work) -> Result<(), forebay::Error> {
        let producer = &mut self.producer;
        let table = producer.prepare(TABLE)?;
        let mut column = |at: usize, ty| producer.prepare_column(table, COLUMNS[at], ty);
        let columns = [
            column(0, ColumnType::Symbol)?,
            column(1, ColumnType::Symbol)?,
            column(2, ColumnType::Double)?,
            column(3, ColumnType::Double)?,
            column(4, ColumnType::Long)?,
            column(5, ColumnType::Long)?,
        ];
        let names = work.names.iter().map(|name| producer.intern(name));
        let names = names.collect::<Result<_, _>>()?;
        let sides = [producer.intern(SIDES[0])?, producer.intern(SIDES[1])?];
        self.handles = Some(Handles {
            table,
            columns,
            names,
            sides,
        });
        Ok(())
    }

    fn by_name(&mut self, work: &Work, row: u64) -> Result<(), forebay::Error> {
        for (place, row) in work.place(row).zip(row..) {
            self.producer
                .table(TABLE)?
                .symbol(COLUMNS[0], work.name(place))?
                .symbol(COLUMNS[1], work.side(place))?
                .column_f64(COLUMNS[2], work.bid[place])?
                .column_f64(COLUMNS[3], work.ask[place])?
                .column_i64(COLUMNS[4], work.bid_size[place])?
                .column_i64(COLUMNS[5], work.ask_size[place])?
                .at(TimestampNanos(Work::at(row)))?;
        }
        Ok(())
    }

    fn prepared(&mut self, work: &Work, row: u64) -> Result<(), forebay::Error> {
        if self.handles.is_none() {
            self.handles(work)?;
        }
        let Some(handles) = &self.handles else {
            return Ok(());
        };
        let [symbol, side, bid, ask, bid_size, ask_size] = handles.columns;
        for (place, row) in work.place(row).zip(row..) {
            self.producer
                .row(handles.table)?
                .put_symbol(symbol, handles.names[work.symbol[place] as usize])?
                .put_symbol(side, handles.sides[work.side[place] as usize])?
                .put_f64(bid, work.bid[place])?
                .put_f64(ask, work.ask[place])?
                .put_i64(bid_size, work.bid_size[place])?
                .put_i64(ask_size, work.ask_size[place])?
                .at(TimestampNanos(Work::at(row)))?;
        }
        Ok(())
    }

    fn chunk(&mut self, work: &Work, row: u64) -> Result<Receipt, forebay::Error> {
        let place = work.place(row);
        let names: [&str; 64] = std::array::from_fn(|index| work.names[index].as_str());
        let mut chunk = Chunk::new(TABLE);
        chunk
            .symbol_codes(COLUMNS[0], &work.symbol[place.clone()], &names, Nulls::NONE)?
            .symbol_codes(COLUMNS[1], &work.side[place.clone()], &SIDES, Nulls::NONE)?
            .f64(COLUMNS[2], &work.bid[place.clone()], Nulls::NONE)?
            .f64(COLUMNS[3], &work.ask[place.clone()], Nulls::NONE)?
            .i64(COLUMNS[4], &work.bid_size[place.clone()], Nulls::NONE)?
            .i64(COLUMNS[5], &work.ask_size[place], Nulls::NONE)?
            .at_nanos(&self.times)?;
        self.producer.publish_chunk(&chunk)
    }
}

impl Contender for Ours {
    fn fill(&mut self, work: &Work, row: u64) -> Result<(), Box<dyn Error>> {
        match self.how {
            How::Row => self.by_name(work, row)?,
            How::Prepared => self.prepared(work, row)?,
            How::Chunk => {
                self.times.clear();
                let rows = row..row + work.place(row).len() as u64;
                self.times.extend(rows.map(Work::at));
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, work: &Work, row: u64) -> Result<(), Box<dyn Error>> {
        match (self.how, self.flush) {
            (How::Chunk, _) => self.last = Some(self.chunk(work, row)?),
            (_, true) => self.producer.flush()?,
            (_, false) => self.last = Some(self.producer.publish()?),
        }
        Ok(())
    }

    fn wait_acked(&mut self, limit: Duration) -> Result<(), Box<dyn Error>> {
        if self.flush {
            self.producer.flush()?;
        }
        if let Some(receipt) = &self.last {
            receipt.wait(Stage::Acked, limit)?;
        }
        Ok(self.engine.wait_acked(limit)?)
    }
}
