//! The ways in which generated rows get into a producer: by name, by handles, as chunks.

use std::cell::RefCell;
use std::str::FromStr;

use forebay::{
    Chunk, ColumnId, ColumnType, Error, Nulls, Producer, Receipt, Symbol, TableId, TimestampNanos,
};

use crate::quotes::{COLUMNS, Quotes, SIDES, TABLE};

/// How rows are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Way {
    /// Row by row, columns by name.
    #[default]
    Row,
    /// Row by row, columns and symbols by handles.
    Prepared,
    /// A batch as whole columns.
    Chunk,
}

impl Way {
    /// For titles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Row => "rows by name",
            Self::Prepared => "prepared rows",
            Self::Chunk => "chunks",
        }
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "row" => Ok(Self::Row),
            "prepared" => Ok(Self::Prepared),
            "chunk" => Ok(Self::Chunk),
            _ => Err(format!("{text:?} is none of row, prepared, chunk")),
        }
    }
}

/// A table of the load, with its handles where the way needs them.
#[derive(Debug)]
struct Table {
    name: String,
    handles: Option<(TableId, [ColumnId; 6])>,
}

/// What one producer needs to build batches: one table each, in turns.
#[derive(Debug)]
pub struct Feed<'a> {
    quotes: &'a Quotes,
    way: Way,
    tables: Vec<Table>,
    names: Vec<Symbol>,
    sides: Vec<Symbol>,
    texts: Vec<&'a str>,
    times: Vec<i64>,
    /// Keeps the memory of the last chunk.
    spare: RefCell<Chunk<'static>>,
}

impl<'a> Feed<'a> {
    /// Prepares what the way needs; `tables_count` is at least 1.
    ///
    /// # Errors
    /// The engine's.
    pub fn new(
        quotes: &'a Quotes,
        way: Way,
        tables_count: u64,
        producer: &mut Producer,
    ) -> Result<Self, Error> {
        let mut feed = Self {
            quotes,
            way,
            tables: Vec::new(),
            names: Vec::new(),
            sides: Vec::new(),
            texts: quotes.names.iter().map(String::as_str).collect(),
            times: Vec::new(),
            spare: RefCell::new(Chunk::new("")),
        };
        for index in 0..tables_count.max(1) {
            let name = match index {
                0 => TABLE.to_owned(),
                other => format!("{TABLE}_{other}"),
            };
            let handles = match way {
                Way::Prepared => Some(prepare(&name, producer)?),
                Way::Row | Way::Chunk => None,
            };
            feed.tables.push(Table { name, handles });
        }
        if way == Way::Prepared {
            let names = feed.texts.iter().map(|name| producer.intern(name));
            feed.names = names.collect::<Result<_, _>>()?;
            let sides = SIDES.iter().map(|side| producer.intern(side));
            feed.sides = sides.collect::<Result<_, _>>()?;
        }
        Ok(feed)
    }

    /// Puts batch number `batch` with rows `first..first + rows` into the producer; a chunk is
    /// stamped only, and handed over by [`Feed::publish_chunk`].
    ///
    /// # Errors
    /// The engine's.
    pub fn fill(
        &mut self,
        producer: &mut Producer,
        batch: u64,
        first: u64,
        rows: u64,
    ) -> Result<(), Error> {
        let numbers = first..first + rows;
        let table = &self.tables[turn(batch, self.tables.len())];
        match (self.way, table.handles) {
            (Way::Chunk, _) => {
                self.times.clear();
                self.times.extend(numbers.map(|row| self.quotes.at(row)));
                Ok(())
            }
            (_, Some(handles)) => {
                for row in numbers {
                    self.put_prepared(producer, handles, row)?;
                }
                Ok(())
            }
            (_, None) => {
                for row in numbers {
                    self.quotes.put_into(&table.name, producer, row)?;
                }
                Ok(())
            }
        }
    }

    #[inline]
    fn put_prepared(
        &self,
        producer: &mut Producer,
        (table, columns): (TableId, [ColumnId; 6]),
        row: u64,
    ) -> Result<(), Error> {
        let [symbol, side, bid, ask, bid_size, ask_size] = columns;
        let (quotes, place) = (self.quotes, Quotes::place(row));
        producer
            .row(table)?
            .put_symbol(symbol, self.names[quotes.symbol[place] as usize])?
            .put_symbol(side, self.sides[quotes.side[place] as usize])?
            .put_f64(bid, quotes.bid[place])?
            .put_f64(ask, quotes.ask[place])?
            .put_i64(bid_size, quotes.bid_size[place])?
            .put_i64(ask_size, quotes.ask_size[place])?
            .at(TimestampNanos(quotes.at(row)))
    }

    /// Whether batches are chunks.
    pub fn is_columnar(&self) -> bool {
        self.way == Way::Chunk
    }

    /// Hands over the chunk that was stamped last.
    ///
    /// # Errors
    /// The engine's.
    pub fn publish_chunk(
        &self,
        producer: &mut Producer,
        batch: u64,
        first: u64,
    ) -> Result<Receipt, Error> {
        let quotes = self.quotes;
        let at = Quotes::places(first, self.times.len());
        let table = &self.tables[turn(batch, self.tables.len())].name;
        let mut chunk = self.spare.replace(Chunk::new("")).emptied(table);
        chunk
            .symbol_codes(
                COLUMNS[0],
                &quotes.symbol[at.clone()],
                &self.texts,
                Nulls::NONE,
            )?
            .symbol_codes(COLUMNS[1], &quotes.side[at.clone()], &SIDES, Nulls::NONE)?
            .f64(COLUMNS[2], &quotes.bid[at.clone()], Nulls::NONE)?
            .f64(COLUMNS[3], &quotes.ask[at.clone()], Nulls::NONE)?
            .i64(COLUMNS[4], &quotes.bid_size[at.clone()], Nulls::NONE)?
            .i64(COLUMNS[5], &quotes.ask_size[at], Nulls::NONE)?
            .at_nanos(&self.times)?;
        let receipt = producer.publish_chunk(&chunk);
        self.spare.replace(chunk.emptied(""));
        receipt
    }
}

/// Whose turn it is.
fn turn(batch: u64, tables: usize) -> usize {
    usize::try_from(batch % tables.max(1) as u64).unwrap_or(0)
}

fn prepare(name: &str, producer: &mut Producer) -> Result<(TableId, [ColumnId; 6]), Error> {
    use ColumnType::{Double, Long, Symbol};
    let table = producer.prepare(name)?;
    let mut column = |at: usize, ty| producer.prepare_column(table, COLUMNS[at], ty);
    let columns = [
        column(0, Symbol)?,
        column(1, Symbol)?,
        column(2, Double)?,
        column(3, Double)?,
        column(4, Long)?,
        column(5, Long)?,
    ];
    Ok((table, columns))
}

#[cfg(test)]
mod tests {
    use super::{Way, turn};

    #[test]
    fn tables_take_turns_and_ways_parse() {
        let turns: Vec<_> = (0..5).map(|batch| turn(batch, 2)).collect();
        assert_eq!(turns, [0, 1, 0, 1, 0]);
        assert_eq!("chunk".parse(), Ok(Way::Chunk));
        assert!("rows".parse::<Way>().unwrap_err().contains("rows"));
    }
}
