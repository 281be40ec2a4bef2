//! The producers of a run: threads that build batches and hand them over when they are due.

use std::time::Instant;

use forebay::{Engine, Producer};

use super::RunOptions;
use crate::allocations::{self, Tally};
use crate::confirm::ConfirmLog;
use crate::cpu;
use crate::error::Error;
use crate::feed::Feed;
use crate::pace::{OpenLoop, wait_until};
use crate::pin::pin_current;
use crate::publish::WholeBatches;
use crate::quotes::Quotes;
use crate::report::Latencies;
use crate::signals::StopFlag;
use crate::usage::{Switches, thread_switches};

#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) rows: u64,
    pub(super) batches: u64,
    pub(super) publish: Latencies,
    pub(super) flush: Latencies,
    pub(super) publish_service: Latencies,
    pub(super) flush_service: Latencies,
    pub(super) cpu_ns: u64,
    pub(super) switches: Switches,
    /// From the end of the first tenth on.
    pub(super) allocations: Tally,
}

impl Sent {
    fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.batches += other.batches;
        self.publish.add(&other.publish);
        self.flush.add(&other.flush);
        self.publish_service.add(&other.publish_service);
        self.flush_service.add(&other.flush_service);
        self.cpu_ns += other.cpu_ns;
        self.switches.add(other.switches);
        self.allocations.add(&other.allocations);
    }
}

/// The first of so many parts of a run makes buffers: allocations are counted after it.
const WARM_PART: u64 = 10;

/// What all producers share.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) options: &'a RunOptions,
    /// Kernel ids of the shards' threads.
    pub(super) shards: &'a [u32],
    pub(super) quotes: &'a Quotes,
    pub(super) stop: &'a StopFlag,
    pub(super) started: Instant,
    /// Number of the first row.
    pub(super) first_row: u64,
    /// Rows in all: the measured ones, or those of the warm-up.
    pub(super) rows: u64,
}

impl Job<'_> {
    pub(super) fn all_producers(
        self,
        engine: &Engine,
        confirm: &mut Option<ConfirmLog>,
    ) -> Result<Sent, Error> {
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            // There is a log only where there is one producer: the first takes it.
            let mut confirm = confirm.as_mut();
            for index in 0..self.options.producers_count {
                let log = confirm.take();
                let named = std::thread::Builder::new().name(format!("producer-{index}"));
                let spawned = named.spawn_scoped(scope, move || self.produce(engine, index, log));
                threads.push(spawned.map_err(|error| {
                    Error::Internal(format!("no thread for producer {index}: {error}"))
                })?);
            }
            let mut all = Sent::default();
            for thread in threads {
                let ended = thread.join();
                let sent = ended
                    .unwrap_or_else(|_| Err(Error::Internal("a producer panicked".to_owned())))?;
                all.add(&sent);
            }
            Ok(all)
        })
    }

    /// The share of producer `index`, on its own thread.
    fn produce(
        self,
        engine: &Engine,
        index: u64,
        mut confirm: Option<&mut ConfirmLog>,
    ) -> Result<Sent, Error> {
        if let Some(core) = self.options.session.pin.filter(|_| index == 0) {
            pin_current(core)?;
        }
        let (first_row, rows) = share(self.rows, index, self.options.producers_count);
        let first_row = self.first_row + first_row;
        #[expect(clippy::cast_precision_loss, reason = "a number of threads")]
        let producers = self.options.producers_count as f64;
        let pace = self
            .options
            .rows_per_second
            .map(|rate| OpenLoop::new(self.started, rate / producers))
            .map(|pace| pace.in_bursts(self.options.burst_rows));
        let mut producer = WholeBatches::new(engine.producer()?);
        let options = self.options;
        let mut feed = Feed::new(
            self.quotes,
            options.way,
            options.tables_count,
            producer.get(),
        )?;
        let mut sent = Sent::default();
        let mut steady = None;
        while sent.rows < rows {
            if steady.is_none() && sent.rows >= rows / WARM_PART {
                steady = Some(self.asked(index, sent.batches));
            }
            let mut due_at = None;
            if let Some(pace) = pace {
                let due = pace.due(sent.rows);
                let idle = || confirm.as_mut().map_or(Ok(()), |log| log.poll());
                if !wait_until(due, self.stop, idle)? {
                    break;
                }
                due_at = Some(due);
            }
            if self.stop.is_set() {
                break;
            }
            let batch = self.options.batch_rows.min(rows - sent.rows);
            let first = first_row + sent.rows;
            let begun = due_at.unwrap_or_else(Instant::now);
            feed.fill(producer.get(), sent.batches, first, batch)?;
            let call = Call {
                due: due_at.map(|_| begun),
                first,
                last: sent.rows + batch == rows,
            };
            if !self.send(&mut producer, &feed, &mut sent, call, &mut confirm)? {
                break;
            }
            sent.rows += batch;
        }
        if let Some(before) = steady {
            let now = self.asked(index, sent.batches);
            sent.allocations = Tally {
                producer: now.producer - before.producer,
                shard: now.shard - before.shard,
                frames: now.frames - before.frames,
            };
        }
        sent.cpu_ns = cpu::thread_cpu_ns();
        sent.switches = thread_switches();
        Ok(sent)
    }

    /// What the calling producer has asked for, and what the shards have: the first producer
    /// watches them.
    fn asked(self, index: u64, frames: u64) -> Tally {
        let shards = if index == 0 { self.shards } else { &[] };
        Tally {
            producer: allocations::own(),
            shard: allocations::of(shards),
            frames,
        }
    }

    /// Publishes or flushes the batch; false when a stop came first. Times count from the intended
    /// start where there is one; those of the call alone are kept beside them. Nothing else is
    /// added for a stall: every batch that it delayed says so itself.
    fn send(
        self,
        producer: &mut WholeBatches,
        feed: &Feed<'_>,
        sent: &mut Sent,
        call: Call,
        confirm: &mut Option<&mut ConfirmLog>,
    ) -> Result<bool, Error> {
        let called = Instant::now();
        let from = call.due.unwrap_or(called);
        let receipt = if feed.is_columnar() {
            let chunk = |to: &mut Producer| feed.publish_chunk(to, sent.batches, call.first);
            producer.patiently(self.stop, chunk)?
        } else if self.options.flush_each {
            None
        } else {
            producer.patiently(self.stop, Producer::publish)?
        };
        if receipt.is_none() && (feed.is_columnar() || !self.options.flush_each) {
            return Ok(false);
        }
        if self.options.flush_each {
            if producer.patiently(self.stop, Producer::flush)?.is_none() {
                return Ok(false);
            }
            let end = Instant::now();
            sent.flush.record(end - from);
            if call.due.is_some() {
                sent.flush_service.record(end - called);
            }
        } else {
            let end = Instant::now();
            sent.publish.record(end - from);
            if call.due.is_some() {
                sent.publish_service.record(end - called);
            }
            if let (Some(log), Some(receipt)) = (confirm, receipt) {
                log.push(sent.batches + 1, receipt);
                log.poll()?;
            } else if call.last {
                producer.patiently(self.stop, Producer::flush)?;
                sent.flush.record(from.elapsed());
            }
        }
        sent.batches += 1;
        Ok(true)
    }
}

/// One batch on its way.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// Its intended start, where there is a rate.
    due: Option<Instant>,
    /// Number of its first row.
    first: u64,
    /// Whether it is the last one.
    last: bool,
}

/// First row and number of rows of one of several producers.
pub(super) fn share(rows: u64, index: u64, producers_count: u64) -> (u64, u64) {
    let start = |index: u64| {
        let part = u128::from(rows) * u128::from(index) / u128::from(producers_count);
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    (start(index), start(index + 1) - start(index))
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_are_even_and_leave_no_row_out() {
        let shares: Vec<_> = (0..3).map(|index| share(10, index, 3)).collect();
        assert_eq!(shares, [(0, 3), (3, 3), (6, 4)]);
        assert_eq!(share(u64::MAX, 0, 1), (0, u64::MAX));
    }
}
