//! What an application thread holds: rows in, batches out, receipts back.
//!
//! A producer belongs to one thread at a time. Rows gather in column buffers; a publish encodes
//! them once, straight into the shard's ring. Nothing here blocks except `publish` on a full ring
//! and `flush` on its stage, both with a time limit.

#[cfg(feature = "arrow")]
mod arrow;
mod auto_flush;
mod chunk;
mod handles;
mod names;
mod parts;
mod plan;
mod positions;
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
pub use positions::{PositionWatch, Positions};
pub use prepared::{ColumnId, Symbol, TableId};
pub use receipt::Receipt;
pub use timestamp::{Timestamp, TimestampMicros, TimestampNanos};

use self::auto_flush::Triggers;
use self::chunk::Scratch;
use self::parts::Pieces;
use self::plan::Plan;
use self::stamps::Stamps;
use self::symbols::{Mark, Symbols};
use self::table::Table;
use crate::config::ProducerKeys;
use crate::error::Error;
use crate::observe::{Category, Event, Policy, SenderError};
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
    /// The last position that was accepted.
    position: Option<u64>,
    tables: Vec<Table>,
    /// Place of the table of the row under construction, or of the last row.
    current: usize,
    /// Table of the row under construction, or [`TableId::NONE`].
    open: TableId,
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
            position: None,
            tables: Vec::new(),
            current: 0,
            open: TableId::NONE,
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
    /// Publishes what is buffered if there is room. It never waits: what is refused is gone, and
    /// counted (`rows_dropped_unflushed`), told as an event and logged (FB-P001). A row that was
    /// begun and not completed is left out.
    fn drop(&mut self) {
        self.discard_row();
        if self.rows > 0
            && let Err(error) = self.try_flush()
        {
            self.tell_dropped(&error);
        }
        self.lane.leave();
        self.gate.knock();
    }
}

impl Producer {
    #[cold]
    fn tell_dropped(&self, error: &Error) {
        let rows = self.rows;
        let counters = &self.gate.counters;
        counters.rows_dropped_unflushed.add_shared(rows as u64);
        if self.gate.is_shut() {
            // Nobody is left who would tell an event.
            tracing::warn!(
                rows,
                "FB-P001 producer dropped with unpublished rows: {error}"
            );
            return;
        }
        let message = format!("{rows} rows of a dropped producer were not published: {error}");
        let told = SenderError::new(Category::Unflushed, Policy::Abandoned, message);
        self.gate.events.push(Event::Error(told));
    }
}

/// A producer may move to another thread; it is not shared. Handles that are shared by design
/// can be.
const _: () = {
    const fn is_send<T: Send>() {}
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send::<Producer>();
    is_send_and_sync::<Receipt>();
    is_send_and_sync::<PositionWatch>();
    is_send_and_sync::<Error>();
};

/// A `Producer` that is `Sync` would make the choice below ambiguous.
const _: () = {
    trait Ambiguous<A> {
        fn choose() {}
    }
    impl<T: ?Sized> Ambiguous<()> for T {}
    impl<T: ?Sized + Sync> Ambiguous<u8> for T {}
    let _ = <Producer as Ambiguous<_>>::choose;
};
