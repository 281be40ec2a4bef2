//! A batch that is too large for one frame goes in parts, cut between rows.
//!
//! All parts are sized, then reserved and written into the ring behind each other, then appear by
//! one store: a refusal accepts nothing. Only a batch that the whole ring cannot hold is handed
//! over part by part, as room comes; then a refusal may come in the middle, and says how many rows
//! were accepted before it.

use std::ops::Range;
use std::sync::Arc;
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

/// Memory kept from one batch in parts to the next.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    parts: Vec<Part>,
    tables: Vec<Table>,
}

impl Producer {
    /// Publishes all rows of `source`, waiting up to `limit` for room.
    #[cold]
    pub(super) fn publish_parts(
        &mut self,
        source: &mut impl Rows,
        limit: Duration,
    ) -> Result<(), Stopped> {
        let mut parts = std::mem::take(&mut self.pieces.parts);
        parts.clear();
        let outcome = match self.cut(source, &mut parts) {
            Ok(()) => self.accept_parts(source, &parts, limit),
            Err(error) => Err(Stopped {
                rows_accepted: 0,
                error,
            }),
        };
        self.pieces.parts = parts;
        outcome
    }

    /// Hands the parts over, together if the ring can hold them.
    fn accept_parts(
        &mut self,
        source: &mut impl Rows,
        parts: &[Part],
        limit: Duration,
    ) -> Result<(), Stopped> {
        let start = Instant::now();
        let at_once = self.footprint(parts) <= self.writer.capacity();
        let mut rows_accepted = 0;
        for group in parts.chunks(if at_once { parts.len().max(1) } else { 1 }) {
            let stopped = |error| Stopped {
                rows_accepted,
                error,
            };
            loop {
                match self.accept_group(source, group) {
                    Ok(()) => break,
                    Err(Refused::Never(error)) => return Err(stopped(error)),
                    Err(Refused::Full(bytes)) => {
                        let left = limit.saturating_sub(start.elapsed());
                        self.wait_for_room(bytes, left, start).map_err(stopped)?;
                    }
                }
            }
            rows_accepted = group.last().map_or(rows_accepted, |part| part.0.end);
        }
        Ok(())
    }

    /// Room that the ring must have for these entries.
    fn footprint(&self, parts: &[Part]) -> u64 {
        self.writer.footprint(parts.iter().map(|part| part.1))
    }

    /// Cuts the rows so that every part fits a message and the ring. Parts aim at an eighth of the
    /// ring, so that a batch of up to seven eighths can always be in it as a whole.
    fn cut(&mut self, source: &mut impl Rows, parts: &mut Vec<Part>) -> Result<(), Error> {
        let (rows, aim) = (source.rows(), self.writer.payload_bytes_max() / 4);
        let (mut at, mut step) = (0, rows.max(1));
        while at < rows {
            let part = at..rows.min(at + step);
            let count = part.len();
            self.symbols.restart_uses();
            let header = source.size(part.clone(), &mut self.symbols, &mut self.plan, 0);
            let judged = match &header {
                Some(header) => self.check_size(header).map(|()| header.entry_bytes()),
                None => Err(self.beyond_any_limit()),
            };
            match judged {
                Ok(bytes) if bytes <= aim || count == 1 => {
                    parts.push((part, bytes));
                    at += count;
                    if bytes < aim / 4 {
                        step = step.saturating_mul(2);
                    }
                }
                Err(error) if count == 1 => return Err(error),
                Ok(bytes) => step = fewer(count, aim, bytes),
                Err(_) => step = fewer(count, 1, 2),
            }
        }
        Ok(())
    }

    /// Reserves and writes all parts, then makes them visible together: a part that finds no room
    /// leaves no trace of the others.
    ///
    /// With several rings this is done for all of them before the first is committed.
    fn accept_group(&mut self, source: &mut impl Rows, group: &[Part]) -> Result<(), Refused> {
        self.check_open()?;
        let bytes = self.footprint(group);
        if self.writer.room() < bytes {
            return Err(Refused::Full(bytes));
        }
        let now = monotonic_nanos();
        for (index, (rows, _)) in group.iter().enumerate() {
            self.symbols.restart_uses();
            let (symbols, plan) = (&mut self.symbols, &mut self.plan);
            let header = source
                .size(rows.clone(), symbols, plan, now)
                .expect("cut to fit");
            let entry = if index == 0 {
                self.writer.reserve(header.entry_bytes())
            } else {
                self.writer.reserve_next(header.entry_bytes())
            };
            let Some(entry) = entry else {
                return Err(Refused::Full(bytes));
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
        let mut source = Buffered {
            tables: &tables,
            part: std::mem::take(&mut self.pieces.tables),
        };
        let outcome = self.publish_parts(&mut source, limit);
        self.pieces.tables = source.part;
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
        self.symbols.restart_uses();
        for table in &self.tables {
            mark_symbols(table, &mut self.symbols);
        }
    }

    /// Sizes what cutting a batch needs, where a batch of these tables may need it.
    pub(super) fn warm_pieces(&mut self, rows: usize) {
        let Pieces { parts, tables } = &mut self.pieces;
        parts.reserve(64);
        for (index, table) in self.tables.iter().enumerate() {
            shape(tables, index, table).warm(rows);
        }
    }
}

/// A smaller number of rows, of which some are likely to have `aim` bytes of `bytes`; whole bytes
/// of bits where there are enough rows.
fn fewer(rows: usize, aim: usize, bytes: usize) -> usize {
    let rows = (rows * aim / bytes.max(1)).clamp(1, rows - rows / 4 - 1);
    if rows > 8 { rows - rows % 8 } else { rows }
}

/// Notes the symbols of a table as used by the present batch.
fn mark_symbols(table: &Table, symbols: &mut Symbols) {
    for column in &table.columns {
        for id in column.buffer.symbol_ids() {
            symbols.mark_used(id);
        }
    }
}

/// The table at `index` of `part`, made to have the columns of `like`.
fn shape<'a>(part: &'a mut Vec<Table>, index: usize, like: &Table) -> &'a mut Table {
    if part.len() <= index {
        part.resize_with(index + 1, || Table::new("", Arc::clone(&like.counters)));
    }
    let table = &mut part[index];
    if !table.has_columns_of(like) {
        *table = like.slice(0..0);
    }
    table
}

/// The buffer's rows, table by table.
struct Buffered<'a> {
    tables: &'a [Table],
    /// The same tables with the rows of the present part.
    part: Vec<Table>,
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
        let mut first = 0;
        for (index, table) in self.tables.iter().enumerate() {
            let (from, to) = (
                rows.start.clamp(first, first + table.rows),
                rows.end.clamp(first, first + table.rows),
            );
            let part = shape(&mut self.part, index, table);
            part.assign(table, from - first..to - first);
            mark_symbols(part, symbols);
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
