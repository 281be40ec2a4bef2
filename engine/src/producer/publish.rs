//! Publishing a batch: sized, checked, written into the shard's ring, made visible by one store.

use std::time::{Duration, Instant};

use super::{Producer, Receipt};
use crate::error::Error;
use crate::io::sys::monotonic_nanos;
use crate::router::entry::EntryHeader;
use crate::router::lane::Stage;
use crate::units::millis;

/// Why a batch was not accepted this time.
pub(super) enum Refused {
    /// The ring lacks room, of which it must have so many bytes: try again.
    Full(u64),
    /// It will never be accepted as it is.
    Never(Error),
}

/// What became of an attempt to publish the buffer as one frame.
enum Attempt {
    Accepted,
    /// It must go in parts.
    TooLarge,
    Refused(Refused),
}

impl Producer {
    /// Publishes the buffered rows and returns at accepted. When the ring is full it waits up to
    /// `sf_append_deadline_millis`, then [`Error::Backpressure`] leaves the rows here. A batch
    /// larger than a frame goes in parts, cut between rows, all accepted or none (but see
    /// `rows_accepted` of that error). With `sf_durability=append` it returns at stable.
    pub fn publish(&mut self) -> Result<Receipt, Error> {
        let outcome = self.hand_over(self.options.append_deadline);
        outcome.inspect_err(|error| self.count_refusal(error))?;
        self.published_receipt()
    }

    /// The receipt of what was published, once it is where publishing returns.
    pub(super) fn published_receipt(&self) -> Result<Receipt, Error> {
        let receipt = self.receipt();
        if self.options.publish_stable {
            receipt.wait(Stage::Stable, self.options.flush_limit)?;
        }
        Ok(receipt)
    }

    /// Publishes as [`publish`](Self::publish) does, but never waits: a full ring is
    /// [`Error::Backpressure`] at once, and no stage is waited for in any mode.
    pub fn try_publish(&mut self) -> Result<Receipt, Error> {
        self.try_flush()?;
        Ok(self.receipt())
    }

    /// Publishes as [`try_publish`](Self::try_publish) does, without a receipt: the cheapest
    /// hand-over. [`Receipt`] can be asked for later: an empty publish returns one for
    /// everything published before.
    #[inline]
    pub fn try_flush(&mut self) -> Result<(), Error> {
        let outcome = self.hand_over(Duration::ZERO);
        outcome.inspect_err(|error| self.count_refusal(error))
    }

    /// Publishes and waits: for stable with `sf_durability=flush` or `append`, else for accepted
    /// where that survives the process (`intake=file`) or there is no journal, and for written with
    /// `intake=memory`. A wait ends after `sf_append_deadline_millis` (30 s at least) with
    /// [`Error::Timeout`]; the batch is then still on its way.
    pub fn flush(&mut self) -> Result<(), Error> {
        let receipt = self.publish()?;
        receipt.wait(self.options.flush_stage, self.options.flush_limit)
    }

    /// Bytes that are free in this producer's ring, by two relaxed loads; 0 while
    /// `sf_max_total_bytes` is used up.
    #[inline]
    pub fn headroom(&self) -> u64 {
        if self.gate.is_full() {
            return 0;
        }
        self.writer.room()
    }

    #[inline]
    fn hand_over(&mut self, limit: Duration) -> Result<(), Error> {
        match self.accept() {
            Attempt::Accepted => Ok(()),
            Attempt::TooLarge => self.publish_buffer_in_parts(limit),
            Attempt::Refused(Refused::Never(error)) => Err(error),
            Attempt::Refused(Refused::Full(bytes)) => self.hand_over_waiting(bytes, limit),
        }
    }

    #[cold]
    fn hand_over_waiting(&mut self, mut bytes: u64, limit: Duration) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let left = limit.saturating_sub(start.elapsed());
            self.wait_for_room(bytes, left, start)?;
            match self.accept() {
                Attempt::Accepted => return Ok(()),
                Attempt::TooLarge => {
                    let left = limit.saturating_sub(start.elapsed());
                    return self.publish_buffer_in_parts(left);
                }
                Attempt::Refused(Refused::Never(error)) => return Err(error),
                Attempt::Refused(Refused::Full(again)) => bytes = again,
            }
        }
    }

    /// Waits until the ring has room for `bytes`; [`Error::Backpressure`] when `limit` passes
    /// first. Counts who waited in vain at the cap.
    #[cold]
    pub(super) fn wait_for_room(
        &mut self,
        bytes: u64,
        limit: Duration,
        start: Instant,
    ) -> Result<(), Error> {
        let gate = &self.gate;
        gate.knock();
        let mut stalled = false;
        if !limit.is_zero() {
            let roomy = self.lane.wait(Stage::Accepted, limit, || {
                if !stalled && gate.is_full() {
                    stalled = true;
                    gate.counters.backpressure_stalls.add_shared(1);
                }
                gate.is_over() || self.writer.room() >= bytes
            });
            if roomy {
                return Ok(());
            }
        }
        if !stalled {
            gate.counters.backpressure_stalls.add_shared(1);
        }
        Err(Error::Backpressure {
            pressure: gate.pressure(),
            batch_bytes: bytes,
            waited_millis: millis(start.elapsed()),
            rows_accepted: 0,
            positions: None,
        })
    }

    #[inline]
    fn accept(&mut self) -> Attempt {
        if let Err(refused) = self.check_open() {
            return Attempt::Refused(refused);
        }
        if self.rows == 0 {
            return Attempt::Accepted;
        }
        let sized = self
            .plan
            .size(&self.tables, &self.symbols, monotonic_nanos());
        let Some(header) = sized else {
            return Attempt::TooLarge;
        };
        if self.check_size(&header).is_err() {
            return Attempt::TooLarge;
        }
        let Some(entry) = self.writer.reserve(header.entry_bytes()) else {
            let bytes = self.writer.footprint([header.entry_bytes()]);
            return Attempt::Refused(Refused::Full(bytes));
        };
        self.plan.write(&header, &self.tables, &self.symbols, entry);
        self.make_visible(1);
        self.count_accepted();
        if let Err(refused) = self.not_overtaken() {
            return Attempt::Refused(refused);
        }
        self.start_batch();
        Attempt::Accepted
    }

    /// Whether batches are taken now.
    #[inline]
    pub(super) fn check_open(&self) -> Result<(), Refused> {
        if self.row_open() {
            return Err(Refused::Never(Error::Misuse(
                "publish while a row is open: call at(), at_now() or discard_row() first",
            )));
        }
        match self.gate.refusal() {
            Some(error) => Err(Refused::Never(error)),
            None => Ok(()),
        }
    }

    /// Rows per table of the entry published last, on this thread: a shard spends nothing on it.
    #[inline]
    fn count_accepted(&self) {
        let tables = self.tables.iter().enumerate();
        let rows = tables.filter_map(|(index, table)| {
            let rows = table.rows;
            (rows > 0).then_some((index, rows))
        });
        let acked = || self.lane.reached(Stage::Acked);
        self.lane.ledger.accepted(self.published - 1, rows, acked);
    }

    /// A batch that was turned away: by cause, and its rows by table. A wrong order of calls is
    /// nobody's refusal; a batch that a `close` overtook in the last moment counts as accepted.
    #[cold]
    pub(super) fn count_refusal(&self, error: &Error) {
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

    #[cold]
    pub(super) fn beyond_any_limit(&self) -> Error {
        Error::BatchTooLarge {
            batch_bytes: u64::from(u32::MAX),
            limit_bytes: self.options.message_bytes_max.0,
            limit: self.options.message_bytes_max.1,
            positions: None,
        }
    }

    #[inline]
    pub(super) fn check_size(&self, header: &EntryHeader) -> Result<(), Error> {
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
                positions: None,
            });
        }
        let (entry_bytes, ring) = (header.entry_bytes(), self.writer.payload_bytes_max());
        if entry_bytes > ring {
            return Err(Error::BatchTooLarge {
                batch_bytes: entry_bytes as u64,
                limit_bytes: ring as u64,
                limit: "intake_ring_bytes (an entry fills at most half of it)",
                positions: None,
            });
        }
        Ok(())
    }

    #[inline]
    pub(super) fn start_batch(&mut self) {
        for table in &mut self.tables {
            if table.rows > 0 {
                table.clear();
            }
        }
        self.next_symbols();
        self.rows = 0;
        self.triggers.start_batch();
    }

    /// The next batch's symbols begin, with a table of their own if the dictionary is a new one.
    #[inline]
    pub(super) fn next_symbols(&mut self) {
        let epoch = self.gate.counters.symbol_epochs.get();
        self.symbols.next_batch(self.published, epoch);
    }

    pub(super) fn receipt(&self) -> Receipt {
        Receipt::new(
            std::sync::Arc::clone(&self.gate),
            std::sync::Arc::clone(&self.lane),
            self.published,
            self.options.flush_stage,
            self.options.has_files,
        )
    }
}
