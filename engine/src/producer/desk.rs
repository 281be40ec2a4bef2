//! A producer's place at one shard: its way there, and what is buffered for it.
//!
//! A producer sits at one desk at a time, the one of the row under construction, so that a row
//! costs the same however many shards there are.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Producer;
use super::parts::Part;
use super::symbols::{Mark, Symbols};
use super::table::Table;
use crate::router::gate::Gate;
use crate::router::lane::Lane;
use crate::router::ring::Writer;

/// One producer's way into one shard.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// The shard's gate.
    pub(crate) gate: Arc<Gate>,
    /// How far the entries have come.
    pub(crate) lane: Arc<Lane>,
}

/// See the module documentation. On cache lines of its own: it is often made beside what a shard
/// writes.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Desk {
    /// Names this desk in handles of tables.
    pub(super) id: u32,
    pub(super) gate: Arc<Gate>,
    pub(super) lane: Arc<Lane>,
    pub(super) writer: Writer,
    /// Entries published so far.
    pub(super) published: u64,
    pub(super) tables: Vec<Table>,
    /// Table of the row under construction, or of the last row.
    pub(super) current: usize,
    /// Symbols used before the row under construction.
    pub(super) symbol_mark: Mark,
    pub(super) rows: usize,
    pub(super) symbols: Symbols,
    /// The parts of a batch that is too large for a frame.
    pub(super) parts: Vec<Part>,
    /// The present publish has put something into the ring.
    pub(super) is_touched: bool,
}

impl Desk {
    pub(super) fn new(way: Way, writer: Writer) -> Self {
        // 4 billion desks of one process would have to come and go before a handle is taken for
        // one of another.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            gate: way.gate,
            lane: way.lane,
            writer,
            published: 0,
            tables: Vec::new(),
            current: 0,
            symbol_mark: Mark::default(),
            rows: 0,
            symbols: Symbols::default(),
            parts: Vec::new(),
            is_touched: false,
        }
    }

    pub(super) fn way(&self) -> Way {
        Way {
            gate: Arc::clone(&self.gate),
            lane: Arc::clone(&self.lane),
        }
    }

    /// Tables that hold rows.
    pub(super) fn filled(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(|table| table.rows > 0)
    }
}

impl Producer {
    /// All desks, the present one first.
    pub(super) fn desks(&self) -> impl Iterator<Item = &Desk> + Clone {
        std::iter::once(&*self.desk).chain(self.others.iter().map(|desk| &**desk))
    }

    pub(super) fn desks_mut(&mut self) -> impl Iterator<Item = &mut Desk> {
        let others = self.others.iter_mut().map(|desk| &mut **desk);
        std::iter::once(&mut *self.desk).chain(others)
    }

    /// Goes to the desk for which `is_it` holds; `false` if there is none.
    #[cold]
    pub(super) fn sit_where(&mut self, is_it: impl Fn(&Desk) -> bool) -> bool {
        if is_it(&self.desk) {
            return true;
        }
        let Some(index) = self.others.iter().position(|desk| is_it(desk)) else {
            return false;
        };
        self.swap_with(index);
        true
    }

    /// Sits at every desk in turn, until `work` fails at one: that is the present one then.
    pub(super) fn at_every_desk<E>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        work(self)?;
        for index in 0..self.others.len() {
            self.swap_with(index);
            work(self)?;
        }
        Ok(())
    }

    /// Does something at every desk, and comes back.
    pub(super) fn at_each_desk(&mut self, mut work: impl FnMut(&mut Self)) {
        let home = self.desk.id;
        let Ok(()) = self.at_every_desk(|this| {
            work(this);
            Ok::<(), Infallible>(())
        });
        self.sit_where(|desk| desk.id == home);
    }

    /// Changes places with another desk.
    fn swap_with(&mut self, index: usize) {
        self.put_tray_away();
        let other = &mut self.others[index];
        self.elsewhere += self.desk.rows;
        self.elsewhere -= other.rows;
        std::mem::swap(&mut self.desk, other);
    }
}
