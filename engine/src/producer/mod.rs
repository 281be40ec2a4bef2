//! What an application thread holds: rows in, batches out, receipts back.
//!
//! A producer belongs to one thread at a time. Rows gather in column buffers; a publish encodes
//! them once, straight into the shard's ring. Nothing here blocks except `publish` on a full ring
//! and `flush` on its stage, both with a time limit.

#[cfg(feature = "arrow")]
mod arrow;
mod auto_flush;
mod chunk;
mod desk;
mod ends;
mod ids;
mod names;
mod outline;
mod parts;
mod plan;
mod positions;
mod prepared;
mod publish;
mod receipt;
mod routing;
mod row;
mod setters;
mod small;
mod spread;
mod stamps;
mod symbols;
mod table;
mod timestamp;
mod tray;
mod tray_rows;

use std::time::Duration;

pub use chunk::{Chunk, Nulls};
pub(crate) use desk::Way;
pub use ids::{ColumnId, Symbol, TableId};
pub use positions::{PositionWatch, Positions};
pub use receipt::Receipt;
pub use timestamp::{Timestamp, TimestampMicros, TimestampNanos};

use self::auto_flush::Triggers;
use self::chunk::Scratch;
use self::desk::Desk;
use self::parts::Pieces;
use self::plan::Plan;
use self::routing::Guest;
use self::stamps::Stamps;
use self::symbols::Symbols;
use self::tray::Tray;
use crate::config::{ProducerKeys, RouteBy};
use crate::error::Error;
use crate::io::sys::Home;
use crate::observe::{Category, Policy, SenderError};
use crate::router::lane::Stage;
use crate::router::ring::Writer;

/// What a producer must know of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct ProducerOptions {
    /// How long `publish` may wait for room.
    pub(crate) append_deadline: Duration,
    /// The least that `flush` waits for its stage.
    pub(crate) flush_limit_least: Duration,
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
    /// What decides to which shard a row goes.
    pub(crate) route_by: RouteBy,
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
    /// Where the present row goes.
    desk: Box<Desk>,
    /// The desks at the other shards, in no order.
    #[expect(clippy::vec_box, reason = "to sit down elsewhere swaps two pointers")]
    others: Vec<Box<Desk>>,
    /// Rows buffered there.
    elsewhere: usize,
    /// A prepared table of another desk, in the row under construction or the last such row.
    guest: Option<Guest>,
    /// The last position that was accepted.
    position: Option<u64>,
    /// Table of the row under construction, or [`TableId::NONE`] if there is none or it is on the
    /// tray.
    open: TableId,
    /// Table of the last row that did not begin on the tray.
    last: TableId,
    /// Rows before it, without one of another table between, that did not begin there.
    run: u32,
    /// Rows of the present desk that go to their table together.
    tray: Tray,
    plan: Plan,
    scratch: Scratch,
    pieces: Pieces,
    triggers: Triggers,
    auto_flush: bool,
    stamps: Option<Box<Stamps>>,
    /// A producer is not shared between threads.
    not_sync: std::marker::PhantomData<std::cell::Cell<()>>,
    /// Memory, locks and threads behind the handles above are this process's.
    home: Home,
}

impl Producer {
    /// A producer with these ways, by number of their shards; there is one at least.
    pub(crate) fn new(options: ProducerOptions, ways: Vec<(Way, Writer)>) -> Self {
        let desks = ways.into_iter();
        let mut desks = desks.map(|(way, writer)| Box::new(Desk::new(way, writer)));
        let desk = desks.next().expect("a producer has a way");
        Self {
            id: desk.id,
            triggers: Triggers::new(&options.keys.auto_flush),
            auto_flush: !Triggers::is_off(&options.keys.auto_flush),
            stamps: Stamps::new(&options.keys),
            options,
            desk,
            others: desks.collect(),
            elsewhere: 0,
            guest: None,
            position: None,
            open: TableId::NONE,
            last: TableId::NONE,
            run: 0,
            tray: Tray::default(),
            plan: Plan::default(),
            scratch: Scratch::default(),
            pieces: Pieces::default(),
            not_sync: std::marker::PhantomData,
            home: Home::here(),
        }
    }

    /// How long `publish` waits for room now.
    pub(in crate::producer) fn append_deadline(&self) -> Duration {
        let changed = self.desk.gate.append_deadline();
        changed.unwrap_or(self.options.append_deadline)
    }

    /// How long `flush` waits for its stage now.
    fn flush_limit(&self) -> Duration {
        self.append_deadline().max(self.options.flush_limit_least)
    }

    /// Rows buffered and not published.
    pub fn rows(&self) -> usize {
        self.desk.rows + self.elsewhere
    }
}

impl Drop for Producer {
    /// Publishes what is buffered if there is room. It never waits: what is refused is gone, and
    /// counted (`rows_dropped_unflushed`), told as an event and logged (FB-P001). A row that was
    /// begun and not completed is left out. In a forked child it does nothing.
    fn drop(&mut self) {
        if !self.home.is_here() {
            return;
        }
        self.discard_row();
        if self.rows() > 0
            && let Err(error) = self.try_flush()
        {
            self.tell_dropped(&error);
        }
        for desk in self.desks() {
            desk.lane.leave();
            desk.gate.knock();
        }
    }
}

impl Producer {
    #[cold]
    fn tell_dropped(&self, error: &Error) {
        let rows = self.rows();
        let counters = &self.desk.gate.counters;
        counters.rows_dropped_unflushed.add_shared(rows as u64);
        if self.desk.gate.is_shut() {
            // Nobody is left who would tell an event.
            tracing::warn!(
                rows,
                "FB-P001 producer dropped with unpublished rows: {error}"
            );
            return;
        }
        let message = format!("{rows} rows of a dropped producer were not published: {error}");
        let told = SenderError::new(Category::Unflushed, Policy::Abandoned, message);
        self.desk.gate.tell(told);
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
