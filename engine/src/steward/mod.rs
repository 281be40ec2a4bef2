//! The maintenance worker: what may block and must not happen on a shard.
//!
//! One thread per engine (`forebay-stw`) makes spares and removes segments; what a connection
//! attempt needs is looked up by threads of its own (`forebay-dns`, see [`lookup`]), because a
//! resolver may hang for half a minute and spares cannot wait. Requests are data; answers come
//! through a bounded channel.

mod keep;
mod lookup;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use crate::error::Error;
use crate::io::sys::{block_signals, name_thread};
use crate::io::{Fs, OpenMode, Reply, Request};
use crate::router::gate::Gate;
use crate::slot;
use lookup::Lookups;

pub(crate) use lookup::{Resolver, system};

pub(crate) use self::keep::Rejected;

/// Requests of one kind that may wait.
const QUEUE: usize = 64;

/// The shard's end: requests out, answers in. Dropping it ends the threads.
#[derive(Debug)]
pub(crate) struct StewardHandle {
    maintenance: SyncSender<Request>,
    resolver: SyncSender<Request>,
    replies: Receiver<Reply>,
    waiting: Arc<AtomicUsize>,
}

/// The threads, to be joined after the handle is gone.
#[derive(Debug)]
pub(crate) struct StewardThreads(Vec<JoinHandle<()>>);

impl StewardThreads {
    /// Waits for both threads. Look-ups are left alone: they may hang.
    pub(crate) fn join(self) {
        for thread in self.0 {
            let _ = thread.join();
        }
    }
}

impl StewardHandle {
    /// Queues a request, or gives it back when the queue is full.
    pub(crate) fn request(&self, request: Request) -> Result<(), Request> {
        let queue = match request {
            Request::Resolve(_) => &self.resolver,
            _ => &self.maintenance,
        };
        queue.try_send(request).map_err(|error| match error {
            TrySendError::Full(request) | TrySendError::Disconnected(request) => request,
        })
    }

    /// Whether an answer waits.
    pub(crate) fn has_reply(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// The next answer.
    pub(crate) fn reply(&self) -> Option<Reply> {
        if !self.has_reply() {
            return None;
        }
        let reply = self.replies.try_recv().ok()?;
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        Some(reply)
    }
}

/// Starts the threads; answers knock at `gate`.
pub(crate) fn spawn(
    fs: &(impl Fs + Clone + 'static),
    gate: &Arc<Gate>,
    resolver: Resolver,
) -> Result<(StewardHandle, StewardThreads), Error> {
    let (replies_in, replies) = sync_channel(4 * QUEUE);
    let waiting = Arc::new(AtomicUsize::new(0));
    let desk = Desk {
        replies: replies_in,
        waiting: Arc::clone(&waiting),
        gate: Arc::clone(gate),
    };
    let (own, fs) = (desk.clone(), fs.clone());
    let (maintenance, maintainer) = start("forebay-stw", move |requests| {
        let mut heard = true;
        for request in requests {
            // A ring is removed whether or not a shard is left to hear of it.
            if heard || matches!(request, Request::RemoveRing(_)) {
                heard = own.answer(perform(&fs, request));
            }
        }
    })?;
    let lookups = Lookups::new(resolver);
    let (resolver, clerk) = start("forebay-dns", move |requests| {
        for request in requests {
            if let Request::Resolve(asked) = request {
                let desk = desk.clone();
                lookups.start(asked, move |found| {
                    desk.answer(Reply::Resolved(found));
                });
            }
        }
    })?;
    Ok((
        StewardHandle {
            maintenance,
            resolver,
            replies,
            waiting,
        },
        StewardThreads(vec![maintainer, clerk]),
    ))
}

/// Where answers are handed in.
#[derive(Clone)]
struct Desk {
    replies: SyncSender<Reply>,
    waiting: Arc<AtomicUsize>,
    gate: Arc<Gate>,
}

impl Desk {
    /// Hands an answer in; `false` when nobody takes it any more.
    fn answer(&self, reply: Reply) -> bool {
        if self.replies.send(reply).is_err() {
            return false;
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.gate.knock();
        true
    }
}

/// Starts a thread that works off its queue.
fn start(
    name: &'static str,
    work: impl FnOnce(Receiver<Request>) + Send + 'static,
) -> Result<(SyncSender<Request>, JoinHandle<()>), Error> {
    let (sender, requests) = sync_channel(QUEUE);
    let thread = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            name_thread(name);
            block_signals();
            work(requests);
        });
    let thread = thread.map_err(|source| Error::Unsupported {
        what: format!("starting thread {name}"),
        reason: source.to_string(),
        remedy: "Raise the limit on threads (ulimit -u, pids cgroup)",
    })?;
    Ok((sender, thread))
}

/// Does what is asked.
pub(crate) fn perform(fs: &dyn Fs, request: Request) -> Reply {
    match request {
        Request::MakeSpare {
            dir,
            generation,
            bytes,
            next,
        } => Reply::Spare(slot::make_spare(fs, &dir, generation, bytes, next)),
        Request::Remove { dir, names } => {
            let mut first = Ok(());
            for name in names {
                let outcome = fs.unlink(&dir.join(name));
                first = first.and(outcome);
            }
            Reply::Removed(first.and(fs.sync_dir(&dir)))
        }
        Request::Open { path, key } => Reply::Opened {
            key,
            answer: fs.open(&path, OpenMode::Direct),
        },
        Request::Keep {
            dir,
            rejected,
            limit,
        } => Reply::Kept(keep::keep(fs, &dir, &rejected, limit)),
        Request::Close { file } => {
            drop(file);
            Reply::Closed
        }
        Request::RemoveRing(ring) => {
            if let Err(error) = ring.remove() {
                // It is empty: the next start finds it so and removes it.
                tracing::warn!(%error, "FB-R020 a ring of the intake could not be removed");
            }
            Reply::Closed
        }
        Request::Resolve(asked) => Reply::Resolved(lookup::perform(&asked, &system())),
    }
}
