//! A shard on a plain thread: for drainers, which come and go.
//!
//! The shard's turns and its ring need no executor. An executor of glommio costs an event
//! descriptor for the life of the process, and a second task queue on the foreground's executor
//! would take its turns whenever the foreground looks at its rings; a thread of its own is
//! scheduled by the kernel, with the share that its priority gives it (decision 0008).

use std::sync::Arc;
use std::time::Duration;

use super::UringIo;
use crate::io::Clock;
use crate::shard::{Next, Remains, Shard};

/// Time between two calls of the visitor, about.
const VISIT_EVERY: u64 = 100_000_000;

/// Runs `shard` on the calling thread until it ends. `visit` is called about every 100 ms, and
/// when nothing is left to do, between turns; it may block.
pub(crate) fn run_here(mut shard: Shard, mut io: UringIo, mut visit: impl FnMut()) -> Remains {
    let gate = Arc::clone(io.gate());
    gate.started();
    let mut visited = io.now();
    loop {
        match shard.turn(&mut io) {
            Next::Exit => break,
            Next::Again => io.lend_core(),
            Next::Park(until) => {
                if gate.counters.unacked_frames.get() == 0 || gate.terminal().is_some() {
                    visit();
                }
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
        if io.now() >= visited + VISIT_EVERY {
            visit();
            visited = io.now();
        }
    }
    shard.stop(&mut io);
    io.drain();
    drop(io);
    shard.into_remains()
}
