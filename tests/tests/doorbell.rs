//! A producer that publishes at the moment at which its shard falls asleep: real threads, with the
//! kernel's help for the order of the two (decision 0015), without it, and when it is withdrawn.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay::Engine;
use forebay::internals::door::{Door, set_halves};
use forebay_loadgen::sink::{Sink, SinkConfig};
use forebay_tests::seeds;

/// A sleep that nobody ends: the shard of a busy machine is not woken later than this.
const LIMIT: Duration = Duration::from_secs(5);

/// The halves are the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// What the two threads share.
struct Pair {
    door: Door,
    published: Line,
    taken: Line,
    over: AtomicBool,
}

impl Pair {
    fn new() -> Self {
        Self {
            door: Door::new().expect("a descriptor"),
            published: Line::default(),
            taken: Line::default(),
            over: AtomicBool::new(false),
        }
    }

    /// Takes what is published and parks at once when there is nothing: how often it slept, and
    /// whether it slept on while there was something.
    fn shard(&self, rounds: u64) -> (u64, bool) {
        let (mut taken, mut sleeps, mut is_lost) = (0, 0, false);
        while taken < rounds && !is_lost {
            let published = self.published.0.load(Ordering::Acquire);
            if published > taken {
                taken = published;
                self.taken.0.store(taken, Ordering::Release);
                continue;
            }
            // At about the time at which the producer goes on.
            pause(taken + sleeps);
            self.door.park();
            if self.published.0.load(Ordering::Acquire) == taken {
                sleeps += 1;
                is_lost = self.sleeps_on(taken);
            }
            self.door.unpark();
        }
        self.over.store(true, Ordering::Release);
        (sleeps, is_lost)
    }

    /// Sleeps until the bell; `true` if none comes though something was published.
    fn sleeps_on(&self, taken: u64) -> bool {
        let was_rung = || {
            let began = Instant::now();
            self.door.sleep(LIMIT);
            began.elapsed() < LIMIT
        };
        // The first sleep may end beside a producer that has published and not knocked yet.
        !was_rung() && self.published.0.load(Ordering::Acquire) > taken && !was_rung()
    }

    /// Publishes one after the other, each a moment after the one before was taken.
    fn producer(&self, rounds: u64) {
        for round in 1..=rounds {
            pause(round);
            if round.is_multiple_of(32) {
                // Long enough for the shard to fall asleep.
                let began = Instant::now();
                while began.elapsed() < Duration::from_micros(50) {
                    std::hint::spin_loop();
                }
            }
            self.published.0.store(round, Ordering::Release);
            self.door.knock();
            let mut looks = 0_u32;
            while self.taken.0.load(Ordering::Acquire) < round {
                if self.over.load(Ordering::Acquire) {
                    return;
                }
                looks += 1;
                if looks.is_multiple_of(200) {
                    std::thread::yield_now();
                }
            }
        }
    }
}

/// Some nanoseconds up to some hundred, other ones each time.
fn pause(round: u64) {
    for _ in 0..round.wrapping_mul(0xd134_2543_de82_ef95) >> 60 {
        std::hint::spin_loop();
    }
}

/// Keeps this thread on one of the first two cores that it may use: two threads on one core never
/// meet. Where that is refused the scheduler may do it.
fn keep_to(which: usize) {
    // SAFETY: all zeros is an empty set.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let bytes = size_of::<libc::cpu_set_t>();
    // SAFETY: fills at most `bytes` of a live set.
    unsafe { libc::sched_getaffinity(0, bytes, &raw mut allowed) };
    // SAFETY: the number is below that of the set's bits.
    let is_allowed = |core: &usize| unsafe { libc::CPU_ISSET(*core, &allowed) };
    let Some(core) = (0..1024).filter(is_allowed).nth(which) else {
        return;
    };
    // SAFETY: as above.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::CPU_SET(core, &mut one) };
    // SAFETY: reads a live set.
    unsafe { libc::sched_setaffinity(0, bytes, &raw const one) };
}

/// Sleeps of the shard, none of which may be a lost one.
fn hammer(rounds: u64, before: impl FnOnce() + Send) -> u64 {
    let pair = Pair::new();
    let (sleeps, is_lost) = std::thread::scope(|scope| {
        let shard = scope.spawn(|| {
            keep_to(1);
            before();
            pair.shard(rounds)
        });
        scope.spawn(|| {
            keep_to(0);
            pair.producer(rounds);
        });
        shard.join().expect("the shard ends")
    });
    assert!(!is_lost, "a batch was published and the shard slept on");
    sleeps
}

/// From now on the kernel refuses `membarrier` to this thread and those that it starts.
fn refuse_membarrier() {
    let statement = |code, jump_if, value| libc::sock_filter {
        code,
        jt: 0,
        jf: jump_if,
        k: value,
    };
    let call = u32::try_from(libc::SYS_membarrier).expect("a small number");
    let errno = libc::SECCOMP_RET_ERRNO | 1;
    // Load the call's number; if it is this one, EPERM; else let it pass.
    let mut code = [
        statement(0x20, 0, 0),
        statement(0x15, 1, call),
        statement(0x06, 0, errno),
        statement(0x06, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: code.as_mut_ptr(),
    };
    // SAFETY: numbers only.
    let given_up = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(given_up, 0);
    let filter = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program lives for the call, which copies it.
    let filtered = unsafe { libc::prctl(libc::PR_SET_SECCOMP, filter, &raw const program) };
    assert_eq!(filtered, 0, "{}", std::io::Error::last_os_error());
}

fn rounds() -> u64 {
    30_000 * seeds::scale()
}

#[test]
fn no_batch_is_slept_through_with_and_without_the_kernels_help() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for by_kernel in [false, true, false] {
        if !set_halves(by_kernel) {
            println!("the kernel has no membarrier: fences alone");
            continue;
        }
        let sleeps = hammer(rounds(), || ());
        println!("help {by_kernel}: {sleeps} sleeps in {} rounds", rounds());
        assert!(sleeps > 0, "the shard never slept");
    }
}

/// An application may install a filter after the engine has started.
#[test]
fn no_batch_is_slept_through_when_the_kernel_takes_its_help_back() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if set_halves(true) {
        assert!(hammer(rounds() / 10, refuse_membarrier) > 0);
    }
}

#[test]
fn an_engine_that_is_refused_membarrier_delivers() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    set_halves(false);
    let sink = Sink::start(SinkConfig::default()).expect("a server");
    let address = sink.addr().to_string();
    let engine = std::thread::spawn(move || {
        refuse_membarrier();
        let keys = "initial_connect_retry=async;spin_micros=0;";
        let engine = Engine::connect(&format!("ws::addr={address};{keys}")).expect("an engine");
        let mut rows = engine.producer().expect("a producer");
        for row in 0..100 {
            let table = rows.table("t").expect("a table");
            table.column_i64("n", row).expect("a value");
            rows.at_now().expect("a row");
            rows.publish().expect("room");
            engine.wait_acked(Duration::from_mins(1)).expect("acked");
        }
        engine.close().expect("all is acked");
    });
    engine.join().expect("it delivers");
    sink.stop();
}
