//! Clocks, chance, and what a thread of the engine sets up for itself.

use std::ffi::CString;

/// Reads a clock, in nanoseconds.
fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the call to fill.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Monotonic time in nanoseconds.
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Wall clock in microseconds since the Unix epoch.
pub(crate) fn wall_micros() -> u64 {
    clock(libc::CLOCK_REALTIME) / 1000
}

/// Wall clock in nanoseconds since the Unix epoch.
pub(crate) fn wall_nanos() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// Monotonic time in nanoseconds with the resolution of the kernel's tick (1-10 ms), at a quarter
/// of the price.
#[inline]
pub(crate) fn coarse_nanos() -> u64 {
    clock(libc::CLOCK_MONOTONIC_COARSE)
}

/// CPU time of the calling thread in nanoseconds.
pub(crate) fn cpu_nanos() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Eight bytes from the kernel's random generator.
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: fills at most 8 bytes of a live array. Requests up to 256 bytes are never cut short
    // once the generator is seeded; a failure leaves zeros, which only weakens jitter and masks.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_le_bytes(bytes)
}

/// Names the calling thread (at most 15 bytes are kept).
pub(crate) fn name_thread(name: &str) {
    let Ok(name) = CString::new(name) else { return };
    // SAFETY: PR_SET_NAME reads a NUL-terminated string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Gives the calling thread, and threads and kernel workers that it starts, the smallest share of
/// a core that others want too.
pub(crate) fn yield_to_others() {
    const NICEST: i32 = 19;
    // SAFETY: no pointers; the calling thread's own id. Lowering one's priority is always allowed.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICEST) };
}

/// Blocks every signal in the calling thread: signals are the application's.
pub(crate) fn block_signals() {
    change_mask(libc::SIG_BLOCK, &all_signals());
}

/// Does something that starts threads with every signal blocked, so that theirs are from the first
/// moment; the calling thread's mask is as before afterwards. `work` does not unwind.
pub(crate) fn with_signals_blocked<T>(work: impl FnOnce() -> T) -> T {
    let before = change_mask(libc::SIG_BLOCK, &all_signals());
    let outcome = work();
    change_mask(libc::SIG_SETMASK, &before);
    outcome
}

fn all_signals() -> libc::sigset_t {
    // SAFETY: an all-zero sigset_t is valid storage for sigfillset to overwrite.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is valid for writing.
    unsafe { libc::sigfillset(&raw mut all) };
    all
}

/// Changes the calling thread's mask; answers what it was.
fn change_mask(how: libc::c_int, mask: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: an all-zero sigset_t is valid storage for the call to overwrite.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `mask` is initialised, `before` is valid for writing.
    unsafe { libc::pthread_sigmask(how, mask, &raw mut before) };
    before
}
