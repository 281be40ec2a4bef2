//! Generated L1 quotes: the load of `run`.
//!
//! A row has two symbols (`symbol` out of 64 names, `side`), two doubles, two longs and a
//! nanosecond timestamp: 44 bytes in a frame when both symbols take two bytes each of ids and
//! bookkeeping. Values come from arrays filled before the clock starts, so that a measured row
//! costs one indexed read per column and nothing else. The same seed gives the same rows.

use forebay::{Error, Producer, TimestampNanos};

use crate::random::Random;

/// Table the rows go to.
pub const TABLE: &str = "quotes";
/// Distinct values of column `symbol`.
pub const NAMES_COUNT: usize = 64;
/// Rows before the values repeat. A power of two.
pub const ROWS_COUNT: usize = 65_536;

/// Nanoseconds between the timestamps of two consecutive rows.
const STEP_NS: i64 = 1_000;
const SEED: u64 = 0x5EED_F04E_BA11_0001;

#[derive(Debug, Clone, Copy)]
struct Quote {
    bid: f64,
    ask: f64,
    bid_size: i64,
    ask_size: i64,
    name: u8,
    buy: bool,
}

/// The pre-generated rows.
#[derive(Debug)]
pub struct Quotes {
    names: Vec<String>,
    rows: Vec<Quote>,
    first_ns: i64,
}

impl Quotes {
    /// Fills the arrays; row 0 is stamped `first_ns` (nanoseconds since the epoch).
    pub fn new(first_ns: i64) -> Self {
        let names = (0..NAMES_COUNT)
            .map(|index| format!("SYM{index:04}"))
            .collect();
        let mut random = Random::from_state(SEED);
        let rows = (0..ROWS_COUNT).map(|_| quote(&mut random)).collect();
        Self {
            names,
            rows,
            first_ns,
        }
    }

    /// Adds row `number` (from 0) to the producer's buffer.
    ///
    /// # Errors
    /// The engine's.
    #[inline]
    pub fn put(&self, producer: &mut Producer, number: u64) -> Result<(), Error> {
        let slot = usize::try_from(number % ROWS_COUNT as u64).unwrap_or(0);
        let quote = &self.rows[slot];
        let at = self
            .first_ns
            .wrapping_add(number.cast_signed().wrapping_mul(STEP_NS));
        producer
            .table(TABLE)?
            .symbol("symbol", &self.names[usize::from(quote.name)])?
            .symbol("side", if quote.buy { "B" } else { "S" })?
            .column_f64("bid", quote.bid)?
            .column_f64("ask", quote.ask)?
            .column_i64("bid_size", quote.bid_size)?
            .column_i64("ask_size", quote.ask_size)?
            .at(TimestampNanos(at))
    }
}

fn quote(random: &mut Random) -> Quote {
    let mut next = || random.next() >> 11;
    let name = u8::try_from(next() % NAMES_COUNT as u64).unwrap_or(0);
    let tick = u32::try_from(next() % 10_000).unwrap_or(0);
    let bid = 100.0 * (1.0 + f64::from(name)) + f64::from(tick) / 100.0;
    let mut size = || 100 * (1 + (next() % 50).cast_signed());
    Quote {
        bid,
        ask: bid + 0.01,
        bid_size: size(),
        ask_size: size(),
        name,
        buy: next() & 1 == 0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{NAMES_COUNT, Quotes, ROWS_COUNT};

    #[test]
    fn rows_use_all_names_both_sides_and_sane_prices() {
        let quotes = Quotes::new(0);
        assert_eq!(quotes.rows.len(), ROWS_COUNT);
        let names: HashSet<u8> = quotes.rows.iter().map(|quote| quote.name).collect();
        assert_eq!(names.len(), NAMES_COUNT);
        assert!(
            quotes
                .rows
                .iter()
                .all(|quote| quote.ask > quote.bid && quote.bid >= 100.0)
        );
        assert!(
            quotes
                .rows
                .iter()
                .all(|quote| (100..=5_000).contains(&quote.bid_size))
        );
        let buys = quotes.rows.iter().filter(|quote| quote.buy).count();
        assert!(buys > ROWS_COUNT / 3 && buys < 2 * ROWS_COUNT / 3, "{buys}");
    }

    #[test]
    fn the_rows_are_the_same_in_every_run() {
        let (first, second) = (Quotes::new(0), Quotes::new(0));
        assert_eq!(
            format!("{:?}", first.rows[9]),
            format!("{:?}", second.rows[9])
        );
    }
}
