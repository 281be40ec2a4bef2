//! Forebay as a contender.

use std::error::Error;
use std::ops::Range;
use std::time::Duration;

use forebay::{Engine, Producer, Receipt, Stage, Stats};
use forebay_loadgen::feed::{Feed, Way};
use forebay_loadgen::quotes::Quotes;

use super::contender::{Contender, count};

/// An engine with one producer.
#[derive(Debug)]
pub(super) struct Ours<'a> {
    // Declared first: it goes before its engine.
    producer: Producer,
    engine: Engine,
    feed: Feed<'a>,
    /// Flush every batch instead of publishing it.
    flush: bool,
    last: Option<Receipt>,
}

impl<'a> Ours<'a> {
    pub(super) fn connect(
        conf: &str,
        quotes: &'a Quotes,
        way: Way,
        flush: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let engine = Engine::connect(conf)?;
        let mut producer = engine.producer()?;
        Ok(Self {
            feed: Feed::new(quotes, way, 1, &mut producer)?,
            producer,
            engine,
            flush,
            last: None,
        })
    }

    /// Ends it; what the server has not confirmed stays.
    pub(super) fn close(self) -> Result<(), forebay::Error> {
        drop(self.producer);
        match self.engine.close() {
            Err(forebay::Error::NotDrained { .. }) => Ok(()),
            ended => ended,
        }
    }

    /// The counters.
    pub(super) fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Waits until what was handed over is in the files of the slot.
    pub(super) fn wait_written(&self, limit: Duration) -> Result<(), forebay::Error> {
        let last = self.last.as_ref();
        last.map_or(Ok(()), |receipt| receipt.wait(Stage::Written, limit))
    }
}

impl Contender for Ours<'_> {
    fn fill(&mut self, rows: Range<u64>) -> Result<(), Box<dyn Error>> {
        Ok(self
            .feed
            .fill(&mut self.producer, 0, rows.start, count(&rows))?)
    }

    fn hand_over(&mut self, rows: Range<u64>) -> Result<(), Box<dyn Error>> {
        if self.feed.is_columnar() {
            let receipt = self.feed.publish_chunk(&mut self.producer, 0, rows.start)?;
            self.last = Some(receipt);
        } else if self.flush {
            self.producer.flush()?;
        } else {
            self.last = Some(self.producer.publish()?);
        }
        Ok(())
    }

    fn wait_acked(&mut self, limit: Duration) -> Result<(), Box<dyn Error>> {
        if self.flush {
            self.producer.flush()?;
        }
        if let Some(receipt) = &self.last {
            receipt.wait(Stage::Acked, limit)?;
        }
        Ok(self.engine.wait_acked(limit)?)
    }
}
