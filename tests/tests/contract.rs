//! The non-blocking contract: once warm, `try_flush` makes no system call and no allocation on
//! the producer's thread while the shard is awake, whatever state the engine is in.
//!
//! The producer's thread talks to the test by atomics alone. Allocations are counted by the
//! allocator, per thread; system calls by strace, attached to that one thread (the ignored tests);
//! sleeps and page faults by what the kernel says of the thread.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic here is a failed test"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::{
    Chunk, ColumnId, ColumnType, Engine, Error, Nulls, Pressure, Producer, Symbol, TableId,
    TimestampNanos,
};
use forebay_loadgen::sink::{Sink, SinkConfig};
use forebay_tests::seeds::scale;

mod producing;
use producing::{connect, free_address, scratch, until};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends has no counter any more.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How far the producer's thread is.
const READY: u64 = 1;
const GO: u64 = 2;
const DONE: u64 = 3;
const FREE: u64 = 4;

/// What the producer's thread did between `GO` and `DONE`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Did {
    accepted: u64,
    refused: u64,
    allocations: u64,
    sleeps: u64,
    faults: u64,
    /// `None` where nobody traced.
    system_calls: Option<u64>,
}

/// Runs `work` on a thread of its own, watched.
fn watched(
    engine: &Engine,
    trace: bool,
    mut feed: Feed,
    work: impl FnOnce(&mut Feed) -> (u64, u64) + Send,
) -> Did {
    let (stage, thread) = (AtomicU64::new(0), AtomicU64::new(0));
    let spin = |until: u64| {
        while stage.load(Ordering::Acquire) < until {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let link = std::fs::read_link("/proc/thread-self").unwrap();
            let id = link.file_name().unwrap().to_str().unwrap();
            thread.store(id.parse().unwrap(), Ordering::Release);
            stage.store(READY, Ordering::Release);
            spin(GO);
            let before = ALLOCATIONS.get();
            let (accepted, refused) = work(&mut feed);
            let allocations = ALLOCATIONS.get() - before;
            stage.store(DONE, Ordering::Release);
            spin(FREE);
            (accepted, refused, allocations)
        });
        until("up", || stage.load(Ordering::Acquire) == READY);
        let thread = thread.load(Ordering::Acquire);
        let strace = trace.then(|| Strace::attach(thread));
        let before = kernel_view(thread);
        stage.store(GO, Ordering::Release);
        while stage.load(Ordering::Acquire) < DONE {
            assert!(!worker.is_finished(), "the producer's thread panicked");
            // Others look at the producer's accounts meanwhile.
            assert!(engine.tables().len() <= 1);
            std::thread::sleep(Duration::from_millis(1));
        }
        let after = kernel_view(thread);
        let system_calls = strace.map(Strace::detach);
        stage.store(FREE, Ordering::Release);
        let (accepted, refused, allocations) = worker.join().unwrap();
        Did {
            accepted,
            refused,
            allocations,
            sleeps: after.0 - before.0,
            faults: after.1 - before.1,
            system_calls,
        }
    })
}

/// Voluntary context switches and minor page faults of a thread.
fn kernel_view(thread: u64) -> (u64, u64) {
    let read = |file| std::fs::read_to_string(format!("/proc/self/task/{thread}/{file}")).unwrap();
    let status = read("status");
    let sleeps = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let stat = read("stat");
    // Behind the name in parentheses: state, five ids, flags, minor faults.
    let faults = stat.rsplit(')').next().unwrap().split_whitespace().nth(7);
    (
        sleeps.unwrap().trim().parse().unwrap(),
        faults.unwrap().parse().unwrap(),
    )
}

/// strace, counting the system calls of one thread.
struct Strace {
    child: Child,
    dir: tempfile::TempDir,
}

impl Strace {
    fn attach(thread: u64) -> Self {
        let dir = scratch();
        let child = Command::new("strace")
            .args(["-c", "-q", "-o"])
            .arg(dir.path().join("counts"))
            .args(["-p", &thread.to_string()])
            .spawn()
            .expect("strace is installed");
        until("attached", || {
            let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status"));
            let status = status.unwrap();
            let tracer = status
                .lines()
                .find_map(|line| line.strip_prefix("TracerPid:"));
            tracer.unwrap().trim() != "0"
        });
        Self { child, dir }
    }

    /// Calls counted until now.
    fn detach(mut self) -> u64 {
        let id = self.child.id().to_string();
        let told = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(told.success());
        self.child.wait().unwrap();
        let counts = std::fs::read_to_string(self.dir.path().join("counts")).unwrap();
        println!("{counts}");
        // % time, seconds, usecs/call, calls, [errors,] name
        let rows = counts.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let calls = words.get(3)?.parse::<u64>().ok()?;
            (*words.last()? != "total").then_some(calls)
        });
        rows.sum()
    }
}

const SPINNING: &str = "idle=spin;intake_ring_bytes=64k;";

/// A counting server; `more` engine keys. The shard never parks.
fn spinning(sink: SinkConfig, more: &str) -> (Sink, Engine) {
    let sink = Sink::start(sink).unwrap();
    let engine = connect(sink.addr(), &format!("{SPINNING}{more}"));
    until("connected", || engine.stats().connected == 1);
    (sink, engine)
}

/// A producer whose rows are prepared.
struct Feed {
    producer: Producer,
    table: TableId,
    columns: [ColumnId; 3],
    symbols: [Symbol; 3],
    /// What every refusal must say.
    pressure: Option<fn(Pressure) -> bool>,
}

impl Feed {
    fn warm(engine: &Engine) -> Self {
        let mut producer = engine.producer().unwrap();
        let table = producer.prepare("quotes").unwrap();
        let mut column = |name, ty| producer.prepare_column(table, name, ty).unwrap();
        let columns = [
            column("sym", ColumnType::Symbol),
            column("bid", ColumnType::Double),
            column("size", ColumnType::Long),
        ];
        let symbols = ["EURUSD", "GBPUSD", "USDJPY"].map(|text| producer.intern(text).unwrap());
        let mut feed = Self {
            producer,
            table,
            columns,
            symbols,
            pressure: None,
        };
        // Makes the designated timestamp's column.
        feed.row(0);
        feed.producer.clear();
        feed.producer.warm(&["quotes"], 4).unwrap();
        feed
    }

    fn row(&mut self, n: u64) {
        let row = self.producer.row(self.table).unwrap();
        let symbol = self.symbols[usize::try_from(n % 3).unwrap()];
        row.put_symbol(self.columns[0], symbol).unwrap();
        row.put_f64(self.columns[1], 1.25).unwrap();
        row.put_i64(self.columns[2], 100).unwrap();
        row.at(TimestampNanos(n.cast_signed() + 1)).unwrap();
    }

    /// Flushes one row at a time, every one with a position, until `accepted` were and `refused`
    /// were not; a refused row is tried again.
    fn flush(&mut self, accepted: u64, refused: u64) -> (u64, u64) {
        let mut done = (0, 0);
        while done.0 < accepted || done.1 < refused {
            if self.producer.rows() == 0 {
                self.row(done.0);
            }
            match self.producer.try_flush_at(done.0) {
                Ok(()) => done.0 += 1,
                Err(Error::Backpressure { pressure, .. }) => {
                    assert!(
                        self.pressure.is_none_or(|right| right(pressure)),
                        "{pressure:?}"
                    );
                    done.1 += 1;
                }
                Err(error) => panic!("{error}"),
            }
            assert!(self.producer.headroom() <= 64 << 10);
            assert!(self.producer.progress().accepted <= Some(done.0));
        }
        done
    }
}

/// What no thread that must not stall may do.
fn check(what: &str, traced: bool, did: Did) -> Did {
    // Under strace being stopped counts as a sleep; without a system call there is one in a fault
    // only, which may wait for the lock of the process's mappings.
    assert!(traced || did.sleeps <= did.faults, "{what}: {did:?}");
    assert!(did.faults < 100, "{what}: {did:?}");
    check_on_disk(what, did)
}

/// What is left of it where the ring is a file on a disk: the kernel writes the file's pages back
/// when it likes, and the first store to a page after that is a fault, in which it may wait.
fn check_on_disk(what: &str, did: Did) -> Did {
    println!("{what}: {did:?}");
    assert_eq!(did.allocations, 0, "{what}: {did:?}");
    let calls = did.system_calls;
    assert!(calls.is_none_or(|calls| calls == 0), "{what}: {did:?}");
    let calls = did.accepted + did.refused;
    assert!(did.faults < 100 + calls / 1_000, "{what}: {did:?}");
    did
}

/// Where the rings are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intake {
    /// In the slot: on the disk.
    Slot,
    Tmpfs,
}

/// A journal, with its ring in the slot or on a tmpfs.
struct Journal {
    slots: tempfile::TempDir,
    intake: Option<tempfile::TempDir>,
}

impl Journal {
    fn new(intake: Intake) -> Self {
        let tmpfs = || tempfile::tempdir_in("/dev/shm").unwrap();
        Self {
            slots: scratch(),
            intake: (intake == Intake::Tmpfs).then(tmpfs),
        }
    }

    fn keys(&self) -> String {
        let slots = format!("sf_dir={};", self.slots.path().display());
        let intake = self.intake.as_ref();
        let intake = intake.map(|dir| format!("intake_dir={};", dir.path().display()));
        slots + &intake.unwrap_or_default()
    }
}

/// `n` flushes with the ring and the journal as they come, with more `keys`.
fn as_they_come(n: u64, trace: bool, intake: Intake, keys: &str) {
    let journal = Journal::new(intake);
    let (sink, engine) = spinning(SinkConfig::default(), &(journal.keys() + keys));
    let did = watched(&engine, trace, Feed::warm(&engine), |feed| feed.flush(n, 0));
    let what = format!("flushes, ring on {intake:?}, {keys}");
    let did = match intake {
        Intake::Slot => check_on_disk(&what, did),
        Intake::Tmpfs => check(&what, trace, did),
    };
    assert_eq!(did.accepted, n);
    engine.close().expect("drained");
    drop(sink);
}

/// `n` refusals at the full cap of an engine whose server does not listen, or does not answer.
fn at_the_cap(n: u64, trace: bool, connected: bool) {
    let small = "sf_max_segment_bytes=64k;sf_max_total_bytes=128k;close_flush_timeout_millis=0;";
    let (sink, engine) = if connected {
        let mute = SinkConfig {
            script: Some("message 0.. -> hold 3600s".parse().unwrap()),
            ..SinkConfig::default()
        };
        let (sink, engine) = spinning(mute, small);
        (Some(sink), engine)
    } else {
        let keys = format!("{SPINNING}{small}");
        (None, connect(free_address(), &keys))
    };
    let feed = Feed {
        pressure: Some(if connected {
            |pressure| pressure == Pressure::Publishing
        } else {
            |pressure| matches!(pressure, Pressure::Reconnecting { .. })
        }),
        ..Feed::warm(&engine)
    };
    if !connected {
        // Until then no outage has begun.
        until("an attempt failed", || {
            engine.status().shards[0].attempts > 0
        });
    }
    let did = watched(&engine, trace, feed, |feed| feed.flush(0, n));
    let what = format!("refusals at the cap, connected: {connected}");
    assert_eq!(check(&what, trace, did).refused, n);
    assert!(engine.status().shards[0].is_full);
    assert!(engine.close().is_err(), "no server has confirmed anything");
    drop(sink);
}

/// `n` flushes while the connection breaks some twenty times.
fn over_reconnects(n: u64, trace: bool) {
    let journal = Journal::new(Intake::Tmpfs);
    let broken = SinkConfig {
        drop_after: Some(n / 20),
        ..SinkConfig::default()
    };
    let (sink, engine) = spinning(broken, &journal.keys());
    let did = watched(&engine, trace, Feed::warm(&engine), |feed| feed.flush(n, 0));
    assert_eq!(check("flushes over reconnects", trace, did).accepted, n);
    engine
        .wait_acked(10 * producing::PATIENCE)
        .expect("delivered");
    let stats = engine.stats();
    assert!(stats.reconnects_succeeded >= 10, "{stats:?}");
    engine.close().expect("drained");
    drop(sink);
}

/// `n` chunks of three rows each; one is built, and published again and again.
fn chunks(n: u64, trace: bool) {
    let (sink, engine) = spinning(SinkConfig::default(), "");
    let mut feed = Feed::warm(&engine);
    let handles = feed.symbols;
    let mut chunk = Chunk::new("quotes");
    let built = chunk
        .symbols("sym", &handles, Nulls::NONE)
        .and_then(|chunk| chunk.symbol_codes("side", &[0, 1, 0], &["B", "S"], Nulls::NONE))
        .and_then(|chunk| chunk.f64("bid", &[1.25, 1.5, 1.75], Nulls::NONE))
        .and_then(|chunk| chunk.i64("size", &[1, 2, 3], Nulls::NONE))
        .and_then(|chunk| chunk.at_nanos(&[1, 2, 3]));
    built.unwrap();
    // Takes up the symbols of `side`.
    feed.producer.try_publish_chunk(&chunk).unwrap();
    let did = watched(&engine, trace, feed, |feed| {
        let mut done = (0, 0);
        while done.0 < n {
            match feed.producer.try_publish_chunk(&chunk) {
                Ok(_) => done.0 += 1,
                Err(Error::Backpressure { .. }) => done.1 += 1,
                Err(error) => panic!("{error}"),
            }
        }
        done
    });
    assert_eq!(check("chunks", trace, did).accepted, n);
    engine.close().expect("drained");
    drop(sink);
}

fn contract(n: u64, trace: bool) {
    as_they_come(n, trace, Intake::Slot, "");
    as_they_come(n, trace, Intake::Tmpfs, "");
    as_they_come(
        n,
        trace,
        Intake::Tmpfs,
        "row_seq=seq;receive_time=received;",
    );
    at_the_cap(n, trace, false);
    at_the_cap(n, trace, true);
    over_reconnects(n, trace);
    chunks(n, trace);
}

#[test]
fn a_warm_producer_neither_allocates_nor_sleeps() {
    contract(50_000 * scale(), false);
}

/// By hand with `FOREBAY_SCALE=5`: ten million of each.
#[test]
#[ignore = "needs strace, and a minute"]
fn a_warm_producer_makes_no_system_call_in_millions_of_calls_of_each_kind() {
    contract(2_000_000 * scale(), true);
}

/// The instruments see what there is to see.
#[test]
#[ignore = "needs strace"]
fn a_system_call_an_allocation_and_a_sleep_are_counted() {
    let (sink, engine) = spinning(SinkConfig::default(), "");
    let did = watched(&engine, true, Feed::warm(&engine), |_| {
        drop(std::hint::black_box(Box::new(7)));
        std::thread::sleep(Duration::from_millis(1));
        (0, 0)
    });
    assert_eq!(did.allocations, 2, "one made, one freed: {did:?}");
    assert!(did.sleeps >= 1, "{did:?}");
    assert_eq!(did.system_calls, Some(1), "{did:?}");
    engine.close().expect("drained");
    drop(sink);
}
