//! A message's way through the sink: header, dictionary, table blocks, then its commit.
//!
//! One applier per connection. It counts for itself and adds to the shared counters when the
//! session settles, which is before every OK, and after every pass.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_wire::decode::{DecodeError, Message, Mode, Table};
use forebay_wire::dict::ConnectionDict;
use forebay_wire::header::{Flags, HEADER_LEN};
use forebay_wire::response::Status;
use forebay_wire::server::{Commits, MessageHandler, Outcome, Refusal};

use super::quick::Remembered;
use super::server::Shared;
use super::store::RowWriter;
use super::totals::TableCounters;
use super::walk::walk;

/// Tables that one connection may write to (protocol.md 10.7).
const TABLES_MAX: usize = 10_000;
/// Rows of one table that may wait for a commit; more are committed early (protocol.md 10.7).
const UNCOMMITTED_ROWS_MAX: u64 = 1_000_000;

/// A table as the connection knows it, with what it has not added to the shared counters.
#[derive(Debug)]
struct LocalTable {
    shared: Arc<TableCounters>,
    rows: u64,
    blocks: u64,
    bytes: u64,
    /// Rows that wait for a commit.
    waiting: u64,
    /// Its transaction is being made right now.
    in_commit: bool,
}

/// A block that was applied and is not committed.
#[derive(Clone, Copy, Debug)]
struct Touch {
    table: usize,
    rows: u64,
    bytes: u64,
}

/// Counts that belong to no table.
#[derive(Debug, Default)]
struct Counts {
    reads: u64,
    socket_bytes: u64,
    messages: u64,
    message_bytes: u64,
    messages_refused: u64,
    symbols: u64,
    rows: u64,
}

/// Applies the messages of one connection.
#[derive(Debug)]
pub(super) struct Applier<'s> {
    shared: &'s Shared,
    mode: Mode,
    decodes: bool,
    remembered: Remembered,
    drop_after: u64,
    dict: ConnectionDict,
    tables: Vec<LocalTable>,
    by_name: HashMap<Arc<str>, usize>,
    last_table: usize,
    group: Vec<Touch>,
    committed: Vec<usize>,
    counts: Counts,
    rows: Option<RowWriter<'s>>,
}

impl<'s> Applier<'s> {
    pub(super) fn new(shared: &'s Shared) -> Self {
        let config = &shared.config;
        Self {
            shared,
            mode: if config.strict {
                Mode::Strict
            } else {
                Mode::Genuine
            },
            decodes: config.decodes(),
            remembered: Remembered::default(),
            drop_after: config.drop_after.unwrap_or(u64::MAX),
            dict: ConnectionDict::new(),
            tables: Vec::new(),
            by_name: HashMap::new(),
            last_table: 0,
            group: Vec::new(),
            committed: Vec::new(),
            counts: Counts::default(),
            rows: shared.store.as_ref().map(RowWriter::new),
        }
    }

    /// Counts a read from the socket and publishes what its pass counted. To be called before the
    /// answers are written, so that refusals are in the totals when the client hears of them.
    pub(super) fn end_pass(&mut self, bytes: usize) {
        self.counts.reads += 1;
        self.counts.socket_bytes += bytes as u64;
        self.publish();
    }

    /// Counts a message that somebody else refused.
    pub(super) fn count_refused(&mut self) {
        self.counts.messages_refused += 1;
    }

    /// Applies a message without committing it; true if it leaves that to a later one.
    fn apply(&mut self, bytes: &[u8]) -> Result<bool, Refusal> {
        if bytes.is_empty() {
            return Ok(false);
        }
        if let Some(quick) = self.remembered.look(bytes, self.dict.len() as u64) {
            let (table, rows, bytes) = (quick.table, quick.rows, quick.block_bytes);
            self.group.push(Touch { table, rows, bytes });
            return Ok(quick.deferred);
        }
        let message = Message::parse(bytes, self.mode).map_err(|e| refusal(&e))?;
        if let Some(delta) = message.delta() {
            self.dict
                .apply(&delta)
                .map_err(|e| Refusal::new(e.status(), e.to_string()))?;
            self.counts.symbols += delta.count();
        }
        let checks_ids = self.decodes || self.mode == Mode::Strict;
        let blocks = if checks_ids {
            message.tables_within(self.dict.len() as u64)
        } else {
            message.tables()
        };
        let mut previous: Option<(usize, Table<'_>)> = None;
        for block in blocks {
            let block = block.map_err(|e| refusal(&e))?;
            if let Some((touch, before)) = previous {
                self.measure(touch, block.offset() - before.offset());
            }
            let table = self.table(block.name())?;
            if self.shared.config.typed {
                self.shared.live.schema.check(&block)?;
            }
            if self.decodes {
                walk(&block, &self.dict).map_err(|e| refusal(&e))?;
            }
            if let Some(watch) = &self.shared.config.watch {
                watch.look(&block);
            }
            if let Some(rows) = &mut self.rows {
                let name = &self.tables[table].shared.name;
                rows.append(name, &block, &self.dict)
                    .map_err(|e| refusal(&e))?;
            }
            previous = Some((self.group.len(), block));
            self.group.push(Touch {
                table,
                rows: block.row_count() as u64,
                bytes: 0,
            });
        }
        if let Some((touch, last)) = previous {
            let end = HEADER_LEN + message.header().payload_len as usize;
            self.measure(touch, end.saturating_sub(last.offset()));
            if !checks_ids && message.header().table_count == 1 {
                self.remembered.remember(self.last_table, &last);
            }
        }
        Ok(message.header().flags.contains(Flags::DEFER_COMMIT))
    }

    fn measure(&mut self, touch: usize, bytes: usize) {
        if let Some(touch) = self.group.get_mut(touch) {
            touch.bytes = bytes as u64;
        }
    }

    /// Place of a table in `tables`; most messages name the one of the message before.
    fn table(&mut self, name: &str) -> Result<usize, Refusal> {
        let last = self.tables.get(self.last_table);
        if last.is_some_and(|table| *table.shared.name == *name) {
            return Ok(self.last_table);
        }
        if let Some(&known) = self.by_name.get(name) {
            self.last_table = known;
            return Ok(known);
        }
        if self.tables.len() >= TABLES_MAX {
            return Err(Refusal::new(
                Status::WriteError,
                "too many tables per connection",
            ));
        }
        let shared = self.shared.counters.table(name);
        self.last_table = self.tables.len();
        self.by_name
            .insert(Arc::clone(&shared.name), self.last_table);
        self.tables.push(LocalTable {
            shared,
            rows: 0,
            blocks: 0,
            bytes: 0,
            waiting: 0,
            in_commit: false,
        });
        Ok(self.last_table)
    }

    /// The message's blocks, from `before` in the group on, wait for a later one to commit them.
    /// True if a table has too many rows that wait: then all are to be committed now.
    fn keep(&mut self, before: usize) -> bool {
        let mut too_many = false;
        for touch in &self.group[before..] {
            let table = &mut self.tables[touch.table];
            table.waiting += touch.rows;
            too_many |= table.waiting > UNCOMMITTED_ROWS_MAX;
        }
        if let Some(rows) = &mut self.rows {
            rows.keep();
        }
        too_many
    }

    /// Commits every block that waits: one transaction for each table that got rows.
    fn commit(&mut self, commits: &mut Commits) {
        for touch in self.group.drain(..) {
            let table = &mut self.tables[touch.table];
            table.blocks += 1;
            table.bytes += touch.bytes;
            table.rows += touch.rows;
            table.waiting = 0;
            self.counts.rows += touch.rows;
            if touch.rows > 0 && !table.in_commit {
                table.in_commit = true;
                self.committed.push(touch.table);
            }
        }
        for table in self.committed.drain(..) {
            let table = &mut self.tables[table];
            table.in_commit = false;
            commits.push(Arc::clone(&table.shared.name), table.shared.next_txn());
        }
        if let Some(rows) = &mut self.rows {
            rows.commit();
        }
    }

    /// Adds what was counted to the shared counters.
    fn publish(&mut self) {
        let shared = &self.shared.counters;
        let counts = std::mem::take(&mut self.counts);
        add(&shared.reads, counts.reads);
        add(&shared.socket_bytes, counts.socket_bytes);
        add(&shared.messages, counts.messages);
        add(&shared.message_bytes, counts.message_bytes);
        add(&shared.messages_refused, counts.messages_refused);
        add(&shared.symbols, counts.symbols);
        add(&shared.rows, counts.rows);
        for table in &mut self.tables {
            if table.blocks > 0 {
                add(&table.shared.rows, std::mem::take(&mut table.rows));
                add(&table.shared.blocks, std::mem::take(&mut table.blocks));
                add(&table.shared.bytes, std::mem::take(&mut table.bytes));
            }
        }
    }
}

impl MessageHandler for Applier<'_> {
    fn message(
        &mut self,
        message: &[u8],
        seq: u64,
        commits: &mut Commits,
    ) -> Result<Outcome, Refusal> {
        if seq >= self.drop_after {
            return Ok(Outcome::Drop);
        }
        let before = self.group.len();
        match self.apply(message) {
            Ok(deferred) => {
                self.counts.messages += 1;
                self.counts.message_bytes += message.len() as u64;
                if deferred && !self.keep(before) {
                    return Ok(Outcome::Deferred);
                }
                self.commit(commits);
                Ok(Outcome::Committed)
            }
            Err(refusal) => {
                self.counts.messages_refused += 1;
                self.group.truncate(before);
                if let Some(rows) = &mut self.rows {
                    rows.roll_back();
                }
                Err(refusal)
            }
        }
    }

    fn settle(&mut self) -> Result<(), Refusal> {
        if let Some(rows) = &mut self.rows
            && let Err(e) = rows.write_out()
        {
            // Nothing of it was stored, so nothing of it counts.
            self.counts.rows = 0;
            for table in &mut self.tables {
                (table.rows, table.blocks, table.bytes) = (0, 0, 0);
            }
            return Err(Refusal::new(
                Status::WriteError,
                format!("cannot store rows: {e}"),
            ));
        }
        self.publish();
        Ok(())
    }
}

impl Drop for Applier<'_> {
    fn drop(&mut self) {
        self.publish();
    }
}

fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Relaxed);
    }
}

fn refusal(error: &DecodeError) -> Refusal {
    Refusal::new(error.status(), error.to_string())
}
