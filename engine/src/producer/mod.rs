//! What an application thread holds: rows in, batches out, receipts back.
//!
//! A producer belongs to one thread at a time. Rows gather in column buffers; a publish encodes
//! them once, straight into the shard's ring. Nothing here blocks except `publish` on a full ring
//! and `flush` on its stage, both with a time limit.

mod auto_flush;
mod chunk;
mod chunk_publish;
mod chunk_stamps;
mod handles;
mod names;
mod parts;
mod plan;
mod prepared;
mod publish;
mod receipt;
mod row;
mod setters;
mod stamps;
mod symbols;
mod table;
mod timestamp;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub use chunk::{Chunk, Nulls};
pub use prepared::{ColumnId, Symbol, TableId};
pub use receipt::Receipt;
pub use timestamp::{Timestamp, TimestampMicros, TimestampNanos};

use self::auto_flush::Triggers;
use self::chunk_publish::Scratch;
use self::parts::Pieces;
use self::plan::Plan;
use self::stamps::Stamps;
use self::symbols::{Mark, Symbols};
use self::table::Table;
use crate::config::ProducerKeys;
use crate::router::gate::Gate;
use crate::router::lane::{Lane, Stage};
use crate::router::ring::Writer;

/// What a producer must know of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct ProducerOptions {
    /// How long `publish` may wait for room.
    pub(crate) append_deadline: Duration,
    /// How long `flush` may wait for its stage.
    pub(crate) flush_limit: Duration,
    /// Cap of one message in bytes, and the key that sets it.
    pub(crate) message_bytes_max: (u64, &'static str),
    /// Cap of names in bytes.
    pub(crate) name_bytes_max: usize,
    /// Stage at which `flush` returns.
    pub(crate) flush_stage: Stage,
    /// Every publish waits for stable.
    pub(crate) publish_stable: bool,
    /// There is a journal on disk.
    pub(crate) has_files: bool,
    /// What the connect string says of rows.
    pub(crate) keys: ProducerKeys,
    /// Most symbols of the slot.
    pub(crate) symbols_max: u32,
}

/// A handle for one application thread: collects rows and publishes them as batches.
///
/// ```no_run
/// use forebay::{Engine, TimestampNanos};
/// # fn main() -> Result<(), forebay::Error> {
/// let engine = Engine::connect("ws::addr=localhost:9000;initial_connect_retry=async;")?;
/// let mut rows = engine.producer()?;
/// rows.table("trades")?.symbol("sym", "BTC-USD")?.column_f64("price", 25741.02)?;
/// rows.at(TimestampNanos(1_700_000_000_000_000_000))?;
/// rows.flush()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Producer {
    /// Names this producer in its handles.
    id: u32,
    options: ProducerOptions,
    gate: Arc<Gate>,
    lane: Arc<Lane>,
    writer: Writer,
    /// Entries published so far.
    published: u64,
    tables: Vec<Table>,
    /// Table of the row under construction, or of the last row.
    current: usize,
    row_open: bool,
    /// Symbols used before the row under construction.
    symbol_mark: Mark,
    rows: usize,
    symbols: Symbols,
    plan: Plan,
    scratch: Scratch,
    pieces: Pieces,
    triggers: Triggers,
    auto_flush: bool,
    stamps: Option<Box<Stamps>>,
    /// A producer is not shared between threads.
    not_sync: std::marker::PhantomData<std::cell::Cell<()>>,
}

impl Producer {
    pub(crate) fn new(
        options: ProducerOptions,
        gate: Arc<Gate>,
        lane: Arc<Lane>,
        writer: Writer,
    ) -> Self {
        // 4 billion producers of one process would have to come and go before a handle is taken
        // for one of another.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            triggers: Triggers::new(&options.keys.auto_flush),
            auto_flush: !Triggers::is_off(&options.keys.auto_flush),
            stamps: Stamps::new(&options.keys),
            options,
            gate,
            lane,
            writer,
            published: 0,
            tables: Vec::new(),
            current: 0,
            row_open: false,
            symbol_mark: Mark::default(),
            rows: 0,
            symbols: Symbols::default(),
            plan: Plan::default(),
            scratch: Scratch::default(),
            pieces: Pieces::default(),
            not_sync: std::marker::PhantomData,
        }
    }

    /// Rows buffered and not published.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.discard_row();
        if self.rows > 0 && self.try_publish().is_err() {
            let rows = self.rows;
            tracing::warn!(rows, "FB-P001 producer dropped with unpublished rows");
        }
        self.lane.leave();
        self.gate.knock();
    }
}
