//! The notifier: one thread per engine (`forebay-ntf`) that logs events and calls the
//! application's handlers.
//!
//! Nothing that happens here can harm delivery. A handler that panics is caught and counted, and
//! its event is logged instead; one that blocks lets the inboxes drop their oldest entries, and
//! `close` leaves it behind after [`STOP_LIMIT`]. The thread also keeps what a status needs and no
//! shard should spend time on: the fill rate, and the rows per table.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::counters::Counters;
use super::event::{ConnectionEvent, DrainerEvent, Policy, Progress, SenderError};
use super::fill::Sampler;
use super::fold::Folder;
use super::inbox::Notice;
use super::log;
use crate::error::Error;
use crate::io::sys::{block_signals, futex_wait, futex_wake, monotonic_nanos, name_thread};
use crate::router::gate::Gate;
use crate::router::hall::Hall;
use crate::units::nanos;

/// How long `close` waits for handlers.
const STOP_LIMIT: Duration = Duration::from_secs(1);
/// How often samples are taken and windows looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often progress is looked at while somebody wants to know.
const PROGRESS_TICK: Duration = Duration::from_millis(50);
/// How long a terminal error may be known before it is latched.
const LATCH_LIMIT: u64 = 100_000_000;
const THREAD: &str = "forebay-ntf";

/// A function of the application.
pub(crate) type Handler<T> = Option<Box<dyn FnMut(&T) + Send>>;

/// What the application wants to be told.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) error: Handler<SenderError>,
    pub(crate) connection: Handler<ConnectionEvent>,
    pub(crate) progress: Handler<Progress>,
    pub(crate) drainer: Handler<DrainerEvent>,
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handlers")
            .field("error", &self.error.is_some())
            .field("connection", &self.connection.is_some())
            .field("progress", &self.progress.is_some())
            .field("drainer", &self.drainer.is_some())
            .finish()
    }
}

/// The running thread. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Notifier {
    hall: Arc<Hall>,
    ended: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Notifier {
    /// Starts the thread of an engine with the shards behind `gates`, by number.
    pub(crate) fn spawn(
        hall: &Arc<Hall>,
        gates: Vec<Arc<Gate>>,
        handlers: Handlers,
    ) -> Result<Self, Error> {
        let ended = Arc::new(AtomicU32::new(0));
        let mut desk = Desk::new(Arc::clone(hall), gates, handlers);
        let over = Ended(Arc::clone(&ended));
        let thread = std::thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || {
                name_thread(THREAD);
                block_signals();
                let _over = over;
                desk.run();
            })
            .map_err(|source| Error::Unsupported {
                what: format!("starting thread {THREAD}"),
                reason: source.to_string(),
                remedy: "Raise the limit on threads (ulimit -u, pids cgroup)",
            })?;
        Ok(Self {
            hall: Arc::clone(hall),
            ended,
            thread: Some(thread),
        })
    }
}

impl Drop for Notifier {
    /// Lets the thread report what is left; leaves it behind if a handler does not return.
    fn drop(&mut self) {
        self.hall.events.close();
        let Some(thread) = self.thread.take() else {
            return;
        };
        if thread.thread().id() == std::thread::current().id() {
            return; // a handler closes the engine: the thread ends when the handler returns
        }
        let deadline = monotonic_nanos() + nanos(STOP_LIMIT);
        while self.ended.load(Ordering::Acquire) == 0 {
            let now = monotonic_nanos();
            if now >= deadline {
                tracing::warn!("FB-E005 a handler does not return: closed without it");
                return;
            }
            futex_wait(&self.ended, 0, Duration::from_nanos(deadline - now));
        }
        let _ = thread.join();
    }
}

/// Announces the end of the thread, also when it panics.
struct Ended(Arc<AtomicU32>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Release);
        futex_wake(&self.0);
    }
}

/// What the thread holds.
struct Desk {
    hall: Arc<Hall>,
    /// By number of the shard.
    gates: Vec<Arc<Gate>>,
    handlers: Handlers,
    errors: Folder<Arc<SenderError>>,
    changes: Folder<ConnectionEvent>,
    /// By number of the shard.
    samplers: Vec<Sampler>,
    told: Progress,
    dropped: (u64, u64),
    /// Whether a shard's dictionary was nearly full when it was looked at last.
    nearly_full: Vec<bool>,
    next_tick: u64,
}

impl Desk {
    fn new(hall: Arc<Hall>, gates: Vec<Arc<Gate>>, handlers: Handlers) -> Self {
        Self {
            samplers: gates.iter().map(|_| Sampler::default()).collect(),
            nearly_full: vec![false; gates.len()],
            hall,
            gates,
            handlers,
            errors: Folder::default(),
            changes: Folder::default(),
            told: Progress::default(),
            dropped: (0, 0),
            next_tick: 0,
        }
    }

    fn run(&mut self) {
        let limit = if self.handlers.progress.is_some() {
            PROGRESS_TICK
        } else {
            TICK
        };
        loop {
            let closed = self.hall.events.is_closed();
            match self.hall.events.take() {
                Some(notice) => self.handle(notice, monotonic_nanos()),
                None if closed => break,
                None => self.hall.events.wait(limit),
            }
            self.tell_progress();
            self.tick(monotonic_nanos());
        }
        self.finish();
    }

    fn handle(&mut self, notice: Notice, now: u64) {
        match notice {
            Notice::Error(error) => self.handle_error(error, now),
            Notice::Connection(change) => self.handle_change(change, now),
            Notice::Drainer(step) => self.handle_drainer(&step),
        }
    }

    fn handle_error(&mut self, error: Arc<SenderError>, now: u64) {
        if error.policy == Policy::Terminal {
            // Whoever is told finds the engine refusing already.
            let deadline = monotonic_nanos() + LATCH_LIMIT;
            if let Some(gate) = self.gates.get(error.shard as usize) {
                gate.wait_for(deadline, Gate::is_over);
            }
        }
        let counters = &self.hall.counters;
        counters.errors_delivered.add(1);
        if told(&mut self.handlers.error, "error", &error, counters) {
            return;
        }
        let due = match log::error_kind(&error) {
            Some(kind) => self.errors.offer(kind, error, now),
            None => Some(error),
        };
        if let Some(error) = due {
            guarded(|| log::error(&error, 0));
        }
    }

    fn handle_change(&mut self, event: ConnectionEvent, now: u64) {
        let counters = &self.hall.counters;
        counters.connection_events_delivered.add(1);
        if told(
            &mut self.handlers.connection,
            "connection",
            &event,
            counters,
        ) {
            return;
        }
        let kind = log::connection_kind(&event);
        if let Some(event) = self.changes.offer(kind, event, now) {
            guarded(|| log::connection(&event, 0));
        }
    }

    fn handle_drainer(&mut self, step: &DrainerEvent) {
        let counters = &self.hall.counters;
        if told(&mut self.handlers.drainer, "drainer", step, counters) {
            return;
        }
        guarded(|| log::drainer(step));
    }

    fn tell_progress(&mut self) {
        let Some(handler) = &mut self.handlers.progress else {
            return;
        };
        let shards = self.gates.iter().map(|gate| gate.progress());
        let progress = shards.fold(Progress::default(), |sum, shard| Progress {
            published: sum.published + shard.published,
            acked: sum.acked + shard.acked,
        });
        if progress == self.told {
            return;
        }
        self.told = progress;
        if !guarded(|| handler(&progress)) {
            self.hall.counters.handler_panics.add(1);
            tracing::error!("FB-E006 the progress handler panicked");
        }
    }

    /// About once a second: samples, windows that end, events that were dropped.
    fn tick(&mut self, now: u64) {
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + nanos(TICK);
        for (gate, sampler) in self.gates.iter().zip(&mut self.samplers) {
            sampler.sample(&gate.fill, now, gate.counters.unacked_bytes.get());
            gate.settle_tables();
        }
        self.errors.expire(now, |error, repeats| {
            guarded(|| log::error(&error, repeats));
        });
        self.changes.expire(now, |change, repeats| {
            guarded(|| log::connection(&change, repeats));
        });
        self.tell_dropped();
        self.tell_nearly_full();
    }

    /// Warns once when the dictionary passes 80 % of its limit.
    fn tell_nearly_full(&mut self) {
        for (gate, known) in self.gates.iter().zip(&mut self.nearly_full) {
            let symbols = gate.counters.symbols.get();
            let symbols_max = gate.symbols_max();
            let nearly_full = symbols_max > 0 && symbols * 5 >= symbols_max * 4;
            if nearly_full && !*known {
                tracing::warn!(
                    shard = gate.shard,
                    symbols,
                    symbols_max,
                    "FB-E007 the symbol dictionary is nearly full (symbol_dict_max): it is begun \
                     anew once everything is acked; if that does not come, rows with new symbols \
                     are refused"
                );
            }
            *known = nearly_full;
        }
    }

    fn tell_dropped(&mut self) {
        let (errors, connections) = self.hall.events.dropped();
        if (errors, connections) != self.dropped {
            self.dropped = (errors, connections);
            tracing::warn!(
                errors,
                connections,
                "FB-E004 events were dropped before anybody was told (totals): a handler is slow, \
                 or error_inbox_capacity or connection_listener_inbox_capacity too small"
            );
        }
    }

    fn finish(&mut self) {
        self.tell_progress();
        self.errors.finish(|error, repeats| {
            guarded(|| log::error(&error, repeats));
        });
        self.changes.finish(|change, repeats| {
            guarded(|| log::connection(&change, repeats));
        });
        self.tell_dropped();
    }
}

/// Whether the application's handler took the event; else it is to be logged.
fn told<T>(handler: &mut Handler<T>, which: &str, event: &T, counters: &Counters) -> bool {
    let Some(handler) = handler else {
        return false;
    };
    let fine = guarded(|| handler(event));
    if !fine {
        counters.handler_panics.add(1);
        tracing::error!("FB-E006 the {which} handler panicked; its event follows");
    }
    fine
}

/// Calls what may panic; `false` if it did.
fn guarded(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_ok()
}

#[cfg(test)]
mod tests;
