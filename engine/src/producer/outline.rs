//! The entry of a small batch, all but finished: what every batch of so many rows of a table has
//! alike stands here already, and a batch adds its header, its symbols and its cells, each at a
//! place that is known.
//!
//! ```text
//! room | header, symbols | runs | head of the block | columns
//!                        ^ the same place always: what is before it ends there
//! ```
//!
//! Only for a table whose columns all have cells and hold no NULL: each is a byte that says so, then
//! values of one size. Byte for byte it is the entry that [`Plan`](super::Plan) writes.

use forebay_wire::encode::{CellForm, block_head_len, write_block_head};
use forebay_wire::types::ColumnType;

use super::Symbols;
use super::plan::{definitions, size, write_header_and_symbols, write_run};
use super::table::Table;
use crate::router::entry::{EntryHeader, HEADER_BYTES, RUN_BYTES, SYMBOL_HEAD_BYTES};

/// Room for the header and the symbols; a batch with longer ones goes the ordinary way.
const FRONT_BYTES: usize = 2048;

/// Where the cells of a column go.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    form: CellForm,
}

/// See the module documentation. Its memory is kept from table to table.
#[derive(Debug, Default)]
pub(super) struct Outline {
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// Rows that it is for, 0 if for none.
    rows: usize,
    runs: u32,
    block_bytes: u32,
}

impl Outline {
    /// What comes is of another table, or of other columns.
    pub(super) fn forget(&mut self) {
        self.rows = 0;
    }

    /// Makes room for batches of up to `rows` rows of a table, and touches it.
    pub(super) fn warm(&mut self, table: &Table, rows: usize) {
        self.lay_out(table, rows);
        self.forget();
    }

    /// Prepares the entry of so many rows; `None` if it must go the ordinary way.
    #[inline]
    pub(super) fn begin(
        &mut self,
        table: &Table,
        rows: usize,
        symbols: &Symbols,
        accepted_ns: u64,
    ) -> Option<EntryHeader> {
        if self.rows != rows {
            self.lay_out(table, rows);
        }
        let (used, text_bytes) = symbols.used_size();
        let symbol_bytes = used * SYMBOL_HEAD_BYTES + text_bytes;
        if HEADER_BYTES + symbol_bytes > FRONT_BYTES {
            return None;
        }
        let header = EntryHeader {
            accepted_ns,
            rows: size(rows)?,
            tables: 1,
            symbol_table: symbols.number(),
            symbols: size(used)?,
            symbol_bytes: size(symbol_bytes)?,
            runs: self.runs,
            block_bytes: self.block_bytes,
        };
        Some(header)
    }

    /// The entry whose header was made just before, with the cells of each column by its place.
    #[inline]
    pub(super) fn finish<'c>(
        &mut self,
        header: &EntryHeader,
        symbols: &Symbols,
        cells: impl Fn(usize) -> &'c [u64],
    ) -> &[u8] {
        let start = FRONT_BYTES - HEADER_BYTES - header.symbol_bytes as usize;
        let (_, entry) = self.bytes.split_at_mut(start);
        write_header_and_symbols(header, symbols, entry);
        for (column, place) in self.places.iter().enumerate() {
            place
                .form
                .write(cells(column), &mut entry[place.at - start..]);
        }
        entry
    }

    /// Writes everything that batches of so many rows have alike.
    #[cold]
    fn lay_out(&mut self, table: &Table, rows: usize) {
        let head_bytes = block_head_len(&table.name, rows, definitions(table));
        let mut run_at = FRONT_BYTES;
        let blocks_at = run_at + table.symbol_columns() * RUN_BYTES;
        self.places.clear();
        self.bytes.clear();
        self.bytes.resize(blocks_at + head_bytes, 0);
        let head = &mut self.bytes[blocks_at..];
        write_block_head(head, &table.name, rows, definitions(table));
        for (_, ty) in definitions(table) {
            let form = CellForm::of(ty).expect("the table's columns have cells");
            // No NULLs.
            self.bytes.push(0);
            let at = self.bytes.len();
            if ty == ColumnType::Symbol {
                let run = [at - blocks_at, rows].map(|value| size(value).expect("a small batch"));
                write_run(run.into(), &mut self.bytes[run_at..]);
                run_at += RUN_BYTES;
            }
            self.places.push(Place { at, form });
            self.bytes.resize(at + form.bytes(rows), 0);
        }
        self.rows = rows;
        self.runs = size((blocks_at - FRONT_BYTES) / RUN_BYTES).expect("a small batch");
        self.block_bytes = size(self.bytes.len() - blocks_at).expect("a small batch");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_wire::encode::ColumnBuffer;

    use super::super::Plan;
    use super::*;
    use crate::observe::TableCounters;

    /// Every type with cells, and a second column of symbols.
    fn types() -> impl Iterator<Item = ColumnType> + Clone {
        let all = ColumnType::ALL.into_iter();
        let fit = all.filter(|ty| ColumnBuffer::has_cells(*ty));
        fit.chain([ColumnType::Symbol])
    }

    fn table(columns: usize) -> Table {
        let mut table = Table::new("measured", Arc::<TableCounters>::default());
        for (place, ty) in types().cycle().take(columns).enumerate() {
            let name = format!("column{place}");
            table.index_of(&name, ty, |_| Ok(())).unwrap();
        }
        table
    }

    fn symbols(count: usize) -> Symbols {
        let mut symbols = Symbols::default();
        for n in 0..count {
            let id = symbols.add(&"x".repeat(n % 40)).unwrap();
            symbols.mark_used(id);
        }
        symbols
    }

    /// As the plan writes it, given the same rows in columns.
    fn planned(table: &mut Table, cells: &[Vec<u64>], symbols: &Symbols) -> Vec<u8> {
        table.clear();
        for (column, cells) in table.columns.iter_mut().zip(cells) {
            column.buffer.push_cells(cells);
            table.rows = cells.len();
        }
        let mut plan = Plan::default();
        let tables = std::slice::from_ref(table);
        let header = plan.size(tables, symbols, 77).unwrap();
        let mut out = vec![0xaa; header.entry_bytes()];
        plan.write(&header, tables, symbols, &mut out);
        table.clear();
        out
    }

    fn cells(columns: usize, rows: usize, seed: u64) -> Vec<Vec<u64>> {
        let cell = |column: usize, row: usize| {
            let n = (column * 64 + row) as u64 + seed;
            n.wrapping_mul(0x0123_4567_89ab_cdef)
        };
        let column = |column| (0..rows).map(|row| cell(column, row)).collect();
        (0..columns).map(column).collect()
    }

    #[test]
    fn entries_are_those_of_the_plan_whatever_was_laid_out_before() {
        let mut outline = Outline::default();
        for (round, columns) in [1, 14, 64, 14, 3].into_iter().enumerate() {
            let mut table = table(columns);
            outline.forget();
            for rows in [1, 1, 2, 31, 8, 1] {
                let symbols = symbols(rows + round);
                let cells = cells(columns, rows, round as u64);
                let expected = planned(&mut table, &cells, &symbols);
                let header = outline.begin(&table, rows, &symbols, 77).unwrap();
                let entry = outline.finish(&header, &symbols, |column| &cells[column]);
                assert_eq!(entry, expected, "{columns} columns, {rows} rows");
            }
        }
    }

    #[test]
    fn symbols_that_find_no_room_go_the_ordinary_way() {
        let (table, mut outline) = (table(3), Outline::default());
        let begins =
            |outline: &mut Outline, count| outline.begin(&table, 1, &symbols(count), 0).is_some();
        assert!(begins(&mut outline, 40));
        assert!(!begins(&mut outline, 200));
        assert!(begins(&mut outline, 1));
    }

    #[test]
    fn a_warm_outline_moves_no_memory() {
        let (table, mut outline) = (table(14), Outline::default());
        outline.warm(&table, 31);
        let memory = |outline: &Outline| (outline.bytes.as_ptr(), outline.places.as_ptr());
        let before = memory(&outline);
        for rows in [1, 31, 2] {
            outline.begin(&table, rows, &symbols(2), 0).unwrap();
            assert_eq!(memory(&outline), before);
        }
    }
}
