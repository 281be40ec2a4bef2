//! The official Rust client as a contender, used as its own examples do.

use std::error::Error;
use std::time::Duration;

use questdb::ingress::column_sender::Chunk;
use questdb::ingress::{AckLevel, Buffer, ColumnName, Sender, TableName, TimestampNanos};
use questdb::{BorrowedSender, QuestDb};

use super::contender::Contender;
use super::work::{COLUMNS, SIDES, TABLE, Work};

/// `Sender` and `Buffer`: rows.
pub(super) struct Rows {
    sender: Sender,
    buffer: Buffer,
    table: TableName<'static>,
    columns: [ColumnName<'static>; 6],
}

impl Rows {
    pub(super) fn connect(conf: &str) -> Result<Self, Box<dyn Error>> {
        let sender = Sender::from_conf(conf)?;
        let buffer = sender.new_buffer();
        let name = |at: usize| ColumnName::new(COLUMNS[at]);
        Ok(Self {
            sender,
            buffer,
            table: TableName::new(TABLE)?,
            columns: [name(0)?, name(1)?, name(2)?, name(3)?, name(4)?, name(5)?],
        })
    }
}

impl Contender for Rows {
    fn fill(&mut self, work: &Work, row: u64) -> Result<(), Box<dyn Error>> {
        let [symbol, side, bid, ask, bid_size, ask_size] = self.columns;
        for (place, row) in work.place(row).zip(row..) {
            self.buffer
                .table(self.table)?
                .symbol(symbol, work.name(place))?
                .symbol(side, work.side(place))?
                .column_f64(bid, work.bid[place])?
                .column_f64(ask, work.ask[place])?
                .column_i64(bid_size, work.bid_size[place])?
                .column_i64(ask_size, work.ask_size[place])?
                .at(TimestampNanos::new(Work::at(row)))?;
        }
        Ok(())
    }

    fn hand_over(&mut self, _: &Work, _: u64) -> Result<(), Box<dyn Error>> {
        Ok(self.sender.flush(&mut self.buffer)?)
    }

    fn wait_acked(&mut self, limit: Duration) -> Result<(), Box<dyn Error>> {
        Ok(self.sender.wait(AckLevel::Ok, limit)?)
    }
}

/// `QuestDb` and `Chunk`: columns, with symbols as codes of a dictionary. The sender is borrowed
/// from the pool once.
pub(super) struct Columns<'db> {
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
    pub(super) fn connect(db: &'db QuestDb, work: &Work) -> Result<Self, Box<dyn Error>> {
        let symbol = work.symbol.iter().map(|code| code.cast_signed());
        let side = work.side.iter().map(|code| i8::try_from(*code));
        Ok(Self {
            sender: db.borrow_sender()?,
            symbol: symbol.collect(),
            side: side.collect::<Result<_, _>>()?,
            names: Dictionary::new(work.names.iter().map(String::as_str)),
            sides: Dictionary::new(SIDES.into_iter()),
            times: Vec::new(),
        })
    }
}

impl Contender for Columns<'_> {
    fn fill(&mut self, work: &Work, row: u64) -> Result<(), Box<dyn Error>> {
        self.times.clear();
        let rows = row..row + work.place(row).len() as u64;
        self.times.extend(rows.map(Work::at));
        Ok(())
    }

    fn hand_over(&mut self, work: &Work, row: u64) -> Result<(), Box<dyn Error>> {
        let place = work.place(row);
        let (names, sides) = (&self.names, &self.sides);
        let mut chunk = Chunk::new(TABLE);
        let symbol = &self.symbol[place.clone()];
        chunk.symbol_i32(COLUMNS[0], symbol, &names.offsets, &names.text, None)?;
        let side = &self.side[place.clone()];
        chunk.symbol_i8(COLUMNS[1], side, &sides.offsets, &sides.text, None)?;
        chunk.column_f64(COLUMNS[2], &work.bid[place.clone()], None)?;
        chunk.column_f64(COLUMNS[3], &work.ask[place.clone()], None)?;
        chunk.column_i64(COLUMNS[4], &work.bid_size[place.clone()], None)?;
        chunk.column_i64(COLUMNS[5], &work.ask_size[place], None)?;
        chunk.at_nanos(&self.times)?;
        Ok(self.sender.flush(&mut chunk)?)
    }

    fn wait_acked(&mut self, limit: Duration) -> Result<(), Box<dyn Error>> {
        Ok(self.sender.wait(AckLevel::Ok, limit)?)
    }
}
