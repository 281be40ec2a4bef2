//! The glommio executor that hosts a shard: one pinned thread, one task that turns and parks.
//!
//! glommio looks at its own rings only when idle or preempted, so a spinning turn ends with a zero
//! sleep every [`REACTOR_EVERY`]. One repeating timer is always armed, for the shard's own deadlines.
//!
//! glommio's preemption timer must never fire. In 0.9 an executor whose thread loses its core
//! between arming that timer and running its tasks, for longer than the timer, runs none of them,
//! takes the timer's completion for nothing, and parks with runnable work. A repeating timer does
//! not bound that when it is itself the runnable work: then nothing is armed and the executor
//! sleeps for ever (with 1 ms and two busy cores: one start in some hundred).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use glommio::io::BufferedFile;
use glommio::{ExecutorJoinHandle, LocalExecutorBuilder};

use super::UringIo;
use super::cores::Placement;
use super::revive::Revival;
use crate::config::Config;
use crate::error::Error;
use crate::io::Clock;
use crate::io::sys::{block_signals, name_thread, with_signals_blocked};
use crate::router::gate::{Gate, Terminal};
use crate::shard::{Next, Remains, Shard};
use crate::steward::{Incarnation, text_of};

const REACTOR_EVERY: u64 = 50_000;
/// Longer than any thread waits for a core. There is one task queue, so nobody waits for the
/// preemption, and the zero sleeps look at the rings.
const NEVER_PREEMPT: Duration = Duration::from_hours(24);
const HEARTBEAT: Duration = Duration::from_millis(10);

/// A running shard.
pub(crate) struct Hosted(ExecutorJoinHandle<Result<Remains, String>>);

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hosted")
    }
}

impl Hosted {
    /// Waits for the shard to end.
    pub(crate) fn join(self) -> Result<Remains, Error> {
        let ended = self.0.join().map_err(|error| error.to_string());
        let ended = ended.and_then(|remains| remains);
        ended.map_err(|cause| Error::Internal(format!("the shard's thread: {cause}")))
    }
}

/// Starts the shard's thread; `slot` is the life of its slot that begins.
pub(crate) fn spawn(
    config: &Config,
    shard: Shard,
    io: UringIo,
    slot: Option<Incarnation>,
) -> Result<Hosted, Error> {
    let places = Placement::here(config);
    let number = io.gate().shard;
    let core = places.core_of(number);
    let name = format!("forebay-s{number}");
    let placement = core.map_or(glommio::Placement::Unbound, glommio::Placement::Fixed);
    let refused = match core {
        Some(core) => format!("starting shard {number} on core {core} ({})", places.sets()),
        None => format!("starting shard {number}"),
    };
    let guard = ThreadGuard {
        gate: Arc::clone(io.gate()),
        finished: false,
    };
    let revival = Revival::new(config, io.gate(), slot);
    // glommio reads files below /sys while it builds an executor and panics if it cannot.
    // It also starts a thread of its own for calls that block, before the shard's could say how.
    let build = AssertUnwindSafe(|| {
        LocalExecutorBuilder::new(placement)
            .name(&name)
            .preempt_timer(NEVER_PREEMPT)
            .io_memory(64 << 10)
            .spawn(move || host(shard, io, guard, revival))
    });
    let spawned = with_signals_blocked(|| catch_unwind(build));
    let reason = match spawned {
        Ok(Ok(handle)) => return Ok(Hosted(handle)),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the executor cannot read what it needs of this machine".to_owned(),
    };
    Err(Error::Unsupported {
        what: refused,
        reason,
        remedy: "Choose allowed cores with cores=, or cores=off; raise the limits on descriptors \
                 (ulimit -n) and locked memory (ulimit -l)",
    })
}

/// What wakes the parked task.
#[derive(Default)]
struct Wake {
    rung: Cell<bool>,
    until: Cell<u64>,
    stopping: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Wake {
    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

async fn host(
    mut shard: Shard,
    mut io: UringIo,
    mut guard: ThreadGuard,
    mut revival: Revival,
) -> Result<Remains, String> {
    let gate = Arc::clone(io.gate());
    name_thread(&format!("forebay-s{}", gate.shard));
    block_signals();
    let wake = Rc::new(Wake::default());
    let heartbeat = glommio::spawn_local(heartbeat(Rc::clone(&wake)));
    let bell = glommio::spawn_local(listen(gate.bell().as_raw_fd(), Rc::clone(&wake)));
    // glommio registers a memory barrier at an executor's first sleep, which takes the kernel
    // 10-20 ms: before the first batch, not in front of it.
    glommio::timer::sleep(Duration::from_micros(100)).await;
    // One for all turns: a new timer would ask for memory.
    let mut breath = glommio::timer::Timer::new(Duration::ZERO);
    let mut polled = io.now();
    gate.started();
    let ended = loop {
        let next = match catch_unwind(AssertUnwindSafe(|| turn(&mut shard, &mut io))) {
            Ok(next) => next,
            Err(panic) => {
                let cause = text_of(panic.as_ref()).to_owned();
                shard = match revival.revive(shard, &mut io, cause).await {
                    Ok(shard) => shard,
                    Err(cause) => {
                        guard.give_up(&cause);
                        break Err(cause);
                    }
                };
                continue;
            }
        };
        match next {
            Next::Exit => break Ok(shard),
            Next::Again => io.lend_core(),
            Next::Park(until) => {
                gate.park();
                let armed = io.arm(gate.bell()).is_ok();
                if armed && !shard.has_input() && !io.has_input() {
                    sleep(&wake, until).await;
                    polled = io.now();
                }
                io.disarm();
                gate.unpark();
            }
        }
        if io.now() >= polled + REACTOR_EVERY {
            breath.reset(Duration::ZERO);
            (&mut breath).await;
            polled = io.now();
        }
    };
    guard.finished = true;
    io.drain();
    wake.stopping.set(true);
    gate.bell().ring();
    bell.await;
    heartbeat.await;
    drop(io);
    ended.map(Shard::into_remains)
}

/// One turn, and the end of the conversation behind the last one.
fn turn(shard: &mut Shard, io: &mut UringIo) -> Next {
    let next = shard.turn(io);
    if next == Next::Exit {
        shard.stop(io);
    }
    next
}

/// Lives as long as the shard's thread has work: if it ends before, because the executor could not
/// start or a turn panicked, every wait ends with an error instead of a hang.
struct ThreadGuard {
    gate: Arc<Gate>,
    finished: bool,
}

impl ThreadGuard {
    /// The shard panicked and is not started again.
    fn give_up(&mut self, cause: &str) {
        self.finished = true;
        let reason = format!(
            "the shard panicked and is given up: {cause}. Restart the process: what is in the \
             journal is delivered then"
        );
        self.gate.panicked(Terminal::local(reason));
    }
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let reason = if self.gate.is_started() {
            "the shard's thread panicked; restart the process: the journal is intact"
        } else {
            "the shard's thread could not start; raise the limits on descriptors (ulimit -n) and \
             locked memory (ulimit -l)"
        };
        self.gate.panicked(Terminal::local(reason.to_owned()));
    }
}

/// Waits for the bell or for the heartbeat that finds `until` passed.
async fn sleep(wake: &Wake, until: u64) {
    wake.until.set(until);
    poll_fn(|context| {
        if wake.rung.take() || crate::io::sys::monotonic_nanos() >= wake.until.get() {
            return Poll::Ready(());
        }
        *wake.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
}

async fn heartbeat(wake: Rc<Wake>) {
    while !wake.stopping.get() {
        glommio::timer::sleep(HEARTBEAT).await;
        if crate::io::sys::monotonic_nanos() >= wake.until.get() {
            wake.wake();
        }
    }
}

/// Keeps one read of the bell's descriptor outstanding.
async fn listen(bell: i32, wake: Rc<Wake>) {
    // SAFETY: duplicates a live descriptor; the duplicate is ours.
    let own = unsafe { libc::fcntl(bell, libc::F_DUPFD_CLOEXEC, 0) };
    assert!(own >= 0, "dup of the bell: {}", io::Error::last_os_error());
    // SAFETY: `own` is a fresh descriptor that nobody else owns.
    let file = unsafe { BufferedFile::from_raw_fd(own) };
    while !wake.stopping.get() {
        if file.read_at(0, 8).await.is_err() {
            glommio::timer::sleep(HEARTBEAT).await;
        }
        wake.rung.set(true);
        wake.wake();
    }
    let _ = file.close().await;
}
