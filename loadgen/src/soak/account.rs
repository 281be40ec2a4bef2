//! The final account, table by table.

use std::fmt;

use comfy_table::Table as Grid;

use super::ledger::Ledger;
use super::words::{PRODUCERS, TABLES, table};
use super::writer::ROWS_MAX;

/// One table's rows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Line {
    tried: u64,
    confirmed: u64,
    stored: u64,
    rejected: u64,
    lost: u64,
    reordered: u64,
    duplicates: u64,
    invented: u64,
}

/// What became of every row.
#[derive(Debug, Clone)]
pub struct Account {
    seed: u64,
    lines: Vec<Line>,
    /// Most rows that resent frames can have doubled.
    duplicates_max: u64,
    refused: u64,
    kills: u64,
    restarts: u64,
    faults: u64,
    drained: bool,
}

/// What the driver counted.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) kills: u64,
    pub(crate) restarts: u64,
    pub(crate) faults: u64,
    pub(crate) drained: bool,
}

impl Account {
    pub(crate) fn new(seed: u64, ledger: &Ledger, tally: Tally) -> Self {
        let mut lines = vec![Line::default(); TABLES];
        for producer in 0..PRODUCERS {
            for (line, series) in lines.iter_mut().zip(&ledger.series[producer]) {
                line.tried += series.tried;
                line.stored += series.stored.count();
                line.rejected += series.rejected.count();
                line.reordered += series.stored.reordered;
                line.duplicates += series.stored.duplicates;
                line.invented += series.invented();
                for number in series.confirmed() {
                    line.confirmed += 1;
                    let known = series.stored.contains(number) || series.rejected.contains(number);
                    line.lost += u64::from(!known);
                }
            }
        }
        // A frame holds at most so many rows of all tables. What a life resent in the moment of
        // its death is not told: a hundred frames more for each.
        let frame = ROWS_MAX * TABLES as u64;
        Self {
            seed,
            lines,
            duplicates_max: (ledger.resent + 100 * tally.kills) * frame,
            refused: ledger.refused,
            kills: tally.kills,
            restarts: tally.restarts,
            faults: tally.faults,
            drained: tally.drained,
        }
    }

    /// Whether nothing was lost, reordered or invented, duplicates are explained, and the slot was
    /// drained.
    pub fn holds(&self) -> bool {
        let sum = |of: fn(&Line) -> u64| self.lines.iter().map(of).sum::<u64>();
        let wrong = sum(|line| line.lost) + sum(|line| line.reordered) + sum(|line| line.invented);
        self.drained && wrong == 0 && sum(|line| line.duplicates) <= self.duplicates_max
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut grid = Grid::new();
        grid.set_header([
            "table",
            "tried",
            "confirmed",
            "stored",
            "dead-lettered",
            "lost",
            "reordered",
            "invented",
            "stored twice",
        ]);
        for (index, line) in self.lines.iter().enumerate() {
            let mut cells = vec![table(index)];
            let numbers = [
                line.tried,
                line.confirmed,
                line.stored,
                line.rejected,
                line.lost,
                line.reordered,
                line.invented,
                line.duplicates,
            ];
            cells.extend(numbers.map(|number| number.to_string()));
            grid.add_row(cells);
        }
        writeln!(f, "{grid}")?;
        writeln!(
            f,
            "seed {}: {} faults, among them {} kills and {} restarts of the writer; {} publishes \
             were refused for want of room and tried again",
            self.seed, self.faults, self.kills, self.restarts, self.refused
        )?;
        write!(
            f,
            "resent frames explain {} rows stored twice; the slot is {}: the account {}",
            self.duplicates_max,
            if self.drained {
                "drained"
            } else {
                "not drained"
            },
            if self.holds() {
                "holds"
            } else {
                "DOES NOT HOLD"
            }
        )
    }
}
