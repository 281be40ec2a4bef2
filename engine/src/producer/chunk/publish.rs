//! From a chunk to entries in the ring: symbols to the producer's ids, then one copy.

use std::ops::Range;
use std::time::Duration;

use forebay_wire::encode::{SliceColumn, Values, block_head_len, write_block_head};
use forebay_wire::types::ColumnType;

use super::stamps::Added;
use super::{Chunk, Column, Symbols as Texts};
use crate::error::Error;
use crate::producer::parts::Rows;
use crate::producer::plan::size;
use crate::producer::{Plan, Producer, Receipt, Symbols};
use crate::router::entry::EntryHeader;

/// Memory kept from chunk to chunk.
#[derive(Debug, Default)]
pub(in crate::producer) struct Scratch {
    /// Ids of the symbol columns, in the order of the columns.
    cells: Vec<Vec<u32>>,
    /// Ids of a dictionary's entries; `u32::MAX` where no row has used it yet.
    codes: Vec<u32>,
    /// Ids that the chunk uses, each once.
    used: Vec<u32>,
    /// Columns that the keys ask for.
    added: Vec<Added>,
}

impl Scratch {
    /// Makes room for chunks of so many rows, of which `columns` columns are symbols, `symbols`
    /// different ones.
    pub(in crate::producer) fn warm(&mut self, rows: usize, columns: usize, symbols: usize) {
        if self.cells.len() < columns {
            self.cells.resize_with(columns, Vec::new);
        }
        for cells in &mut self.cells[..columns] {
            touch(cells, rows);
        }
        touch(&mut self.codes, symbols);
        touch(&mut self.used, symbols);
    }
}

/// Room for `len` elements, written once; those there were are gone.
fn touch(list: &mut Vec<u32>, len: usize) {
    list.clear();
    list.resize(len, 0);
    list.clear();
}

impl Producer {
    /// Publishes a chunk and returns at accepted, as [`publish`](Self::publish) does; rows that
    /// are buffered go before it, as a batch of their own. A chunk larger than a frame is cut
    /// between rows, all of it accepted or none (but see `rows_accepted` of
    /// [`Error::Backpressure`]).
    pub fn publish_chunk(&mut self, chunk: &Chunk<'_>) -> Result<Receipt, Error> {
        self.begin_receipt();
        self.publish_waiting()?;
        self.hand_over_chunk(chunk, self.append_deadline())?;
        self.published_receipt()
    }

    /// As [`publish_chunk`](Self::publish_chunk), but never waits.
    pub fn try_publish_chunk(&mut self, chunk: &Chunk<'_>) -> Result<Receipt, Error> {
        self.begin_receipt();
        self.try_flush()?;
        self.hand_over_chunk(chunk, Duration::ZERO)?;
        Ok(self.receipt())
    }

    fn hand_over_chunk(&mut self, chunk: &Chunk<'_>, limit: Duration) -> Result<(), Error> {
        chunk.check_whole(self.options.name_bytes_max)?;
        if chunk.rows() == 0 {
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let outcome = self.go_to_table(chunk.table).and_then(|()| {
            self.stamp_chunk(chunk, &mut scratch.added)
                .map_err(|(column, reason)| (column, Unresolved::Refused(reason)))
                .and_then(|()| self.resolve(chunk, &mut scratch))
                .map_err(|(column, cause)| match cause {
                    Unresolved::Refused(reason) => self.refuse_chunk(chunk, &column, reason),
                    Unresolved::Full => {
                        let error = self.symbols_full(&column);
                        self.count_refused_chunk(chunk.rows(), &error);
                        error
                    }
                })?;
            let mut source = Sliced {
                chunk,
                scratch: &scratch,
                place: self.desk.current,
            };
            let outcome = self.publish_parts(&mut source, limit);
            outcome.map_err(|stopped| {
                let left = chunk.rows() - stopped.rows_accepted;
                self.count_refused_chunk(left, &stopped.error);
                stopped.error.with_rows_accepted(stopped.rows_accepted)
            })
        });
        self.scratch = scratch;
        if outcome.is_err() {
            self.desk.symbols.rewind_all();
        }
        self.next_symbols();
        outcome
    }

    /// The rows of a chunk that were turned away, of the table that is current.
    #[cold]
    fn count_refused_chunk(&self, rows: usize, error: &Error) {
        // Nothing is buffered: only the cause is counted there.
        self.count_refusal(error);
        if !matches!(error, Error::Misuse(_)) {
            self.desk.tables[self.desk.current]
                .counters
                .refused(rows as u64);
        }
    }

    /// Gives every symbol cell of the chunk its id.
    fn resolve(
        &mut self,
        chunk: &Chunk<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), (String, Unresolved)> {
        let symbolic = chunk
            .columns
            .iter()
            .filter(|column| column.symbols.is_some());
        let count = symbolic.clone().count();
        if scratch.cells.len() < count {
            scratch.cells.resize_with(count, Vec::new);
        }
        let Scratch {
            cells, codes, used, ..
        } = scratch;
        // Noted here once, so that sizing need not look at every cell again.
        self.desk.symbols.restart_uses();
        for (column, ids) in symbolic.zip(cells) {
            ids.clear();
            self.resolve_column(column, ids, codes)
                .map_err(|reason| (column.name.to_owned(), reason))?;
        }
        used.clear();
        used.extend(self.desk.symbols.used().map(|(id, _)| id));
        Ok(())
    }

    /// The ids of a column's cells, noted as used; those of null rows are of no meaning.
    fn resolve_column(
        &mut self,
        column: &Column<'_>,
        ids: &mut Vec<u32>,
        known: &mut Vec<u32>,
    ) -> Result<(), Unresolved> {
        let slice = column.slice;
        let valid = |row: usize| slice.is_valid(row);
        match column.symbols {
            None => {}
            Some(Texts::Handles(handles)) => {
                ids.resize(handles.len(), u32::MAX);
                for (row, (id, symbol)) in ids.iter_mut().zip(handles).enumerate() {
                    if !valid(row) {
                        continue;
                    }
                    if symbol.owner != self.id {
                        let reason = format!("row {row}: a symbol of another producer");
                        return Err(Unresolved::Refused(reason));
                    }
                    *id = self.cell_of_symbol(*symbol).ok_or(Unresolved::Full)?;
                }
            }
            Some(Texts::Codes { codes, dictionary }) => {
                known.clear();
                known.resize(dictionary.len(), u32::MAX);
                for (row, code) in codes.iter().enumerate() {
                    if let Some(place) = known.get_mut(*code as usize)
                        && *place == u32::MAX
                        && valid(row)
                    {
                        let text = dictionary[*code as usize];
                        *place = self.cell_of_text(text).ok_or(Unresolved::Full)?;
                    }
                }
                let id = |code: &u32| known.get(*code as usize).copied().unwrap_or(u32::MAX);
                ids.extend(codes.iter().map(id));
            }
            Some(Texts::Text { offsets, text }) => {
                for (row, pair) in offsets.windows(2).enumerate() {
                    let text = &text[pair[0] as usize..pair[1] as usize];
                    let id = if valid(row) {
                        self.cell_of_text(text).ok_or(Unresolved::Full)?
                    } else {
                        u32::MAX
                    };
                    ids.push(id);
                }
            }
        }
        Ok(())
    }
}

/// Why a symbol has no id.
enum Unresolved {
    /// The slot has no room for it.
    Full,
    /// It cannot be sent as it is.
    Refused(String),
}

/// A chunk whose symbols have ids.
struct Sliced<'a> {
    chunk: &'a Chunk<'a>,
    scratch: &'a Scratch,
    /// Place of the table in the producer.
    place: usize,
}

impl Sliced<'_> {
    /// The columns in their order, symbols as ids, those that the keys ask for at the end.
    fn columns(&self) -> impl Iterator<Item = SliceColumn<'_>> {
        let mut cells = self.scratch.cells.iter();
        let own = self.chunk.columns.iter().map(move |column| {
            let mut slice = column.slice;
            if column.symbols.is_some() {
                slice.values = Values::U32(cells.next().expect("resolved before"));
            }
            slice
        });
        own.chain(self.scratch.added.iter().map(Added::slice))
    }

    fn definitions(&self) -> impl Iterator<Item = (&str, ColumnType)> + Clone {
        let own = self.chunk.columns.iter();
        let added = self.scratch.added.iter();
        own.map(|column| (column.name, column.slice.ty))
            .chain(added.map(|added| (added.name.as_str(), added.ty)))
    }
}

impl Rows for Sliced<'_> {
    fn rows(&self) -> usize {
        self.chunk.rows()
    }

    fn size(
        &mut self,
        rows: Range<usize>,
        symbols: &mut Symbols,
        plan: &mut Plan,
        accepted_ns: u64,
    ) -> Option<EntryHeader> {
        if !Chunk::fits_block(&rows) {
            return None;
        }
        plan.runs.clear();
        let whole = rows.len() == self.rows();
        if whole {
            for id in &self.scratch.used {
                symbols.mark_used(*id);
            }
        }
        let mut bytes = block_head_len(self.chunk.table, rows.len(), self.definitions());
        for column in self.columns() {
            if let Some((offset, cells)) = column.symbol_run(rows.clone()) {
                plan.runs.push((size(bytes + offset)?, size(cells)?));
                if !whole {
                    mark_used(&column, rows.clone(), symbols);
                }
            }
            bytes += column.encoded_len(rows.clone());
        }
        plan.header(symbols, accepted_ns, rows.len(), 1, bytes)
    }

    fn by_table(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        std::iter::once((self.place, rows.len()))
    }

    fn write(
        &self,
        rows: Range<usize>,
        header: &EntryHeader,
        symbols: &Symbols,
        plan: &Plan,
        out: &mut [u8],
    ) {
        let mut at = plan.write_front(header, symbols, out);
        let head = &mut out[at..];
        at += write_block_head(head, self.chunk.table, rows.len(), self.definitions());
        for column in self.columns() {
            at += column.encode(rows.clone(), &mut out[at..]);
        }
        assert_eq!(at, out.len(), "a chunk fills exactly what was sized");
    }
}

fn mark_used(column: &SliceColumn<'_>, rows: Range<usize>, symbols: &mut Symbols) {
    let Values::U32(ids) = column.values else {
        return;
    };
    for row in rows {
        if column.is_valid(row) {
            symbols.mark_used(ids[row]);
        }
    }
}
