//! The maintenance worker: what may block and must not happen on a shard.
//!
//! One thread per engine (`forebay-stw`) makes spares and removes segments; name resolution runs
//! on a thread of its own (`forebay-dns`), because a resolver may hang for half a minute and
//! spares cannot wait. Both take requests that are data and answer through a bounded channel.

mod keep;

use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use crate::error::Error;
use crate::io::sys::{block_signals, name_thread};
use crate::io::{Fs, OpenMode, Reply, Request};
use crate::router::gate::Gate;
use crate::slot;

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
    /// Waits for both threads. The resolver is left alone: it may hang in a look-up.
    pub(crate) fn join(mut self) {
        if let Some(maintenance) = self.0.drain(..).next() {
            let _ = maintenance.join();
        }
    }
}

impl StewardHandle {
    /// Queues a request, or gives it back when the queue is full.
    pub(crate) fn request(&self, request: Request) -> Result<(), Request> {
        let queue = match request {
            Request::Resolve { .. } => &self.resolver,
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
) -> Result<(StewardHandle, StewardThreads), Error> {
    let (replies_in, replies) = sync_channel(4 * QUEUE);
    let waiting = Arc::new(AtomicUsize::new(0));
    let mut threads = Vec::new();
    let mut start = |name: &'static str| {
        let (sender, requests) = sync_channel::<Request>(QUEUE);
        let (replies, waiting, gate) = (replies_in.clone(), Arc::clone(&waiting), Arc::clone(gate));
        let fs = fs.clone();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                name_thread(name);
                block_signals();
                for request in requests {
                    if replies.send(perform(&fs, request)).is_err() {
                        return;
                    }
                    waiting.fetch_add(1, Ordering::AcqRel);
                    gate.knock();
                }
            });
        threads.push(thread.map_err(|source| Error::Unsupported {
            what: format!("starting thread {name}"),
            reason: source.to_string(),
            remedy: "Raise the limit on threads (ulimit -u, pids cgroup)",
        })?);
        Ok::<_, Error>(sender)
    };
    let maintenance = start("forebay-stw")?;
    let resolver = start("forebay-dns")?;
    Ok((
        StewardHandle {
            maintenance,
            resolver,
            replies,
            waiting,
        },
        StewardThreads(threads),
    ))
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
        Request::Resolve { host, port } => {
            let found: io::Result<Vec<_>> = (host.as_str(), port)
                .to_socket_addrs()
                .map(Iterator::collect);
            let answer = match found {
                Ok(addresses) if addresses.is_empty() => {
                    let reason = "the name has no address";
                    Err(io::Error::new(io::ErrorKind::NotFound, reason))
                }
                other => other,
            };
            Reply::Resolved { host, port, answer }
        }
    }
}
