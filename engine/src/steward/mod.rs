//! The maintenance worker: what may block and must not happen on a shard.
//!
//! One thread per engine (`forebay-stw`) makes spares, removes segments, renews slots and repairs
//! them. Another (`forebay-dns`) supervises it, and hands out look-ups of what a connection attempt
//! needs to threads of their own ([`lookup`]), because a resolver may hang for half a minute and
//! spares cannot wait. Requests are data; they lie in one list ([`backlog`]) until they are answered.
//!
//! | what | where |
//! |---|---|
//! | when a dead steward is started again, and when no more | `supervision`, a pure state machine |
//! | when it has fallen behind | `strain`, another one |
//! | the list of requests | `backlog` |
//! | doing one | `perform`, `keep`, `rebuild` |
//! | the threads | `worker`, `supervisor`, `lookup` |
//! | whose files may be touched | `incarnation` |
//! | deaths on demand | `fault` |
//!
//! A steward that is given up leaves its work to the shard: an occasional stall instead of a full
//! disk.

mod backlog;
mod fault;
mod incarnation;
mod keep;
mod lookup;
mod perform;
mod rebuild;
mod strain;
mod supervision;
mod supervisor;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use self::backlog::{Backlog, QUEUE, Task};
use self::fault::Faults;
use self::lookup::Lookups;
use self::supervisor::{Notice, Supervisor};
use crate::config::Config;
use crate::error::Error;
use crate::io::{Fs, Reply, Request};
use crate::router::gate::Gate;

pub(crate) use self::incarnation::Incarnation;
pub(crate) use self::keep::Rejected;
pub(crate) use self::lookup::{Resolver, system};
pub(crate) use self::perform::perform;
pub(crate) use self::rebuild::{Lost, Rebuild, Rebuilt};
pub(crate) use self::supervision::{Limits, Next, Supervision};
pub(crate) use self::worker::text_of;

/// How long a stop waits for what the steward was asked to do.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// What a steward is kept by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StewardOptions {
    limits: Limits,
    high_water_bytes: u64,
    faults: Faults,
}

impl StewardOptions {
    /// As configured, with the faults of the environment.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            limits: Limits::of(config),
            high_water_bytes: (config.total_bytes / 4).max(2 * config.segment_bytes),
            faults: Faults::from_env(),
        }
    }
}

/// Answers to look-ups that wait.
#[derive(Debug, Default)]
pub(crate) struct Arrived(AtomicUsize);

impl Arrived {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// The shard's end: requests out, answers in.
pub(crate) struct StewardHandle {
    fs: Box<dyn Fs>,
    gate: Arc<Gate>,
    backlog: Arc<Backlog>,
    notices: SyncSender<Notice>,
    found: Receiver<Reply>,
    arrived: Arc<Arrived>,
}

impl std::fmt::Debug for StewardHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StewardHandle")
            .field("backlog", &self.backlog)
            .finish_non_exhaustive()
    }
}

impl StewardHandle {
    /// Queues a request, or gives it back when the list is full.
    pub(crate) fn request(&self, request: Request) -> Result<(), Request> {
        let Request::Resolve(asked) = request else {
            if let Some(change) = self.backlog.submit(request)? {
                let _ = self.notices.try_send(Notice::Strain(change));
            }
            return Ok(());
        };
        let sent = self.notices.try_send(Notice::Resolve(asked));
        sent.map_err(|error| match error {
            TrySendError::Full(Notice::Resolve(asked))
            | TrySendError::Disconnected(Notice::Resolve(asked)) => Request::Resolve(asked),
            _ => unreachable!("a channel gives back what it was given"),
        })
    }

    /// Begins again for another shard: what the last one asked for is not answered any more.
    pub(crate) fn forget(&mut self) {
        self.backlog.forget();
        while self.arrived.0.load(Ordering::Acquire) > 0 && self.found.try_recv().is_ok() {
            self.arrived.0.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether an answer waits, or work that the shard has to do itself.
    pub(crate) fn has_reply(&self) -> bool {
        self.backlog.is_pending() || self.arrived.0.load(Ordering::Acquire) > 0
    }

    /// The next answer. Where the steward was given up, does what is due first: all that is to be
    /// removed, else one request a call.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        if self.arrived.0.load(Ordering::Acquire) > 0
            && let Ok(found) = self.found.try_recv()
        {
            self.arrived.0.fetch_sub(1, Ordering::AcqRel);
            return Some(found);
        }
        if let Some(reply) = self.backlog.reply() {
            return Some(reply);
        }
        if !self.backlog.is_inline() {
            return None;
        }
        let task = self.backlog.take_over()?;
        self.gate.counters.steward_inline_requests.add(1);
        Some(perform_here(&*self.fs, task))
    }
}

/// Does a task that perhaps killed stewards: here a panic becomes an answer. Spares are not filled
/// and no memory is brought in: the shard waits meanwhile.
fn perform_here(fs: &dyn Fs, task: Task) -> Reply {
    let Task {
        mut request, begun, ..
    } = task;
    if let Request::Memory { .. } = request {
        return perform::failed(request, std::io::ErrorKind::Unsupported.into());
    }
    if let Request::MakeSpare { fill, .. } = &mut request {
        *fill = false;
    }
    let copy = request.clone();
    let mut go_on = || Ok(());
    let outcome = catch_unwind(AssertUnwindSafe(|| perform(fs, request, begun, &mut go_on)));
    outcome.unwrap_or_else(|panic| {
        let text = format!("panicked: {}", text_of(panic.as_ref()));
        perform::failed(copy, std::io::Error::other(text))
    })
}

/// The threads, to be stopped when the shard has ended.
pub(crate) struct StewardThreads {
    fs: Box<dyn Fs>,
    backlog: Arc<Backlog>,
    notices: SyncSender<Notice>,
    supervisor: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for StewardThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StewardThreads")
            .field("backlog", &self.backlog)
            .finish_non_exhaustive()
    }
}

impl StewardThreads {
    /// Ends the threads when all is removed that is to be removed; a steward that hangs is left
    /// behind after five seconds, and one that is dead is not started again: the caller removes
    /// what it left. Look-ups are left alone: they may hang.
    pub(crate) fn stop(mut self) {
        self.tell();
        if self.backlog.wait_for_end(STOP_LIMIT) {
            while let Some(task) = self.backlog.take_over() {
                if matches!(
                    task.request,
                    Request::Remove { .. } | Request::RemoveRing(_)
                ) {
                    // Nobody is left to hear the answer; the next opening removes what remains.
                    drop(perform_here(&*self.fs, task));
                }
            }
        } else {
            let waited_millis = STOP_LIMIT.as_millis();
            tracing::error!(
                waited_millis,
                "FB-S006 the steward does not end and is left behind"
            );
        }
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.join();
        }
    }

    fn tell(&self) {
        self.backlog.stop();
        let _ = self.notices.send(Notice::Stop);
    }
}

impl Drop for StewardThreads {
    /// For a start that fails half-way: the threads end by themselves.
    fn drop(&mut self) {
        if self.supervisor.is_some() {
            self.tell();
        }
    }
}

/// Starts the threads; answers knock at `gate`.
pub(crate) fn spawn(
    fs: &(impl Fs + Clone + 'static),
    gate: &Arc<Gate>,
    resolver: Resolver,
    options: StewardOptions,
) -> Result<(StewardHandle, StewardThreads), Error> {
    let (notices, heard) = sync_channel(4 * QUEUE);
    let (answers, found) = sync_channel(4 * QUEUE);
    let backlog = Arc::new(Backlog::new(Arc::clone(gate), options.high_water_bytes));
    let arrived = Arc::new(Arrived::default());
    let supervisor = Supervisor {
        fs: fs.clone(),
        gate: Arc::clone(gate),
        backlog: Arc::clone(&backlog),
        supervision: Supervision::new(options.limits),
        faults: options.faults,
        lookups: Lookups::new(resolver),
        found: answers,
        arrived: Arc::clone(&arrived),
        notices: notices.clone(),
        starts: 0,
        worker: 0,
    };
    let thread = std::thread::Builder::new().name(supervisor::THREAD.to_owned());
    let started = thread.spawn(move || supervisor.run(&heard));
    let supervisor = started.map_err(|source| Error::Unsupported {
        what: format!("starting thread {}", supervisor::THREAD),
        reason: source.to_string(),
        remedy: "Raise the limit on threads (ulimit -u, pids cgroup)",
    })?;
    let threads = StewardThreads {
        fs: Box::new(fs.clone()),
        backlog: Arc::clone(&backlog),
        notices: notices.clone(),
        supervisor: Some(supervisor),
    };
    let handle = StewardHandle {
        fs: Box::new(fs.clone()),
        gate: Arc::clone(gate),
        backlog,
        notices,
        found,
        arrived,
    };
    Ok((handle, threads))
}
