//! When a producer publishes by itself.
//!
//! Rows are counted anyway. Bytes cost a look at the columns of the row's table; those of the other
//! tables are remembered. The interval is looked at on every row with the coarse clock, which has
//! the resolution of the kernel's tick.

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
    /// Bytes of all tables as each was looked at last.
    buffered: usize,
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
            buffered: 0,
            since: 0,
        }
    }

    /// The buffer is empty.
    #[inline]
    pub(super) fn start_batch(&mut self) {
        self.buffered = 0;
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
        if self.rows() == 1 && self.triggers.interval != u64::MAX {
            self.triggers.since = coarse_nanos();
        }
        if self.rows() >= self.triggers.rows || self.is_too_old() || self.has_too_many_bytes() {
            self.publish()?;
        }
        Ok(())
    }

    fn is_too_old(&self) -> bool {
        let triggers = &self.triggers;
        triggers.interval != u64::MAX
            && coarse_nanos().saturating_sub(triggers.since) >= triggers.interval
    }

    fn has_too_many_bytes(&mut self) -> bool {
        if self.triggers.bytes == usize::MAX {
            return false;
        }
        let table = &mut self.desk.tables[self.desk.current];
        let bytes = self.tray.encoded_len_of(table);
        let before = std::mem::replace(&mut table.bytes_seen, bytes);
        self.triggers.buffered = self.triggers.buffered - before + bytes;
        self.triggers.buffered >= self.triggers.bytes
    }

    /// The buffer holds other rows than before.
    pub(super) fn recount_bytes(&mut self) {
        self.triggers.buffered = 0;
        let Self {
            desk,
            others,
            triggers,
            ..
        } = self;
        for desk in std::iter::once(desk).chain(others) {
            for table in &mut desk.tables {
                table.bytes_seen = if table.rows > 0 {
                    table.encoded_len()
                } else {
                    0
                };
                triggers.buffered += table.bytes_seen;
            }
        }
    }

    /// Bytes of the buffered rows as they are encoded (symbols at four bytes each).
    pub fn buffered_bytes(&self) -> usize {
        let tables = self.desks().flat_map(|desk| &desk.tables);
        tables.map(|table| self.tray.encoded_len_of(table)).sum()
    }

    /// For duty cycles: publishes if the oldest buffered row is older than `auto_flush_interval`,
    /// which otherwise is looked at on the next row only. Never waits; without buffered rows it
    /// costs one comparison.
    pub fn tick(&mut self) -> Result<(), Error> {
        if self.rows() > 0 && !self.row_open() && self.is_too_old() {
            self.try_flush()?;
        }
        Ok(())
    }
}
