//! Order between the store and the load of two threads, of which one comes often and the other
//! seldom (decision 0015).
//!
//! Both sides store, then pass their half of the barrier, then load what the other stores: at least
//! one of them sees the other's. Usually each half is a fence, which waits until the thread's stores
//! have left its core. Here the frequent half ([`light`]) only keeps the compiler from changing the
//! order, and the rare half ([`heavy`]) has the kernel run a fence on every core on which a thread of
//! this process runs (`membarrier`), some microseconds. Where the kernel refuses that, both halves
//! are fences.
//!
//! The registration that the kernel asks for is of the process: threads share it, a forked child
//! inherits it.

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};
use std::time::Duration;

/// Both halves are fences.
const FENCES: u8 = 0;
/// The frequent half is a fence still, or again; the rare one asks the kernel.
const CHANGING: u8 = 1;
/// Only the rare half costs anything.
const KERNEL: u8 = 2;

/// What the halves are: each step is one that the other half agrees with.
static HALVES: AtomicU8 = AtomicU8::new(FENCES);
/// Longer than a store takes to leave its core, whatever it has to wait for.
const SETTLED: Duration = Duration::from_millis(1);

/// The half of the thread that comes often.
#[inline]
pub(crate) fn light() {
    if HALVES.load(Ordering::Relaxed) == KERNEL {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The half of the thread that comes seldom.
pub(crate) fn heavy() {
    fence(Ordering::SeqCst);
    if HALVES.load(Ordering::Relaxed) != FENCES && !ask(Command::Run) {
        give_up();
    }
}

/// Has the kernel do the frequent half's work from now on; `false` if it does not, and both halves
/// stay fences. For who starts threads, before they do.
pub(crate) fn lighten() -> bool {
    if !ask(Command::Register) {
        if HALVES.load(Ordering::Relaxed) != FENCES {
            give_up();
        }
        return false;
    }
    if HALVES.load(Ordering::Relaxed) == KERNEL {
        return true;
    }
    HALVES.store(CHANGING, Ordering::SeqCst);
    if !ask(Command::Run) {
        HALVES.store(FENCES, Ordering::SeqCst);
        return false;
    }
    HALVES.store(KERNEL, Ordering::SeqCst);
    true
}

/// The kernel has taken its word back (a filter that the application installed later): both halves
/// are fences again. Who is between its two halves meanwhile has its store seen when this returns.
#[cold]
fn give_up() {
    HALVES.store(CHANGING, Ordering::SeqCst);
    std::thread::sleep(SETTLED);
    HALVES.store(FENCES, Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

#[derive(Debug, Clone, Copy)]
enum Command {
    Register,
    Run,
}

/// Whether the kernel did it.
fn ask(command: Command) -> bool {
    let command = match command {
        Command::Register => libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
        Command::Run => libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED,
    };
    // SAFETY: no pointers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    result == 0
}

/// Makes both halves fences, as where the kernel refuses, or lets it help again; for tests of either
/// way, while no other thread is between its halves.
#[cfg(any(test, feature = "internals"))]
#[cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, reason = "public through `internals`")
)]
pub fn set_halves(by_kernel: bool) -> bool {
    if by_kernel {
        return lighten();
    }
    give_up();
    true
}
