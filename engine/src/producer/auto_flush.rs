//! When a producer publishes by itself.
//!
//! Rows are counted anyway. Bytes cost a look at every column, so they are looked at again only
//! when half of what is left could be full at the present size of a row. The interval is looked
//! at on every row with the coarse clock, which has the resolution of the kernel's tick.

use super::Producer;
use crate::config::AutoFlush;
use crate::error::Error;
use crate::io::sys::coarse_nanos;

/// The triggers and their state within the present batch.
#[derive(Debug)]
pub(super) struct Triggers {
    rows: usize,
    bytes: usize,
    interval: u64,
    /// Rows at which bytes are looked at again.
    look_at: usize,
    /// When the batch's first row was completed.
    since: u64,
}

impl Triggers {
    pub(super) fn new(keys: &AutoFlush) -> Self {
        let nanos =
            |limit: std::time::Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Self {
            rows: keys.rows.unwrap_or(usize::MAX),
            bytes: keys.bytes.unwrap_or(usize::MAX),
            interval: keys.interval.map_or(u64::MAX, nanos),
            look_at: 1,
            since: 0,
        }
    }

    /// Whether there is any: the only thing that a row without them costs.
    pub(super) fn is_off(keys: &AutoFlush) -> bool {
        *keys == AutoFlush::OFF
    }
}

impl Producer {
    /// A row was completed: publishes if a trigger says so.
    #[cold]
    pub(super) fn after_row(&mut self) -> Result<(), Error> {
        if self.rows == 1 {
            self.triggers.look_at = 1;
            if self.triggers.interval != u64::MAX {
                self.triggers.since = coarse_nanos();
            }
        }
        if self.rows >= self.triggers.rows || self.is_too_old() || self.has_too_many_bytes() {
            self.auto_publish()?;
        }
        Ok(())
    }

    fn is_too_old(&self) -> bool {
        let triggers = &self.triggers;
        triggers.interval != u64::MAX
            && coarse_nanos().saturating_sub(triggers.since) >= triggers.interval
    }

    fn has_too_many_bytes(&mut self) -> bool {
        if self.triggers.bytes == usize::MAX || self.rows < self.triggers.look_at {
            return false;
        }
        let bytes = self.buffered_bytes();
        let left = self.triggers.bytes.saturating_sub(bytes);
        let row = bytes.div_ceil(self.rows).max(1);
        self.triggers.look_at = self.rows + (left / row / 2).max(1);
        left == 0
    }

    fn auto_publish(&mut self) -> Result<(), Error> {
        self.publish().map(drop)
    }

    /// Bytes of the buffered rows as they are encoded (symbols at four bytes each).
    pub fn buffered_bytes(&self) -> usize {
        self.tables
            .iter()
            .filter(|table| table.rows > 0)
            .flat_map(|table| &table.columns)
            .map(|column| column.buffer.encoded_len())
            .sum()
    }

    /// For duty cycles: publishes if the oldest buffered row is older than `auto_flush_interval`,
    /// which otherwise is looked at on the next row only. Never waits; without buffered rows it
    /// costs one comparison.
    pub fn tick(&mut self) -> Result<(), Error> {
        if self.rows > 0 && !self.row_open && self.is_too_old() {
            self.try_flush()?;
        }
        Ok(())
    }
}
