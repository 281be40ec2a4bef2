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
            for _ in 0..round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57 {
                std::hint::spin_loop();
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

/// Sleeps of the shard, none of which may be a lost one.
fn hammer(rounds: u64, before: impl FnOnce() + Send) -> u64 {
    let pair = Pair::new();
    let (sleeps, is_lost) = std::thread::scope(|scope| {
        let shard = scope.spawn(|| {
            before();
            pair.shard(rounds)
        });
        pair.producer(rounds);
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
