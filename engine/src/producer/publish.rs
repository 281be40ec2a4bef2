//! Publishing a batch: sized, checked, written into the shard's ring, made visible by one store.

use std::time::Instant;

use super::{Producer, Receipt};
use crate::error::Error;
use crate::io::sys::monotonic_nanos;
use crate::router::entry::EntryHeader;
use crate::router::lane::Stage;
use crate::units::millis;

/// Why a batch was not accepted this time.
enum Refused {
    /// The ring has no room: try again.
    Full(EntryHeader),
    /// It will never be accepted as it is.
    Never(Error),
}

impl Producer {
    /// Publishes the buffered rows as one frame and returns at accepted. When the ring is full it
    /// waits up to `sf_append_deadline_millis`, then [`Error::Backpressure`] leaves the rows here.
    /// With `sf_durability=append` it returns at stable.
    pub fn publish(&mut self) -> Result<Receipt, Error> {
        let outcome = match self.accept() {
            Ok(receipt) => Ok(receipt),
            Err(Refused::Never(error)) => Err(error),
            Err(Refused::Full(header)) => self.publish_waiting(header),
        };
        let receipt = outcome.inspect_err(|error| self.count_refusal(error))?;
        if self.options.publish_stable {
            receipt.wait(Stage::Stable, self.options.flush_limit)?;
        }
        Ok(receipt)
    }

    /// Publishes as [`publish`](Self::publish) does, but never waits: a full ring is
    /// [`Error::Backpressure`] at once, and no stage is waited for in any mode.
    pub fn try_publish(&mut self) -> Result<Receipt, Error> {
        let outcome = self.accept().map_err(|refused| match refused {
            Refused::Never(error) => error,
            Refused::Full(header) => self.backpressure(&header, 0),
        });
        outcome.inspect_err(|error| self.count_refusal(error))
    }

    /// Publishes and waits: for written with `sf_dir`, for stable with `sf_durability=flush` or
    /// `append`, for accepted in memory mode. A wait ends after `sf_append_deadline_millis` (30 s
    /// at least) with [`Error::Timeout`]; the batch is then still on its way.
    pub fn flush(&mut self) -> Result<(), Error> {
        let receipt = self.publish()?;
        receipt.wait(self.options.flush_stage, self.options.flush_limit)
    }

    #[cold]
    fn publish_waiting(&mut self, header: EntryHeader) -> Result<Receipt, Error> {
        let start = Instant::now();
        let limit = self.options.append_deadline;
        self.gate.knock();
        let bytes = header.entry_bytes();
        let (lane, gate) = (
            std::sync::Arc::clone(&self.lane),
            std::sync::Arc::clone(&self.gate),
        );
        let mut stalled = false;
        lane.wait(Stage::Accepted, limit, || {
            if !stalled && gate.is_full() {
                stalled = true;
                gate.counters.backpressure_stalls.add_shared(1);
            }
            gate.is_over() || self.writer.reserve(bytes).is_some()
        });
        let waited = millis(start.elapsed());
        self.accept().map_err(|refused| match refused {
            Refused::Never(error) => error,
            Refused::Full(header) => {
                if stalled {
                    Error::Backpressure {
                        pressure: self.gate.pressure(),
                        batch_bytes: header.entry_bytes() as u64,
                        waited_millis: waited,
                    }
                } else {
                    self.backpressure(&header, waited)
                }
            }
        })
    }

    /// A counted refusal.
    #[cold]
    fn backpressure(&self, header: &EntryHeader, waited_millis: u64) -> Error {
        self.gate.counters.backpressure_stalls.add_shared(1);
        Error::Backpressure {
            pressure: self.gate.pressure(),
            batch_bytes: header.entry_bytes() as u64,
            waited_millis,
        }
    }

    fn accept(&mut self) -> Result<Receipt, Refused> {
        if self.row_open {
            return Err(Refused::Never(Error::Misuse(
                "publish while a row is open: call at(), at_now() or discard_row() first",
            )));
        }
        if let Some(error) = self.gate.refusal() {
            return Err(Refused::Never(error));
        }
        if self.rows == 0 {
            return Ok(self.receipt());
        }
        let header = self.size_batch(monotonic_nanos()).ok_or_else(|| {
            Refused::Never(Error::BatchTooLarge {
                batch_bytes: u64::from(u32::MAX),
                limit_bytes: self.options.message_bytes_max.0,
                limit: self.options.message_bytes_max.1,
            })
        })?;
        self.check_size(&header).map_err(Refused::Never)?;
        let Some(entry) = self.writer.reserve(header.entry_bytes()) else {
            return Err(Refused::Full(header));
        };
        Self::write_batch(&header, &self.tables, &self.symbols, &self.plan, entry);
        self.published += 1;
        // Before the entry is visible, so that nobody sees it acked and not accepted.
        self.lane.advance(Stage::Accepted, self.published);
        self.writer.commit();
        self.gate.knock();
        self.count_accepted();
        // A close that ran meanwhile may have missed the entry: the rows stay, as refused. At
        // worst they are delivered and the caller sends them again.
        if self.gate.is_closed() {
            return Err(Refused::Never(Error::Closed));
        }
        self.start_batch();
        Ok(self.receipt())
    }

    /// Rows per table, on this thread: a shard spends nothing on it.
    fn count_accepted(&self) {
        let tables = self.tables.iter().enumerate();
        let rows = tables.filter_map(|(index, table)| {
            let rows = table.rows;
            (rows > 0).then_some((index, rows))
        });
        self.lane
            .ledger
            .accepted(self.published - 1, rows, || self.lane.reached(Stage::Acked));
    }

    /// A batch that was turned away: by cause, and its rows by table. A wrong order of calls is
    /// nobody's refusal; a batch that a `close` overtook in the last moment counts as accepted.
    #[cold]
    fn count_refusal(&self, error: &Error) {
        let counters = &self.gate.counters;
        let cause = match error {
            Error::Misuse(_) => return,
            Error::Backpressure { .. } => &counters.publishes_timed_out,
            Error::BatchTooLarge { .. } => &counters.publishes_oversize,
            _ => &counters.publishes_ended,
        };
        cause.add_shared(1);
        for table in self.tables.iter().filter(|table| table.rows > 0) {
            table.counters.refused(table.rows as u64);
        }
    }

    fn check_size(&self, header: &EntryHeader) -> Result<(), Error> {
        let batch_bytes = header.message_bytes_max() as u64;
        let (mut limit_bytes, mut limit) = self.options.message_bytes_max;
        if let Some(cap) = self.gate.server_cap().filter(|cap| *cap < limit_bytes) {
            (limit_bytes, limit) = (cap, "the server (X-QWP-Max-Batch-Size)");
        }
        if batch_bytes > limit_bytes {
            return Err(Error::BatchTooLarge {
                batch_bytes,
                limit_bytes,
                limit,
            });
        }
        let (entry_bytes, ring) = (header.entry_bytes(), self.writer.payload_bytes_max());
        if entry_bytes > ring {
            return Err(Error::BatchTooLarge {
                batch_bytes: entry_bytes as u64,
                limit_bytes: ring as u64,
                limit: "intake_ring_bytes (an entry fills at most half of it)",
            });
        }
        Ok(())
    }

    pub(super) fn start_batch(&mut self) {
        for table in &mut self.tables {
            if table.rows > 0 {
                table.clear();
            }
        }
        self.symbols.next_batch();
        self.rows = 0;
    }

    fn receipt(&self) -> Receipt {
        Receipt::new(
            std::sync::Arc::clone(&self.gate),
            std::sync::Arc::clone(&self.lane),
            self.published,
            self.options.flush_stage,
            self.options.has_files,
        )
    }
}
