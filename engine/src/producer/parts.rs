//! A batch that is too large for one frame goes in parts, cut between rows.
//!
//! All parts are written into the ring behind each other and appear at once: a refusal accepts
//! nothing. Only a batch larger than half the ring is handed over part by part, as room comes;
//! then a refusal may come in the middle, and says how many rows were accepted before it.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::publish::Refused;
use super::table::Table;
use super::{Plan, Producer, Symbols};
use crate::error::Error;
use crate::io::sys::monotonic_nanos;
use crate::router::entry::EntryHeader;
use crate::router::lane::Stage;

/// Rows in a sequence, any range of which can be written as an entry.
pub(super) trait Rows {
    /// All of them.
    fn rows(&self) -> usize;
    /// Sizes an entry of `rows`, marking the symbols that it uses; `None` beyond any limit.
    fn size(
        &mut self,
        rows: Range<usize>,
        symbols: &mut Symbols,
        plan: &mut Plan,
        accepted_ns: u64,
    ) -> Option<EntryHeader>;
    /// Rows of each table among `rows`, by the table's place in the producer.
    fn by_table(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, usize)>;
    /// Writes the entry that was sized just before.
    fn write(
        &self,
        rows: Range<usize>,
        header: &EntryHeader,
        symbols: &Symbols,
        plan: &Plan,
        out: &mut [u8],
    );
}

/// Why handing over stopped, and what was accepted before.
pub(super) struct Stopped {
    pub(super) rows_accepted: usize,
    pub(super) error: Error,
}

/// A part: its rows and the bytes of its entry.
type Part = (Range<usize>, usize);

impl Producer {
    /// Publishes all rows of `source`, waiting up to `limit` for room.
    #[cold]
    pub(super) fn publish_parts(
        &mut self,
        source: &mut impl Rows,
        limit: Duration,
    ) -> Result<(), Stopped> {
        let nothing = |error| Stopped {
            rows_accepted: 0,
            error,
        };
        let mut parts = Vec::new();
        self.cut(source, 0..source.rows(), &mut parts)
            .map_err(nothing)?;
        let bytes: usize = parts.iter().map(|part| part.1 + 16).sum();
        let start = Instant::now();
        let at_once = bytes as u64 <= self.writer.capacity() / 2;
        let mut accepted = 0;
        for group in parts.chunks(if at_once { parts.len().max(1) } else { 1 }) {
            let stopped = |error| Stopped {
                rows_accepted: accepted,
                error,
            };
            loop {
                match self.accept_group(source, group) {
                    Ok(()) => break,
                    Err(Refused::Never(error)) => return Err(stopped(error)),
                    Err(Refused::Full(header)) => {
                        let left = limit.saturating_sub(start.elapsed());
                        self.wait_for_room(&header, group_bytes(group), left, start)
                            .map_err(stopped)?;
                    }
                }
            }
            accepted = group.last().map_or(accepted, |part| part.0.end);
        }
        Ok(())
    }

    /// Cuts `rows` in halves until every part fits a message and the ring.
    fn cut(
        &mut self,
        source: &mut impl Rows,
        rows: Range<usize>,
        parts: &mut Vec<Part>,
    ) -> Result<(), Error> {
        self.symbols.next_batch();
        let header = source.size(rows.clone(), &mut self.symbols, &mut self.plan, 0);
        let judged = match &header {
            Some(header) => self.check_size(header),
            None => Err(self.beyond_any_limit()),
        };
        match (judged, header) {
            (Ok(()), Some(header)) => {
                parts.push((rows, header.entry_bytes()));
                Ok(())
            }
            (Err(error), _) if rows.len() <= 1 => Err(error),
            _ => {
                // Whole bytes of bits where there are enough rows.
                let half = rows.len() / 2;
                let half = if half > 8 {
                    half - half % 8
                } else {
                    half.max(1)
                };
                let middle = rows.start + half;
                self.cut(source, rows.start..middle, parts)?;
                self.cut(source, middle..rows.end, parts)
            }
        }
    }

    /// Writes the parts and makes them visible together.
    fn accept_group(&mut self, source: &mut impl Rows, group: &[Part]) -> Result<(), Refused> {
        self.check_open()?;
        let now = monotonic_nanos();
        for (index, (rows, _)) in group.iter().enumerate() {
            self.symbols.next_batch();
            let (symbols, plan) = (&mut self.symbols, &mut self.plan);
            let header = source
                .size(rows.clone(), symbols, plan, now)
                .expect("cut to fit");
            let bytes = header.entry_bytes();
            let entry = if index == 0 {
                self.writer.reserve(bytes)
            } else {
                self.writer.reserve_next(bytes)
            };
            let Some(entry) = entry else {
                return Err(Refused::Full(header));
            };
            source.write(rows.clone(), &header, symbols, plan, entry);
        }
        let first = self.published;
        self.make_visible(group.len() as u64);
        for (entry, (rows, _)) in (first..).zip(group) {
            let acked = || self.lane.reached(Stage::Acked);
            let rows = source.by_table(rows.clone());
            self.lane.ledger.accepted(entry, rows, acked);
        }
        self.not_overtaken()
    }

    /// Makes what is written in the ring visible to the shard as `entries` entries.
    #[inline]
    pub(super) fn make_visible(&mut self, entries: u64) {
        self.published += entries;
        // Before the entry is visible, so that nobody sees it acked and not accepted.
        self.lane.advance(Stage::Accepted, self.published);
        self.writer.commit();
        self.gate.knock();
    }

    /// A close that ran meanwhile may have missed the entries: the rows stay, as refused. At
    /// worst they are delivered and the caller sends them again.
    #[inline]
    pub(super) fn not_overtaken(&self) -> Result<(), Refused> {
        if self.gate.is_closed() {
            return Err(Refused::Never(Error::Closed));
        }
        Ok(())
    }

    /// Publishes the buffered rows in parts. What was accepted leaves the buffer.
    #[cold]
    pub(super) fn publish_buffer_in_parts(&mut self, limit: Duration) -> Result<(), Error> {
        let tables = std::mem::take(&mut self.tables);
        let mut source = Buffered::new(&tables);
        let outcome = self.publish_parts(&mut source, limit);
        self.tables = tables;
        match outcome {
            Ok(()) => {
                self.start_batch();
                Ok(())
            }
            Err(Stopped {
                rows_accepted,
                error,
            }) => {
                self.drop_front(rows_accepted);
                Err(error.with_rows_accepted(rows_accepted))
            }
        }
    }

    /// Takes the first `rows` rows, counted table by table, out of the buffer.
    fn drop_front(&mut self, mut rows: usize) {
        self.rows -= rows;
        for table in &mut self.tables {
            let gone = rows.min(table.rows);
            rows -= gone;
            if gone > 0 {
                *table = table.slice(gone..table.rows);
            }
        }
        self.symbols.next_batch();
        for table in &self.tables {
            mark_symbols(table, &mut self.symbols);
        }
    }
}

/// Room that surely suffices for the group: with several entries, one may have to begin behind
/// the end of the buffer, which costs less than the largest of them.
fn group_bytes(group: &[Part]) -> usize {
    let all: usize = group.iter().map(|part| part.1 + 16).sum();
    match group {
        [_] => all - 16,
        _ => all + group.iter().map(|part| part.1).max().unwrap_or(0),
    }
}

/// Notes the symbols of a table as used by the present batch.
fn mark_symbols(table: &Table, symbols: &mut Symbols) {
    for column in &table.columns {
        for id in column.buffer.symbol_ids() {
            symbols.mark_used(id);
        }
    }
}

/// The buffer's rows, table by table.
struct Buffered<'a> {
    tables: &'a [Table],
    part: Vec<Table>,
}

impl<'a> Buffered<'a> {
    fn new(tables: &'a [Table]) -> Self {
        Self {
            tables,
            part: Vec::new(),
        }
    }
}

impl Rows for Buffered<'_> {
    fn rows(&self) -> usize {
        self.tables.iter().map(|table| table.rows).sum()
    }

    fn size(
        &mut self,
        rows: Range<usize>,
        symbols: &mut Symbols,
        plan: &mut Plan,
        accepted_ns: u64,
    ) -> Option<EntryHeader> {
        self.part.clear();
        let mut first = 0;
        for table in self.tables {
            let (from, to) = (
                rows.start.clamp(first, first + table.rows),
                rows.end.clamp(first, first + table.rows),
            );
            if to > from {
                let part = table.slice(from - first..to - first);
                mark_symbols(&part, symbols);
                self.part.push(part);
            }
            first += table.rows;
        }
        plan.size(&self.part, symbols, accepted_ns)
    }

    fn by_table(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let mut first = 0;
        let tables = self.tables.iter().enumerate();
        tables.filter_map(move |(index, table)| {
            let (from, to) = (first, first + table.rows);
            first = to;
            let shared = rows.end.clamp(from, to) - rows.start.clamp(from, to);
            (shared > 0).then_some((index, shared))
        })
    }

    fn write(
        &self,
        _rows: Range<usize>,
        header: &EntryHeader,
        symbols: &Symbols,
        plan: &Plan,
        out: &mut [u8],
    ) {
        plan.write(header, &self.part, symbols, out);
    }
}
