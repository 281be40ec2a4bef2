//! What a sink counted. Connections count for themselves and add to the shared counters before
//! each OK, so that what a client has heard an OK for is in the totals.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

/// Counters of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableTotals {
    /// Rows committed. A replayed row counts again: the sink does not look for duplicates.
    pub rows: u64,
    /// Table blocks committed.
    pub blocks: u64,
    /// Bytes of those blocks on the wire.
    pub bytes: u64,
    /// Transactions: messages that committed the table.
    pub transactions: u64,
}

/// Counters of a sink since its start.
///
/// As JSON ([`Totals::to_json`]) the keys are the names of the fields; `tables` is an object of
/// objects, one per table, with the fields of [`TableTotals`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// TCP connections accepted.
    pub connections: u64,
    /// Connections that were upgraded to QWP.
    pub upgrades: u64,
    /// Upgrades answered by anything but 101.
    pub upgrades_rejected: u64,
    /// Connections that the sink itself cut: by `drop_after` or for an illegal frame.
    pub drops: u64,
    /// CLOSE frames received or sent.
    pub closes: u64,
    /// Reads from sockets.
    pub reads: u64,
    /// Bytes read from sockets after the upgrade.
    pub socket_bytes: u64,
    /// Messages applied, those without rows included.
    pub messages: u64,
    /// Bytes of those messages, without their frame headers.
    pub message_bytes: u64,
    /// Messages refused.
    pub messages_refused: u64,
    /// Symbols that dictionaries were sent, repetitions included.
    pub symbols: u64,
    /// Rows committed, over all tables.
    pub rows: u64,
    /// By table name, as sent.
    pub tables: BTreeMap<String, TableTotals>,
}

impl Totals {
    /// The counters as one JSON object.
    pub fn to_json(&self) -> Value {
        let tables: serde_json::Map<String, Value> = self
            .tables
            .iter()
            .map(|(name, table)| {
                let value = json!({
                    "rows": table.rows,
                    "blocks": table.blocks,
                    "bytes": table.bytes,
                    "transactions": table.transactions,
                });
                (name.clone(), value)
            })
            .collect();
        json!({
            "connections": self.connections,
            "upgrades": self.upgrades,
            "upgrades_rejected": self.upgrades_rejected,
            "drops": self.drops,
            "closes": self.closes,
            "reads": self.reads,
            "socket_bytes": self.socket_bytes,
            "messages": self.messages,
            "message_bytes": self.message_bytes,
            "messages_refused": self.messages_refused,
            "symbols": self.symbols,
            "rows": self.rows,
            "tables": tables,
        })
    }
}

/// The shared form of [`TableTotals`], and the table's transaction counter.
#[derive(Debug)]
pub(super) struct TableCounters {
    pub(super) name: Arc<str>,
    pub(super) rows: AtomicU64,
    pub(super) blocks: AtomicU64,
    pub(super) bytes: AtomicU64,
    seq_txn: AtomicI64,
    /// Transactions before the table was made anew.
    seq_txn_before: AtomicI64,
}

impl TableCounters {
    /// The number of the table's next transaction, from 1.
    pub(super) fn next_txn(&self) -> i64 {
        self.seq_txn.fetch_add(1, Relaxed) + 1 - self.seq_txn_before.load(Relaxed)
    }

    /// The table was dropped and made anew: its next transaction is number 1.
    pub(super) fn restart(&self) {
        self.seq_txn_before
            .store(self.seq_txn.load(Relaxed), Relaxed);
    }

    fn read(&self) -> TableTotals {
        TableTotals {
            rows: self.rows.load(Relaxed),
            blocks: self.blocks.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            transactions: u64::try_from(self.seq_txn.load(Relaxed)).unwrap_or(0),
        }
    }
}

/// The shared form of [`Totals`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) upgrades: AtomicU64,
    pub(super) upgrades_rejected: AtomicU64,
    pub(super) drops: AtomicU64,
    pub(super) closes: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(super) socket_bytes: AtomicU64,
    pub(super) messages: AtomicU64,
    pub(super) message_bytes: AtomicU64,
    pub(super) messages_refused: AtomicU64,
    pub(super) symbols: AtomicU64,
    pub(super) rows: AtomicU64,
    tables: Mutex<BTreeMap<Arc<str>, Arc<TableCounters>>>,
}

impl Counters {
    /// The counters of a table, made at its first row. Connections keep what they get.
    pub(super) fn table(&self, name: &str) -> Arc<TableCounters> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = tables.get(name) {
            return Arc::clone(table);
        }
        let name: Arc<str> = Arc::from(name);
        let table = Arc::new(TableCounters {
            name: Arc::clone(&name),
            rows: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            seq_txn: AtomicI64::new(0),
            seq_txn_before: AtomicI64::new(0),
        });
        tables.insert(name, Arc::clone(&table));
        table
    }

    pub(super) fn read(&self) -> Totals {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        Totals {
            connections: self.connections.load(Relaxed),
            upgrades: self.upgrades.load(Relaxed),
            upgrades_rejected: self.upgrades_rejected.load(Relaxed),
            drops: self.drops.load(Relaxed),
            closes: self.closes.load(Relaxed),
            reads: self.reads.load(Relaxed),
            socket_bytes: self.socket_bytes.load(Relaxed),
            messages: self.messages.load(Relaxed),
            message_bytes: self.message_bytes.load(Relaxed),
            messages_refused: self.messages_refused.load(Relaxed),
            symbols: self.symbols.load(Relaxed),
            rows: self.rows.load(Relaxed),
            tables: tables
                .iter()
                .map(|(name, table)| (name.to_string(), table.read()))
                .collect(),
        }
    }
}
