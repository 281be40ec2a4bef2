//! What the writer tells on its standard output, a line each. What it wrote before it was killed
//! is in the pipe, so the driver misses nothing.

use std::fmt;

/// Producers of the writer.
pub(crate) const PRODUCERS: usize = 2;
/// Tables that each writes to.
pub(crate) const TABLES: usize = 3;

/// Name of a table.
pub(crate) fn table(index: usize) -> String {
    format!("soak_{index}")
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Rows with numbers below these are about to be published by the producer.
    Tries(usize, [u64; TABLES]),
    /// A flush returned: rows with numbers below these are written.
    Confirmed(usize, [u64; TABLES]),
    /// Frames replayed and recovered so far in this life, and publishes that were refused.
    Stats([u64; 3]),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (letter, producer, numbers) = match self {
            Self::Tries(producer, numbers) => ('t', *producer, numbers),
            Self::Confirmed(producer, numbers) => ('c', *producer, numbers),
            Self::Stats(numbers) => ('s', 0, numbers),
        };
        let [a, b, c] = numbers;
        write!(f, "{letter} {producer} {a} {b} {c}")
    }
}

impl Word {
    /// Reads a line; `None` if it is none, such as the last one of a killed process.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let letter = words.next()?;
        let producer = words.next()?.parse().ok().filter(|p| *p < PRODUCERS)?;
        let mut numbers = [0; TABLES];
        for number in &mut numbers {
            *number = words.next()?.parse().ok()?;
        }
        match letter {
            "t" => Some(Self::Tries(producer, numbers)),
            "c" => Some(Self::Confirmed(producer, numbers)),
            "s" => Some(Self::Stats(numbers)),
            _ => None,
        }
    }
}
