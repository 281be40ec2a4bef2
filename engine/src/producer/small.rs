//! Small batches: rows that are all on the tray go from there into the ring.
//!
//! Through the columns a row would cost its table's laying and emptying of a tray, or a look at every
//! column for every value, and then a copy of each column. What is not taken here, for whatever
//! reason, goes the ordinary way, which also knows how to refuse.

use super::Producer;
use crate::io::sys::monotonic_nanos;
use crate::router::lane::Stage;

impl Producer {
    /// Publishes what is on the tray, if that is all that this producer holds; `false` if nothing was
    /// published, or a `close` may have missed it: the rows are there still.
    #[inline]
    pub(super) fn hand_over_tray(&mut self) -> bool {
        if !self.tray.is_whole() || self.tray.rows() != self.desk.rows || self.elsewhere > 0 {
            return false;
        }
        if self.check_open().is_err() || !self.write_tray() {
            return false;
        }
        self.make_visible(1);
        let desk = &mut *self.desk;
        let table = self.tray.table().place();
        let rows = std::iter::once((table, desk.rows));
        let lane = &desk.lane;
        let acked = || lane.reached(Stage::Acked);
        lane.ledger.accepted(desk.published - 1, rows, acked);
        if self.not_overtaken().is_err() {
            return false;
        }
        self.tray.clear();
        let desk = &mut *self.desk;
        desk.tables[table].bytes_seen = 0;
        desk.rows = 0;
        self.triggers.start_batch();
        self.next_symbols();
        true
    }

    /// Writes the rows on the tray as one entry into the ring, where nobody sees it yet.
    #[inline]
    fn write_tray(&mut self) -> bool {
        let (desk, tray) = (&*self.desk, &mut self.tray);
        let table = &desk.tables[tray.table().place()];
        let Some(header) = tray.begin_entry(table, &desk.symbols, monotonic_nanos()) else {
            return false;
        };
        if self.check_size(&header).is_err() {
            return false;
        }
        let desk = &mut *self.desk;
        let entry = self.tray.finish_entry(&header, &desk.symbols);
        desk.writer.put(entry)
    }
}
