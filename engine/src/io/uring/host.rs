//! The glommio executor that hosts a shard: one pinned thread, one task that turns and parks.
//!
//! The shard parks in `ppoll` on its doorbell, which ends with the first ring or at the deadline to
//! within the kernel's timer slack (50 us). glommio's own parking is left alone: waking from it took
//! a hundred microseconds of CPU time, and glommio 0.9 may park with runnable work. So the executor
//! has one task, which waits for it only between two lives of a shard ([`Revival`]), and nothing of
//! its rings has to be looked at meanwhile.
//!
//! glommio's preemption timer must never fire. In 0.9 an executor whose thread loses its core
//! between arming that timer and running its tasks, for longer than the timer, runs none of them,
//! takes the timer's completion for nothing, and parks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

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

/// Longer than any thread waits for a core. There is one task, so nobody waits for the preemption.
const NEVER_PREEMPT: Duration = Duration::from_hours(24);

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

async fn host(
    mut shard: Shard,
    mut io: UringIo,
    mut guard: ThreadGuard,
    mut revival: Revival,
) -> Result<Remains, String> {
    let gate = Arc::clone(io.gate());
    name_thread(&format!("forebay-s{}", gate.shard));
    block_signals();
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
                    let nanos = until.saturating_sub(io.now());
                    gate.bell().wait(Duration::from_nanos(nanos));
                }
                io.disarm();
                gate.unpark();
            }
        }
    };
    guard.finished = true;
    io.drain();
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
