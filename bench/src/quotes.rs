//! L1 quotes for benches and instruction counts: the same rows by name, with prepared handles and
//! as a chunk of columns.

use forebay::{
    Chunk, ColumnId, ColumnType, Error, Nulls, Producer, Symbol, TableId, TimestampNanos,
};

/// Rows of a batch.
pub const BATCH: usize = 1000;
/// Table of the rows.
pub const TABLE: &str = "quotes";
const FIRST_NS: i64 = 1_700_000_000_000_000_000;

/// The rows as columns, made before the clock starts.
#[derive(Debug)]
pub struct Columns {
    /// The symbols' texts.
    pub names: Vec<String>,
    /// Column `symbol`: place among `names`.
    pub name: Vec<u32>,
    /// Column `side`: 0 is B, 1 is S.
    pub side: Vec<u32>,
    /// Column `bid`.
    pub bid: Vec<f64>,
    /// Column `ask`.
    pub ask: Vec<f64>,
    /// Column `bid_size`.
    pub bid_size: Vec<i64>,
    /// Column `ask_size`.
    pub ask_size: Vec<i64>,
    /// The designated timestamps, nanoseconds.
    pub at: Vec<i64>,
}

impl Default for Columns {
    fn default() -> Self {
        Self::new()
    }
}

impl Columns {
    /// Fills them.
    ///
    /// # Panics
    /// Never: the numbers are small.
    pub fn new() -> Self {
        let (mut name, mut side, mut at) = (Vec::new(), Vec::new(), Vec::new());
        let (mut bid, mut ask) = (Vec::new(), Vec::new());
        let (mut bid_size, mut ask_size) = (Vec::new(), Vec::new());
        let mut stamp = FIRST_NS;
        for row in 0..BATCH {
            let small = u32::try_from(row).expect("small");
            name.push(small * 37 % 64);
            side.push(small % 3 % 2);
            bid.push(100.0 + f64::from(small));
            ask.push(100.01 + f64::from(small));
            bid_size.push(i64::from(small) + 100);
            ask_size.push(i64::from(small) + 200);
            at.push(stamp);
            stamp += 1000;
        }
        Self {
            names: (0..64).map(|index| format!("SYM{index:04}")).collect(),
            name,
            side,
            bid,
            ask,
            bid_size,
            ask_size,
            at,
        }
    }
}

/// Handles of the prepared path.
#[derive(Debug)]
pub struct Handles {
    table: TableId,
    symbol: ColumnId,
    side: ColumnId,
    bid: ColumnId,
    ask: ColumnId,
    bid_size: ColumnId,
    ask_size: ColumnId,
    /// One for each of [`Columns::names`].
    pub names: Vec<Symbol>,
    /// B and S.
    pub sides: [Symbol; 2],
}

impl Handles {
    /// Looks everything up once.
    ///
    /// # Panics
    /// When the producer refuses a name, or has a row open.
    pub fn new(producer: &mut Producer, columns: &Columns) -> Self {
        let table = producer.prepare(TABLE).expect("a table");
        let mut column = |name, ty| producer.prepare_column(table, name, ty).expect("a column");
        let (symbol, side) = (
            column("symbol", ColumnType::Symbol),
            column("side", ColumnType::Symbol),
        );
        let (bid, ask) = (
            column("bid", ColumnType::Double),
            column("ask", ColumnType::Double),
        );
        let (bid_size, ask_size) = (
            column("bid_size", ColumnType::Long),
            column("ask_size", ColumnType::Long),
        );
        let mut intern = |text: &str| producer.intern(text).expect("a symbol");
        Self {
            table,
            symbol,
            side,
            bid,
            ask,
            bid_size,
            ask_size,
            names: columns.names.iter().map(|name| intern(name)).collect(),
            sides: ["B", "S"].map(&mut intern),
        }
    }
}

/// Fills a batch of the first `rows` rows, every column by its name.
///
/// # Panics
/// When the producer refuses a row.
pub fn by_name(producer: &mut Producer, columns: &Columns, rows: usize) {
    for row in 0..rows {
        let put = |producer: &mut Producer| {
            producer
                .table(TABLE)?
                .symbol("symbol", &columns.names[columns.name[row] as usize])?
                .symbol("side", if columns.side[row] == 0 { "B" } else { "S" })?
                .column_f64("bid", columns.bid[row])?
                .column_f64("ask", columns.ask[row])?
                .column_i64("bid_size", columns.bid_size[row])?
                .column_i64("ask_size", columns.ask_size[row])?
                .at(TimestampNanos(columns.at[row]))
        };
        put(producer).expect("a legal row");
    }
}

/// Fills a batch of the first `rows` rows with handles.
///
/// # Panics
/// When the producer refuses a row.
pub fn prepared(producer: &mut Producer, columns: &Columns, handles: &Handles, rows: usize) {
    for row in 0..rows {
        let put = |producer: &mut Producer| {
            producer
                .row(handles.table)?
                .put_symbol(handles.symbol, handles.names[columns.name[row] as usize])?
                .put_symbol(handles.side, handles.sides[columns.side[row] as usize])?
                .put_f64(handles.bid, columns.bid[row])?
                .put_f64(handles.ask, columns.ask[row])?
                .put_i64(handles.bid_size, columns.bid_size[row])?
                .put_i64(handles.ask_size, columns.ask_size[row])?
                .at(TimestampNanos(columns.at[row]))
        };
        put(producer).expect("a legal row");
    }
}

/// All rows as a chunk; symbols by their place in `names`.
///
/// # Errors
/// The chunk's.
pub fn chunk<'a>(columns: &'a Columns, names: &'a [&'a str]) -> Result<Chunk<'a>, Error> {
    let mut chunk = Chunk::new(TABLE);
    chunk
        .symbol_codes("symbol", &columns.name, names, Nulls::NONE)?
        .symbol_codes("side", &columns.side, &["B", "S"], Nulls::NONE)?;
    numbers(&mut chunk, columns)?;
    Ok(chunk)
}

/// Adds the columns that are not symbols.
///
/// # Errors
/// The chunk's.
pub fn numbers<'a>(chunk: &mut Chunk<'a>, columns: &'a Columns) -> Result<(), Error> {
    chunk
        .f64("bid", &columns.bid, Nulls::NONE)?
        .f64("ask", &columns.ask, Nulls::NONE)?
        .i64("bid_size", &columns.bid_size, Nulls::NONE)?
        .i64("ask_size", &columns.ask_size, Nulls::NONE)?
        .at_nanos(&columns.at)?;
    Ok(())
}
