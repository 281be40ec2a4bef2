//! Generated L1 quotes: the load of `run`.
//!
//! A row has two symbols (`symbol` out of so many names, `side`), two doubles, two longs and a
//! nanosecond timestamp: 44 bytes in a frame when both symbols take two bytes each of ids and
//! bookkeeping. Values come from columns filled before the clock starts, so that a measured row
//! costs one indexed read per column and nothing else. The same seed gives the same rows.

use std::ops::Range;

use forebay::{Error, Producer, TimestampNanos};

use crate::random::Random;

/// Table the rows go to.
pub const TABLE: &str = "quotes";
/// Columns of a row, in their order.
pub const COLUMNS: [&str; 6] = ["symbol", "side", "bid", "ask", "bid_size", "ask_size"];
/// Values of column `side`.
pub const SIDES: [&str; 2] = ["S", "B"];
/// Distinct values of column `symbol`, unless something else is asked for.
pub const NAMES_COUNT: usize = 64;
/// Rows before the values repeat, and most rows of a chunk. A power of two.
pub const ROWS_COUNT: usize = 65_536;

/// Nanoseconds between the timestamps of two consecutive rows.
const STEP_NS: i64 = 1_000;
const SEED: u64 = 0x5EED_F04E_BA11_0001;

/// The pre-generated rows, as columns of twice [`ROWS_COUNT`], so that a chunk never wraps.
#[derive(Debug)]
pub struct Quotes {
    /// Texts of column `symbol`.
    pub names: Vec<String>,
    /// Codes of column `symbol` in `names`.
    pub symbol: Vec<u32>,
    /// Codes of column `side` in [`SIDES`].
    pub side: Vec<u32>,
    /// Column `bid`.
    pub bid: Vec<f64>,
    /// Column `ask`.
    pub ask: Vec<f64>,
    /// Column `bid_size`.
    pub bid_size: Vec<i64>,
    /// Column `ask_size`.
    pub ask_size: Vec<i64>,
    first_ns: i64,
}

impl Quotes {
    /// Fills the columns; row 0 is stamped `first_ns` (nanoseconds since the epoch).
    pub fn new(first_ns: i64) -> Self {
        Self::with_names(first_ns, NAMES_COUNT)
    }

    /// The same with so many names, at least 1.
    pub fn with_names(first_ns: i64, names_count: usize) -> Self {
        let names = 0..names_count.max(1);
        let mut quotes = Self {
            names: names.map(|index| format!("SYM{index:04}")).collect(),
            symbol: Vec::new(),
            side: Vec::new(),
            bid: Vec::new(),
            ask: Vec::new(),
            bid_size: Vec::new(),
            ask_size: Vec::new(),
            first_ns,
        };
        let mut random = Random::from_state(SEED);
        for _ in 0..ROWS_COUNT {
            quotes.add(&mut random);
        }
        quotes.symbol.extend_from_within(..);
        quotes.side.extend_from_within(..);
        quotes.bid.extend_from_within(..);
        quotes.ask.extend_from_within(..);
        quotes.bid_size.extend_from_within(..);
        quotes.ask_size.extend_from_within(..);
        quotes
    }

    fn add(&mut self, random: &mut Random) {
        let mut next = || random.next() >> 11;
        let name = u32::try_from(next() % self.names.len() as u64).unwrap_or(0);
        let tick = u32::try_from(next() % 10_000).unwrap_or(0);
        let bid = 100.0 * (1.0 + f64::from(name)) + f64::from(tick) / 100.0;
        let mut size = || 100 * (1 + (next() % 50).cast_signed());
        self.bid.push(bid);
        self.ask.push(bid + 0.01);
        self.bid_size.push(size());
        self.ask_size.push(size());
        self.symbol.push(name);
        self.side.push(u32::from(next() & 1 == 0));
    }

    /// Where the values of row `number` (from 0) are.
    #[inline]
    pub fn place(number: u64) -> usize {
        usize::try_from(number % ROWS_COUNT as u64).unwrap_or(0)
    }

    /// Where those of `rows` rows from `number` on are; `rows` is at most [`ROWS_COUNT`].
    pub fn places(number: u64, rows: usize) -> Range<usize> {
        let start = Self::place(number);
        start..start + rows.min(ROWS_COUNT)
    }

    /// The timestamp of row `number`, nanoseconds since the epoch.
    #[inline]
    pub fn at(&self, number: u64) -> i64 {
        self.first_ns
            .wrapping_add(number.cast_signed().wrapping_mul(STEP_NS))
    }

    /// Adds row `number` (from 0) to the producer's buffer.
    ///
    /// # Errors
    /// The engine's.
    #[inline]
    pub fn put(&self, producer: &mut Producer, number: u64) -> Result<(), Error> {
        self.put_into(TABLE, producer, number)
    }

    /// The same for a table of another name.
    ///
    /// # Errors
    /// The engine's.
    #[inline]
    pub fn put_into(&self, table: &str, producer: &mut Producer, number: u64) -> Result<(), Error> {
        let place = Self::place(number);
        producer
            .table(table)?
            .symbol("symbol", &self.names[self.symbol[place] as usize])?
            .symbol("side", SIDES[self.side[place] as usize])?
            .column_f64("bid", self.bid[place])?
            .column_f64("ask", self.ask[place])?
            .column_i64("bid_size", self.bid_size[place])?
            .column_i64("ask_size", self.ask_size[place])?
            .at(TimestampNanos(self.at(number)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{NAMES_COUNT, Quotes, ROWS_COUNT};

    #[test]
    fn rows_use_all_names_both_sides_and_sane_prices() {
        let quotes = Quotes::new(0);
        assert_eq!(quotes.bid.len(), 2 * ROWS_COUNT);
        let names: HashSet<u32> = quotes.symbol.iter().copied().collect();
        assert_eq!(names.len(), NAMES_COUNT);
        let prices = quotes.bid.iter().zip(&quotes.ask);
        assert!(
            prices
                .into_iter()
                .all(|(bid, ask)| ask > bid && *bid >= 100.0)
        );
        assert!(
            quotes
                .bid_size
                .iter()
                .all(|size| (100..=5_000).contains(size))
        );
        let buys = quotes.side[..ROWS_COUNT]
            .iter()
            .filter(|side| **side == 1)
            .count();
        assert!(buys > ROWS_COUNT / 3 && buys < 2 * ROWS_COUNT / 3, "{buys}");
    }

    #[test]
    fn the_rows_are_the_same_in_every_run_and_repeat() {
        let (first, second) = (Quotes::new(0), Quotes::new(0));
        assert_eq!(first.bid, second.bid);
        assert_eq!(first.ask_size, second.ask_size);
        let last = ROWS_COUNT as u64 - 1;
        let places = Quotes::places(last, 2);
        let next = Quotes::place(last + 1);
        assert_eq!(
            first.bid[places],
            [first.bid[Quotes::place(last)], first.bid[next]]
        );
    }

    #[test]
    fn as_many_names_as_asked_for() {
        let quotes = Quotes::with_names(0, 3);
        let names: HashSet<u32> = quotes.symbol.iter().copied().collect();
        assert_eq!((quotes.names.len(), names.len()), (3, 3));
        assert_eq!(Quotes::with_names(0, 0).names.len(), 1);
    }
}
