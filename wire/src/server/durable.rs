//! Durable acknowledgements of a session (protocol.md 10.5): per table a watermark that the
//! caller raises, and what of it the client has not been told.

use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct DurableLedger {
    watermarks: BTreeMap<Arc<str>, i64>,
    untold: BTreeMap<Arc<str>, i64>,
}

impl DurableLedger {
    /// Raises a table's watermark; a lower one changes nothing.
    pub(super) fn advance(&mut self, table: &Arc<str>, seq_txn: i64) {
        let known = self.watermarks.get(table).copied();
        if known.is_none_or(|known| seq_txn > known) {
            self.watermarks.insert(Arc::clone(table), seq_txn);
            self.untold.insert(Arc::clone(table), seq_txn);
        }
    }

    /// Forgets a table that was dropped: its watermark starts anew.
    pub(super) fn forget(&mut self, table: &str) {
        self.watermarks.remove(table);
        self.untold.remove(table);
    }

    /// What advanced since the last call; empty when nothing did.
    pub(super) fn take_untold(&mut self) -> BTreeMap<Arc<str>, i64> {
        std::mem::take(&mut self.untold)
    }
}
