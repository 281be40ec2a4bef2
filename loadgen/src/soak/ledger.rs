//! The books: what the writers tried and were confirmed, what the server stored, what was kept
//! aside as refused.

use std::fs;
use std::io::{BufRead, Read};
use std::path::Path;

use forebay_wire::decode::{Message, Mode, Table, Values};

use super::seen::Seen;
use super::words::{PRODUCERS, TABLES, Word, table};

/// Rows of one table by one producer.
#[derive(Debug, Default, Clone)]
pub(crate) struct Series {
    pub(crate) stored: Seen,
    pub(crate) rejected: Seen,
    /// Confirmed as written, a range for each life of the writer.
    confirmed: Vec<(u64, u64)>,
    /// One more than the highest number that any life has tried.
    pub(crate) tried: u64,
}

impl Series {
    /// Confirmed numbers.
    pub(crate) fn confirmed(&self) -> impl Iterator<Item = u64> {
        self.confirmed.iter().flat_map(|range| range.0..range.1)
    }

    /// Numbers stored or kept that nobody has tried to write.
    pub(crate) fn invented(&self) -> u64 {
        let end = self.stored.end().max(self.rejected.end());
        end.saturating_sub(self.tried)
    }
}

/// All series, and what the lives of the writer told.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) series: [[Series; TABLES]; PRODUCERS],
    /// Frames that may have been sent twice.
    pub(crate) resent: u64,
    /// Publishes that were refused for want of room.
    pub(crate) refused: u64,
    /// The present life's.
    life: [u64; 3],
}

impl Ledger {
    /// A writer starts; answers its first numbers.
    pub(crate) fn begin_life(&mut self) -> Vec<u64> {
        self.end_life();
        let mut from = Vec::new();
        for series in self.series.iter_mut().flatten() {
            series.confirmed.push((series.tried, series.tried));
            from.push(series.tried);
        }
        from
    }

    /// The writer ended, or was killed.
    pub(crate) fn end_life(&mut self) {
        let [replayed, recovered, refused] = std::mem::take(&mut self.life);
        self.resent += replayed + recovered;
        self.refused += refused;
    }

    /// A line of the writer.
    pub(crate) fn hear(&mut self, word: Word) {
        match word {
            Word::Tries(producer, numbers) => {
                for (series, number) in self.series[producer].iter_mut().zip(numbers) {
                    series.tried = series.tried.max(number);
                }
            }
            Word::Confirmed(producer, numbers) => {
                for (series, number) in self.series[producer].iter_mut().zip(numbers) {
                    if let Some(life) = series.confirmed.last_mut() {
                        life.1 = life.1.max(number);
                    }
                }
            }
            Word::Stats(numbers) => self.life = numbers,
        }
    }

    /// A block that the server stored.
    pub(crate) fn stored(&mut self, block: &Table<'_>) {
        self.enter(block, |series| &mut series.stored);
    }

    fn enter(&mut self, block: &Table<'_>, book: impl Fn(&mut Series) -> &mut Seen) {
        let Some(index) = (0..TABLES).find(|index| table(*index) == block.name()) else {
            return;
        };
        let (Some(producers), Some(numbers)) = (longs(block, "p"), longs(block, "n")) else {
            return;
        };
        for (producer, number) in producers.into_iter().zip(numbers) {
            let place = usize::try_from(producer).ok();
            let series = place.and_then(|producer| self.series.get_mut(producer));
            if let (Some(series), Ok(number)) = (series, u64::try_from(number)) {
                book(&mut series[index]).add(number);
            }
        }
    }

    /// Reads the files that hold what the server refused.
    pub(crate) fn read_rejected(&mut self, dir: &Path) -> std::io::Result<()> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry?.path());
        }
        paths.sort();
        for path in paths
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == "rejected"))
        {
            let mut file = std::io::BufReader::new(fs::File::open(path)?);
            file.read_until(b'\n', &mut Vec::new())?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let Ok(message) = Message::parse(&bytes, Mode::Genuine) else {
                continue;
            };
            for block in message.tables().flatten() {
                self.enter(&block, |series| &mut series.rejected);
            }
        }
        Ok(())
    }
}

/// The values of a LONG column.
fn longs(block: &Table<'_>, name: &str) -> Option<Vec<i64>> {
    let place = block.definitions().position(|(column, _)| column == name)?;
    let column = block.columns().nth(place)?.ok()?;
    match column.values {
        Values::Long(fixed) => Some(fixed.iter().collect()),
        _ => None,
    }
}
