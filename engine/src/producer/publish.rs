//! Publishing a batch: sized, checked, written into the shard's ring, made visible by one store.

use std::time::{Duration, Instant};

use super::desk::Desk;
use super::{Producer, Receipt};
use crate::error::Error;
use crate::io::sys::monotonic_nanos;
use crate::router::entry::EntryHeader;
use crate::router::lane::Stage;
use crate::router::room::Wanted;
use crate::units::millis;

/// Who sleeps for room is woken when this part of the ring is free, or what the batch needs if that
/// is more.
const MUCH: u64 = 4;

/// Why a batch was not accepted this time.
pub(super) enum Refused {
    /// The ring lacks room, of which it must have so many bytes: try again.
    Full(u64),
    /// It will never be accepted as it is.
    Never(Error),
}

/// What became of an attempt to write a desk's rows as one entry.
pub(super) enum Entry {
    /// It is in the ring.
    Written,
    /// It must go in parts.
    TooLarge,
    /// The ring lacks room, of which it must have so many bytes.
    Full(u64),
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
        self.begin_receipt();
        self.publish_waiting()?;
        self.published_receipt()
    }

    /// As [`publish`](Self::publish), as a part of what the present receipt is about.
    pub(super) fn publish_waiting(&mut self) -> Result<(), Error> {
        let outcome = self.hand_over(self.append_deadline());
        outcome.inspect_err(|error| self.count_refusal(error))
    }

    /// The receipt of what was published, once it is where publishing returns.
    pub(super) fn published_receipt(&self) -> Result<Receipt, Error> {
        let receipt = self.receipt();
        if self.options.publish_stable {
            receipt.wait(Stage::Stable, self.flush_limit())?;
        }
        Ok(receipt)
    }

    /// Publishes as [`publish`](Self::publish) does, but never waits: a full ring is
    /// [`Error::Backpressure`] at once, and no stage is waited for in any mode.
    pub fn try_publish(&mut self) -> Result<Receipt, Error> {
        self.begin_receipt();
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
        if self.options.flush_stage == Stage::Accepted && !self.options.publish_stable {
            // Once publishing returns there is nothing to wait for.
            return self.publish_waiting();
        }
        let receipt = self.publish()?;
        receipt.wait(self.options.flush_stage, self.flush_limit())
    }

    /// Bytes that are free in this producer's ring, by two relaxed loads; 0 while
    /// `sf_max_total_bytes` is used up, and in a forked child. Of several shards' rings, the one
    /// with the least room counts.
    #[inline]
    pub fn headroom(&self) -> u64 {
        if !self.home.is_here() {
            return 0;
        }
        let room = |desk: &Desk| {
            if desk.gate.is_full() {
                return 0;
            }
            desk.writer.room()
        };
        let others = self.others.iter().map(|desk| room(desk));
        others.fold(room(&self.desk), u64::min)
    }

    #[inline]
    fn hand_over(&mut self, limit: Duration) -> Result<(), Error> {
        if self.hand_over_tray() {
            return Ok(());
        }
        self.hand_over_columns(limit)
    }

    /// Publishes what is buffered by way of the columns.
    #[inline(never)]
    fn hand_over_columns(&mut self, limit: Duration) -> Result<(), Error> {
        self.give_tray_up();
        if self.elsewhere > 0 {
            return self.hand_over_everywhere(limit);
        }
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
        let gate = &self.desk.gate;
        gate.knock();
        let mut stalled = false;
        if !limit.is_zero() {
            let writer = &self.desk.writer;
            let wanted = Wanted {
                need: writer.position_for(bytes),
                much: writer.position_for(bytes.max(writer.capacity() / MUCH)),
            };
            let lane = &self.desk.lane;
            let outcome = lane.wait_for_room(wanted, limit, || {
                if !stalled && gate.is_full() {
                    stalled = true;
                    gate.counters.backpressure_stalls.add_shared(1);
                }
                // Whoever closes waits for nobody who waits here: he is refused.
                gate.is_over() || gate.is_closed() || writer.room() >= bytes
            });
            gate.counters.room_sleeps.add_shared(outcome.sleeps);
            if outcome.reached {
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
        if self.desk.rows == 0 {
            return Attempt::Accepted;
        }
        match self.write_entry() {
            Entry::Written => {}
            Entry::TooLarge => return Attempt::TooLarge,
            Entry::Full(bytes) => return Attempt::Refused(Refused::Full(bytes)),
        }
        self.show_entry();
        if let Err(refused) = self.not_overtaken() {
            return Attempt::Refused(refused);
        }
        self.start_batch();
        Attempt::Accepted
    }

    /// Writes the present desk's rows as one entry into its ring, where nobody sees it yet.
    #[inline]
    pub(super) fn write_entry(&mut self) -> Entry {
        let desk = &mut *self.desk;
        let sized = self
            .plan
            .size(&desk.tables, &desk.symbols, monotonic_nanos());
        let Some(header) = sized else {
            return Entry::TooLarge;
        };
        if self.check_size(&header).is_err() {
            return Entry::TooLarge;
        }
        let desk = &mut *self.desk;
        let Some(entry) = desk.writer.reserve(header.entry_bytes()) else {
            return Entry::Full(desk.writer.footprint([header.entry_bytes()]));
        };
        self.plan.write(&header, &desk.tables, &desk.symbols, entry);
        Entry::Written
    }

    /// Makes the entry that was written visible.
    #[inline]
    pub(super) fn show_entry(&mut self) {
        self.make_visible(1);
        self.count_accepted();
    }

    /// Whether batches are taken now.
    #[inline]
    pub(super) fn check_open(&self) -> Result<(), Refused> {
        // Before anything is written: in a child the ring is not there.
        self.home.check().map_err(Refused::Never)?;
        if self.row_open() {
            return Err(Refused::Never(Error::Misuse(
                "publish while a row is open: call at(), at_now() or discard_row() first",
            )));
        }
        match self.desk.gate.refusal() {
            Some(error) => Err(Refused::Never(error)),
            None => Ok(()),
        }
    }

    /// Rows per table of the entry published last, on this thread: a shard spends nothing on it.
    #[inline]
    fn count_accepted(&self) {
        let tables = self.desk.tables.iter().enumerate();
        let rows = tables.filter_map(|(index, table)| {
            let rows = table.rows;
            (rows > 0).then_some((index, rows))
        });
        let acked = || self.desk.lane.reached(Stage::Acked);
        self.desk
            .lane
            .ledger
            .accepted(self.desk.published - 1, rows, acked);
    }

    /// A batch that was turned away: by cause, and its rows by table. A wrong order of calls is
    /// nobody's refusal; a batch that a `close` overtook in the last moment counts as accepted.
    #[cold]
    pub(super) fn count_refusal(&self, error: &Error) {
        let counters = &self.desk.gate.counters;
        let cause = match error {
            Error::Misuse(_) => return,
            Error::Backpressure { .. } => &counters.publishes_timed_out,
            Error::BatchTooLarge { .. } => &counters.publishes_oversize,
            _ => &counters.publishes_ended,
        };
        cause.add_shared(1);
        for table in self.desks().flat_map(Desk::filled) {
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
        if let Some(cap) = self.desk.gate.server_cap().filter(|cap| *cap < limit_bytes) {
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
        let (entry_bytes, ring) = (header.entry_bytes(), self.desk.writer.payload_bytes_max());
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

    /// The present desk's rows are accepted, or given up.
    #[inline]
    pub(super) fn start_batch(&mut self) {
        for table in &mut self.desk.tables {
            if table.rows > 0 {
                table.clear();
            }
        }
        self.next_symbols();
        self.desk.rows = 0;
        if self.elsewhere == 0 {
            self.triggers.start_batch();
        }
    }

    /// The next batch's symbols begin, with a table of their own if the dictionary is a new one.
    #[inline]
    pub(super) fn next_symbols(&mut self) {
        let epoch = self.desk.gate.symbol_epoch();
        let desk = &mut *self.desk;
        desk.symbols.next_batch(desk.published, epoch);
    }
}
