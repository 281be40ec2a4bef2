//! The official Rust client as a contender, used as its own examples do.

use std::error::Error;
use std::ops::Range;
use std::time::Duration;

use forebay_loadgen::quotes::{COLUMNS, Quotes, SIDES, TABLE};
use questdb::ingress::column_sender::Chunk;
use questdb::ingress::{AckLevel, Buffer, ColumnName, Sender, TableName, TimestampNanos};
use questdb::{BorrowedSender, QuestDb};

use super::contender::{Contender, count};

/// `Sender` and `Buffer`: rows.
pub(super) struct Rows<'a> {
    quotes: &'a Quotes,
    sender: Sender,
    buffer: Buffer,
    table: TableName<'static>,
    columns: [ColumnName<'static>; 6],
}

impl<'a> Rows<'a> {
    pub(super) fn connect(conf: &str, quotes: &'a Quotes) -> Result<Self, Box<dyn Error>> {
        let sender = Sender::from_conf(conf)?;
        let buffer = sender.new_buffer();
        let name = |at: usize| ColumnName::new(COLUMNS[at]);
        Ok(Self {
            quotes,
            sender,
            buffer,
            table: TableName::new(TABLE)?,
            columns: [name(0)?, name(1)?, name(2)?, name(3)?, name(4)?, name(5)?],
        })
    }
}

impl Contender for Rows<'_> {
    fn fill(&mut self, rows: Range<u64>) -> Result<(), Box<dyn Error>> {
        let [symbol, side, bid, ask, bid_size, ask_size] = self.columns;
        let quotes = self.quotes;
        for row in rows {
            let place = Quotes::place(row);
            self.buffer
                .table(self.table)?
                .symbol(symbol, &quotes.names[quotes.symbol[place] as usize])?
                .symbol(side, SIDES[quotes.side[place] as usize])?
                .column_f64(bid, quotes.bid[place])?
                .column_f64(ask, quotes.ask[place])?
                .column_i64(bid_size, quotes.bid_size[place])?
                .column_i64(ask_size, quotes.ask_size[place])?
                .at(TimestampNanos::new(quotes.at(row)))?;
        }
        Ok(())
    }

    fn hand_over(&mut self, _: Range<u64>) -> Result<(), Box<dyn Error>> {
        Ok(self.sender.flush(&mut self.buffer)?)
    }

    fn wait_acked(&mut self, limit: Duration) -> Result<(), Box<dyn Error>> {
        Ok(self.sender.wait(AckLevel::Ok, limit)?)
    }
}

/// `QuestDb` and `Chunk`: columns, with symbols as codes of a dictionary. The sender is borrowed
/// from the pool once.
pub(super) struct Columns<'db> {
    quotes: &'db Quotes,
    sender: BorrowedSender<'db>,
    symbol: Vec<i32>,
    side: Vec<i8>,
    names: Dictionary,
    sides: Dictionary,
    times: Vec<i64>,
}

struct Dictionary {
    offsets: Vec<i32>,
    text: Vec<u8>,
}

impl Dictionary {
    fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let (mut offsets, mut text) = (vec![0], Vec::new());
        for each in texts {
            text.extend_from_slice(each.as_bytes());
            offsets.push(i32::try_from(text.len()).unwrap_or(i32::MAX));
        }
        Self { offsets, text }
    }
}

impl<'db> Columns<'db> {
    pub(super) fn connect(db: &'db QuestDb, quotes: &'db Quotes) -> Result<Self, Box<dyn Error>> {
        let symbol = quotes.symbol.iter().map(|code| code.cast_signed());
        let side = quotes.side.iter().map(|code| i8::try_from(*code));
        Ok(Self {
            quotes,
            sender: db.borrow_sender()?,
            symbol: symbol.collect(),
            side: side.collect::<Result<_, _>>()?,
            names: Dictionary::new(quotes.names.iter().map(String::as_str)),
            sides: Dictionary::new(SIDES.into_iter()),
            times: Vec::new(),
        })
    }
}

impl Contender for Columns<'_> {
    fn fill(&mut self, rows: Range<u64>) -> Result<(), Box<dyn Error>> {
        self.times.clear();
        self.times.extend(rows.map(|row| self.quotes.at(row)));
        Ok(())
    }

    fn hand_over(&mut self, rows: Range<u64>) -> Result<(), Box<dyn Error>> {
        let quotes = self.quotes;
        let place = Quotes::places(rows.start, usize::try_from(count(&rows))?);
        let (names, sides) = (&self.names, &self.sides);
        let mut chunk = Chunk::new(TABLE);
        let symbol = &self.symbol[place.clone()];
        chunk.symbol_i32(COLUMNS[0], symbol, &names.offsets, &names.text, None)?;
        let side = &self.side[place.clone()];
        chunk.symbol_i8(COLUMNS[1], side, &sides.offsets, &sides.text, None)?;
        chunk.column_f64(COLUMNS[2], &quotes.bid[place.clone()], None)?;
        chunk.column_f64(COLUMNS[3], &quotes.ask[place.clone()], None)?;
        chunk.column_i64(COLUMNS[4], &quotes.bid_size[place.clone()], None)?;
        chunk.column_i64(COLUMNS[5], &quotes.ask_size[place], None)?;
        chunk.at_nanos(&self.times)?;
        Ok(self.sender.flush(&mut chunk)?)
    }

    fn wait_acked(&mut self, limit: Duration) -> Result<(), Box<dyn Error>> {
        Ok(self.sender.wait(AckLevel::Ok, limit)?)
    }
}
