use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use crate::config::Config;
use crate::io::sys::RealFs;
use crate::io::{BLOCK, Fs, OpenMode, Region};
use crate::steward::{self, StewardOptions, StewardThreads};

const PATIENCE: Duration = Duration::from_secs(30);

/// A world of its own, with a steward that nobody asks for anything.
fn world() -> (UringIo, StewardThreads) {
    let gate = Arc::new(Gate::new(EventFd::new().unwrap()));
    let config = Config::parse("ws::addr=127.0.0.1:1;").unwrap();
    let keeping = StewardOptions::of(&config);
    let spawned = steward::spawn(&RealFs, &gate, steward::system(), keeping);
    let (handle, threads) = spawned.unwrap();
    let io = UringIo::new(gate, handle, None, None).unwrap();
    (io, threads)
}

fn disk() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

fn file_in(dir: &Path) -> File {
    let path = dir.join("f");
    RealFs.open(&path, OpenMode::CreateNew).unwrap();
    RealFs.open(&path, OpenMode::Direct).unwrap()
}

/// Takes completions until there are `count`.
fn collect(io: &mut UringIo, count: usize) -> Vec<u64> {
    let started = Instant::now();
    let mut tokens = Vec::new();
    while tokens.len() < count {
        assert!(started.elapsed() < PATIENCE, "{tokens:?} of {count}");
        io.kick();
        while let Some(done) = io.complete() {
            assert_eq!(done.result.unwrap(), u32::try_from(BLOCK).unwrap());
            tokens.push(done.token.0);
        }
    }
    tokens.sort_unstable();
    tokens
}

/// Field report `cq-overflow`: the completion queue overflows while nobody looks, and what did not fit in is
/// waited for in vain.
#[test]
fn cq_overflow_completions_that_found_their_queue_full_are_not_lost() {
    let (mut io, threads) = world();
    let dir = disk();
    let file = file_in(dir.path());
    let block = Region::new(BLOCK).unwrap();
    // More than the queue holds, as many wake-ups of a socket would be, and nobody reaps.
    let nothing = opcode::Nop::new().build().user_data(IGNORED);
    let most = 4 * ENTRIES;
    for _ in 0..2 * most {
        if !io.push(&nothing) {
            io.ring.submit().unwrap();
            assert!(io.push(&nothing));
        }
    }
    io.ring.submit().unwrap();
    for number in 0..10 {
        let op = DiskOp::Write {
            file: file.clone(),
            offset: 0,
            bytes: block.pin(0..BLOCK),
            tail: None,
        };
        io.submit(Token(number), op).unwrap();
    }
    io.ring.submit().unwrap();
    let started = Instant::now();
    while !io.ring.submission().cq_overflow() {
        assert!(started.elapsed() < PATIENCE, "the queue never overflowed");
        std::thread::yield_now();
    }
    assert_eq!(io.ring.completion().len(), most as usize, "it is full");
    assert_eq!(collect(&mut io, 10), (0..10).collect::<Vec<_>>());
    drop(io);
    threads.stop();
}

/// More operations than the ring has entries are given back, and go on when some have ended.
#[test]
fn operations_beyond_the_ring_are_given_back_and_taken_later() {
    let (mut io, threads) = world();
    let dir = disk();
    let file = file_in(dir.path());
    let block = Region::new(BLOCK).unwrap();
    let op = || DiskOp::Write {
        file: file.clone(),
        offset: 0,
        bytes: block.pin(0..BLOCK),
        tail: None,
    };
    for number in 0..u64::from(ENTRIES) {
        io.submit(Token(number), op()).unwrap();
    }
    assert!(io.submit(Token(99), op()).is_err(), "no slot is free");
    let all = collect(&mut io, ENTRIES as usize);
    assert_eq!(all, (0..u64::from(ENTRIES)).collect::<Vec<_>>());
    io.submit(Token(99), op()).unwrap();
    assert_eq!(collect(&mut io, 1), [99]);
    drop(io);
    threads.stop();
}
