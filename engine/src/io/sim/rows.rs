//! The batches of a run: what batch `n` of producer `p` holds follows from the seed alone, so the
//! server can tell a mangled row without being told what was sent.

use std::fmt::Write as _;
use std::sync::LazyLock;

use forebay_wire::decode::{Cell, Message, Table};
use forebay_wire::dict::ConnectionDict;

use super::random::{Rng, mix};
use crate::error::Error;
use crate::producer::{Producer, TimestampNanos};

const TABLES: [&str; 3] = ["trades", "quotes", "bars"];
const ROWS_MAX: u64 = 200;
/// Symbols that every batch may use.
const POOL: u64 = 12;

/// One row. `batch` holds the producer in its upper half.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Row {
    table: &'static str,
    symbol: String,
    venue: Option<String>,
    batch: i64,
    number: i64,
    price: Option<f64>,
    note: String,
    at: i64,
}

/// A batch, which becomes one frame.
#[derive(Debug)]
pub(crate) struct Batch {
    rows: Vec<Row>,
}

impl Batch {
    /// Batch `number` of `producer`.
    pub(crate) fn of(seed: u64, producer: u32, number: u32) -> Self {
        let mut rng = Rng::new(mix(&[seed, u64::from(producer), u64::from(number)]));
        let count = if rng.percent(25) {
            rng.between(1, ROWS_MAX)
        } else {
            rng.between(1, 40)
        };
        let tables = rng.between(1, 3);
        let first = rng.index(TABLES.len());
        let new_percent = [0, 0, 3, 30][rng.index(4)];
        let batch = i64::from(producer) << 32 | i64::from(number);
        let rows = (0..i64::try_from(count).expect("at most 200 rows"))
            .map(|number| Row {
                table: TABLES[(first + rng.index(index(tables))) % TABLES.len()],
                symbol: symbol(&mut rng, new_percent, batch, number),
                venue: rng.percent(30).then(|| symbol(&mut rng, 0, batch, number)),
                batch,
                number,
                price: price(&mut rng),
                note: note(&mut rng),
                at: 1_700_000_000_000_000_000 + batch + number,
            })
            .collect();
        Self { rows }
    }

    /// A lean batch in a frame of 6 to 12 KiB or of a few hundred bytes. Even ones have one row and
    /// few sizes, so that a frame often fits exactly where a lost one was; odd ones have two rows,
    /// mostly with new symbols.
    pub(crate) fn lean(seed: u64, producer: u32, number: u32) -> Self {
        let mut rng = Rng::new(mix(&[seed, u64::from(producer), u64::from(number), 1]));
        let batch = i64::from(producer) << 32 | i64::from(number);
        let long = [300, 6_000, 9_000, 9_000, 12_000][rng.index(5)];
        let odd = i64::from(number % 2);
        let rows = (0..=odd).map(|row| Row {
            table: TABLES[0],
            symbol: symbol(&mut rng, if odd == 1 { 80 } else { 0 }, batch, row),
            venue: (odd == 1).then(|| symbol(&mut rng, 0, batch, row)),
            batch,
            number: row,
            price: Some(0.25),
            note: text(&mut rng, if row == 0 { long } else { 10 }),
            at: 1_700_000_000_000_000_000 + batch + row,
        });
        Self {
            rows: rows.collect(),
        }
    }

    /// Hands the rows to a producer.
    pub(crate) fn fill(&self, producer: &mut Producer) -> Result<(), Error> {
        for row in &self.rows {
            producer.table(row.table)?.symbol("sym", &row.symbol)?;
            if let Some(venue) = &row.venue {
                producer.symbol("venue", venue)?;
            }
            producer
                .column_i64("batch", row.batch)?
                .column_i64("row", row.number)?;
            if let Some(price) = row.price {
                producer.column_f64("price", price)?;
            }
            producer
                .column_str("note", &row.note)?
                .at(TimestampNanos(row.at))?;
        }
        Ok(())
    }

    /// Compares with rows that arrived: per table the same rows in the same order.
    pub(crate) fn check(&self, arrived: &[Row]) {
        assert_eq!(arrived.len(), self.rows.len(), "rows of a batch");
        for table in TABLES {
            let sent = self.rows.iter().filter(|row| row.table == table);
            let got = arrived.iter().filter(|row| row.table == table);
            for (sent, got) in sent.zip(got) {
                assert_eq!(sent, got, "published and arrived");
            }
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("a small number")
}

fn symbol(rng: &mut Rng, new_percent: u64, batch: i64, row: i64) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = if rng.percent(new_percent) {
        write!(text, "new-{batch:x}-{row}-{:>1$}", "", index(rng.below(40)))
    } else {
        write!(text, "sym{}", rng.below(POOL))
    };
    text
}

fn price(rng: &mut Rng) -> Option<f64> {
    let ticks = u32::try_from(rng.below(1 << 20)).expect("a small number");
    rng.percent(80).then(|| f64::from(ticks) / 4.0)
}

fn note(rng: &mut Rng) -> String {
    let len = if rng.percent(5) {
        rng.below(1500)
    } else {
        rng.below(200)
    };
    text(rng, len)
}

/// Text of up to 14,000 bytes.
fn text(rng: &mut Rng, len: u64) -> String {
    static TEXT: LazyLock<String> =
        LazyLock::new(|| "journalled before it is sent, delivered after any crash. ".repeat(250));
    TEXT[index(rng.below(57))..][..index(len)].to_owned()
}

/// The producer and number of a batch, from a row's `batch` column.
fn split(batch: i64) -> (u32, u32) {
    let part = |bits: i64| u32::try_from(bits & 0xFFFF_FFFF).expect("masked");
    (part(batch >> 32), part(batch))
}

/// All rows of a message, and which batch they say they are. `None` for a message without rows.
pub(crate) fn read(
    message: &Message<'_>,
    dictionary: &ConnectionDict,
) -> Option<((u32, u32), Vec<Row>)> {
    let mut rows = Vec::new();
    for table in message.tables_within(dictionary.len() as u64) {
        let table = table.unwrap_or_else(|error| panic!("a delivered message is broken: {error}"));
        read_table(&table, dictionary, &mut rows);
    }
    let batch = rows.first()?.batch;
    assert!(
        rows.iter().all(|row| row.batch == batch),
        "one message, one batch"
    );
    Some((split(batch), rows))
}

fn read_table(table: &Table<'_>, dictionary: &ConnectionDict, rows: &mut Vec<Row>) {
    let name = TABLES.into_iter().find(|name| *name == table.name());
    let name = name.unwrap_or_else(|| panic!("table {:?} was never published", table.name()));
    let start = rows.len();
    rows.resize(
        start + table.row_count(),
        Row {
            table: name,
            ..Row::default()
        },
    );
    for column in table.columns() {
        let column = column.unwrap_or_else(|error| panic!("a checked column is broken: {error}"));
        for (row, cell) in rows[start..].iter_mut().zip(column.cells()) {
            row.set(column.name, cell, dictionary);
        }
    }
}

impl Row {
    fn set(&mut self, column: &str, cell: Option<Cell<'_>>, dictionary: &ConnectionDict) {
        let text = |id| dictionary.get(id).expect("ids are checked").to_owned();
        match (column, cell) {
            ("sym", Some(Cell::Symbol(id))) => self.symbol = text(id),
            ("venue", Some(Cell::Symbol(id))) => self.venue = Some(text(id)),
            ("batch", Some(Cell::Integer(value))) => self.batch = value,
            ("row", Some(Cell::Integer(value))) => self.number = value,
            // A NaN is how a DOUBLE says NULL.
            ("price", Some(Cell::Double(value))) => {
                self.price = Some(value).filter(|v| !v.is_nan());
            }
            ("note", Some(Cell::Text(Ok(value)))) => value.clone_into(&mut self.note),
            ("", Some(Cell::Time(value))) => self.at = value,
            ("venue" | "price", None) => {}
            (column, cell) => panic!("column {column:?} holds {cell:?}"),
        }
    }
}
