//! The rows of every contender: L1 quotes, made before the clock starts.
//!
//! Two symbols (64 names, two sides), two doubles, two longs and a timestamp in nanoseconds. They
//! lie as columns, from which rows are read one by one and chunks as slices.

use std::ops::Range;

/// Rows before the values repeat.
const ROWS: usize = 1 << 16;
/// Distinct values of column `symbol`.
const NAMES: u32 = 64;
const FIRST_NS: i64 = 1_750_000_000_000_000_000;
/// Nanoseconds between two rows.
const STEP_NS: i64 = 1_000;

/// The two values of column `side`.
pub(super) const SIDES: [&str; 2] = ["B", "S"];
/// Table and columns.
pub(super) const TABLE: &str = "quotes";
pub(super) const COLUMNS: [&str; 6] = ["symbol", "side", "bid", "ask", "bid_size", "ask_size"];

/// Columns, long enough that a batch never wraps.
#[derive(Debug)]
pub(super) struct Work {
    batch: usize,
    pub(super) names: Vec<String>,
    pub(super) symbol: Vec<u32>,
    pub(super) side: Vec<u32>,
    pub(super) bid: Vec<f64>,
    pub(super) ask: Vec<f64>,
    pub(super) bid_size: Vec<i64>,
    pub(super) ask_size: Vec<i64>,
}

impl Work {
    pub(super) fn new(batch: usize) -> Self {
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        let mut next = |below: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            u32::try_from(state >> 33).unwrap_or(0) % below
        };
        let mut work = Self {
            batch,
            names: (0..NAMES).map(|index| format!("SYM{index:04}")).collect(),
            symbol: Vec::new(),
            side: Vec::new(),
            bid: Vec::new(),
            ask: Vec::new(),
            bid_size: Vec::new(),
            ask_size: Vec::new(),
        };
        for _ in 0..ROWS.max(batch) + batch {
            let name = next(NAMES);
            let bid = 100.0 + f64::from(name) + f64::from(next(10_000)) / 100.0;
            work.symbol.push(name);
            work.side.push(next(2));
            work.bid.push(bid);
            work.ask.push(bid + 0.01);
            work.bid_size.push(i64::from(100 + next(5_000)));
            work.ask_size.push(i64::from(100 + next(5_000)));
        }
        work
    }

    /// Where the values of the batch lie whose first row is number `row`.
    pub(super) fn place(&self, row: u64) -> Range<usize> {
        let span = (self.symbol.len() - self.batch) as u64;
        let start = usize::try_from(row % span).unwrap_or(0);
        start..start + self.batch
    }

    /// The timestamp of row number `row`.
    pub(super) fn at(row: u64) -> i64 {
        FIRST_NS.wrapping_add(row.cast_signed().wrapping_mul(STEP_NS))
    }

    /// The text of the symbol at a place.
    pub(super) fn name(&self, place: usize) -> &str {
        &self.names[self.symbol[place] as usize]
    }

    /// The text of the side at a place.
    pub(super) fn side(&self, place: usize) -> &'static str {
        SIDES[self.side[place] as usize]
    }
}
