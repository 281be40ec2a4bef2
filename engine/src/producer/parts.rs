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
pub(super) type Part = (Range<usize>, usize);

/// Memory kept from one batch in parts to the next.
#[derive(Debug, Default)]
pub(super) struct Pieces {
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
        let mut parts = std::mem::take(&mut self.desk.parts);
        parts.clear();
        let outcome = match self.cut(source, &mut parts) {
            Ok(()) => self.accept_parts(source, &parts, limit),
            Err(error) => Err(Stopped {
                rows_accepted: 0,
                error,
            }),
        };
        self.desk.parts = parts;
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
        let at_once = self.footprint(parts) <= self.desk.writer.capacity();
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
        self.desk.writer.footprint(parts.iter().map(|part| part.1))
    }

    /// Cuts the rows so that every part fits a message and the ring. Parts aim at an eighth of the
    /// ring, so that a batch of up to seven eighths can always be in it as a whole.
    fn cut(&mut self, source: &mut impl Rows, parts: &mut Vec<Part>) -> Result<(), Error> {
        let (rows, aim) = (source.rows(), self.desk.writer.payload_bytes_max() / 4);
        let (mut at, mut step) = (0, rows.max(1));
        while at < rows {
            let part = at..rows.min(at + step);
            let count = part.len();
            let symbols = &mut self.desk.symbols;
            symbols.restart_uses();
            let header = source.size(part.clone(), symbols, &mut self.plan, 0);
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
    fn accept_group(&mut self, source: &mut impl Rows, group: &[Part]) -> Result<(), Refused> {
        self.check_open()?;
        self.write_group(source, group)?;
        self.show_group(source, group);
        self.not_overtaken()
    }

    /// Reserves and writes all parts into the present desk's ring, where nobody sees them yet.
    fn write_group(&mut self, source: &mut impl Rows, group: &[Part]) -> Result<(), Refused> {
        let bytes = self.footprint(group);
        let desk = &mut *self.desk;
        if desk.writer.room() < bytes {
            return Err(Refused::Full(bytes));
        }
        let now = monotonic_nanos();
        for (index, (rows, _)) in group.iter().enumerate() {
            desk.symbols.restart_uses();
            let (symbols, plan) = (&mut desk.symbols, &mut self.plan);
            let header = source
                .size(rows.clone(), symbols, plan, now)
                .expect("cut to fit");
            let entry = if index == 0 {
                desk.writer.reserve(header.entry_bytes())
            } else {
                desk.writer.reserve_next(header.entry_bytes())
            };
            let Some(entry) = entry else {
                return Err(Refused::Full(bytes));
            };
            source.write(rows.clone(), &header, symbols, plan, entry);
        }
        Ok(())
    }

    /// Makes the parts that were written visible.
    fn show_group(&mut self, source: &impl Rows, group: &[Part]) {
        let first = self.desk.published;
        self.make_visible(group.len() as u64);
        let lane = &self.desk.lane;
        for (entry, (rows, _)) in (first..).zip(group) {
            let acked = || lane.reached(Stage::Acked);
            let rows = source.by_table(rows.clone());
            lane.ledger.accepted(entry, rows, acked);
        }
    }

    /// Makes what is written in the ring visible to the shard as `entries` entries.
    #[inline]
    pub(super) fn make_visible(&mut self, entries: u64) {
        let desk = &mut *self.desk;
        desk.published += entries;
        desk.is_touched = true;
        // Before the entry is visible, so that nobody sees it acked and not accepted.
        desk.lane.advance(Stage::Accepted, desk.published);
        desk.writer.commit();
        desk.gate.knock();
    }

    /// A close that ran meanwhile may have missed the entries: the rows stay, as refused. At
    /// worst they are delivered and the caller sends them again.
    #[inline]
    pub(super) fn not_overtaken(&self) -> Result<(), Refused> {
        if self.desk.gate.is_closed() {
            return Err(Refused::Never(Error::Closed));
        }
        Ok(())
    }

    /// Publishes the present desk's rows in parts. What was accepted leaves the buffer.
    #[cold]
    pub(super) fn publish_buffer_in_parts(&mut self, limit: Duration) -> Result<(), Error> {
        let outcome = self.with_buffered(|this, source| this.publish_parts(source, limit));
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

    /// Cuts the present desk's rows and writes all parts into its ring, where nobody sees them
    /// yet. `false`: the whole ring cannot hold them.
    #[cold]
    pub(super) fn write_parts(&mut self) -> Result<bool, Refused> {
        self.with_buffered(|this, source| {
            let mut parts = std::mem::take(&mut this.desk.parts);
            parts.clear();
            let cut = this.cut(source, &mut parts).map_err(Refused::Never);
            let outcome = cut.and_then(|()| {
                if this.footprint(&parts) > this.desk.writer.capacity() {
                    return Ok(false);
                }
                this.write_group(source, &parts).map(|()| true)
            });
            this.desk.parts = parts;
            outcome
        })
    }

    /// Makes the parts that were written visible.
    #[cold]
    pub(super) fn show_parts(&mut self) {
        self.with_buffered(|this, source| {
            let parts = std::mem::take(&mut this.desk.parts);
            this.show_group(source, &parts);
            this.desk.parts = parts;
        });
    }

    fn with_buffered<T>(&mut self, work: impl FnOnce(&mut Self, &mut Buffered<'_>) -> T) -> T {
        let tables = std::mem::take(&mut self.desk.tables);
        let mut source = Buffered {
            tables: &tables,
            part: std::mem::take(&mut self.pieces.tables),
        };
        let outcome = work(self, &mut source);
        self.pieces.tables = source.part;
        self.desk.tables = tables;
        outcome
    }

    /// Takes the first `rows` rows, counted table by table, out of the buffer.
    fn drop_front(&mut self, mut rows: usize) {
        let desk = &mut *self.desk;
        desk.rows -= rows;
        for table in &mut desk.tables {
            let gone = rows.min(table.rows);
            rows -= gone;
            if gone > 0 {
                *table = table.slice(gone..table.rows);
            }
        }
        desk.symbols.restart_uses();
        for table in &desk.tables {
            mark_symbols(table, &mut desk.symbols);
        }
        self.recount_bytes();
    }

    /// Sizes what cutting a batch needs, where a batch of these tables may need it.
    pub(super) fn warm_pieces(&mut self, rows: usize) {
        let desk = &mut *self.desk;
        desk.parts.reserve(64);
        for (index, table) in desk.tables.iter().enumerate() {
            shape(&mut self.pieces.tables, index, table).warm(rows);
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
