//! A process with engines that forks, for `tests/tests/fork.rs`: what the child may do with what
//! it inherited, and what becomes of the parent.
//!
//! | arguments | what happens | lines written |
//! |---|---|---|
//! | `handles CONNECT` | the child tries every call of every handle, then drops all; the parent goes on and closes | `child: ok`, `parent: ok` |
//! | `own CONNECT CONNECT` | the child has an engine of its own, by the second string | the same |
//! | `leave CONNECT CONNECT` | the child drops the first engine, keeps the second and lives until its input ends; the parent publishes until it is killed | `child PID`, `parent: busy` |
//! | `exec CONNECT CONNECT` | the same with a child that becomes another program | the same |
//! | `alone CONNECT CONNECT` | the same without a child | `parent: busy` |

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use forebay::internals::fork;
use forebay::{ColumnType, Engine, Producer, Receipt, Stage, TimestampNanos};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Rows that the parent publishes on each side of the fork, one a batch.
const ROWS: i64 = 50;

fn publish(producer: &mut Producer, rows: std::ops::Range<i64>) -> Outcome<()> {
    for n in rows {
        producer.table("t")?.symbol("s", "x")?.column_i64("n", n)?;
        producer.at(TimestampNanos(n + 1))?;
        producer.flush()?;
    }
    Ok(())
}

fn expect(what: &str, holds: bool) -> Outcome<()> {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn misused<T>(what: &str, outcome: Result<T, forebay::Error>) -> Outcome<()> {
    let error = outcome.err().ok_or_else(|| format!("{what}: no error"))?;
    let named = error.to_string().contains("forked child");
    let misuse = matches!(error, forebay::Error::Misuse(_)) && named;
    expect(&format!("{what}: {error}"), misuse)
}

/// Runs `child` in a child; answers what it said.
fn in_a_child(child: impl FnOnce() -> Outcome<()>) -> Outcome<String> {
    let (mut reader, mut writer) = std::io::pipe()?;
    if fork()?.is_some() {
        drop(writer);
        let mut said = String::new();
        reader.read_to_string(&mut said)?;
        return Ok(said);
    }
    drop(reader);
    let start = Instant::now();
    let said = match child() {
        Ok(()) => format!("ok after {} ms", start.elapsed().as_millis()),
        Err(error) => error.to_string(),
    };
    let _ = writer.write_all(said.as_bytes());
    std::process::exit(0);
}

fn every_call(
    engine: &Engine,
    producer: &mut Producer,
    receipt: &mut Receipt,
    prepared: (forebay::TableId, forebay::ColumnId),
) -> Outcome<()> {
    let wait = Duration::from_secs(5);
    misused("producer", engine.producer())?;
    misused("wait_acked", engine.wait_acked(wait))?;
    let status = engine.status();
    expect(
        "a status",
        !status.ready && status.reasons[0].contains("forked"),
    )?;
    expect("stats", engine.stats() == forebay::Stats::default())?;
    expect(
        "tables",
        engine.tables().is_empty() && engine.recent_errors().is_empty(),
    )?;
    expect("a failure", engine.last_failure().is_some())?;
    misused("reached", receipt.reached(Stage::Accepted))?;
    misused("wait", receipt.wait(Stage::Acked, wait))?;
    match Pin::new(receipt).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => misused("poll", outcome)?,
        Poll::Pending => return Err("poll: pending".into()),
    }
    expect("headroom", producer.headroom() == 0)?;
    let none = forebay::Positions::default();
    expect("progress", producer.progress() == none)?;
    expect("a watch", producer.watch_progress().progress() == none)?;
    misused("flush", producer.flush())?;
    misused("publish", producer.publish())?;
    misused("try_publish", producer.try_publish())?;
    misused("try_flush", producer.try_flush())?;
    misused("flush_at", producer.flush_at(1 << 40))?;
    misused("table", producer.table("t").map(drop))?;
    misused("row", producer.row(prepared.0).map(drop))?;
    misused("prepare", producer.prepare("new"))?;
    misused(
        "prepare_column",
        producer.prepare_column(prepared.0, "new", ColumnType::Long),
    )?;
    misused("intern", producer.intern("new"))?;
    misused("warm", producer.warm(&["new"], 10))?;
    let mut chunk = forebay::Chunk::new("t");
    chunk.at_nanos(&[1, 2, 3])?;
    misused("publish_chunk", producer.publish_chunk(&chunk))
}

fn handles(connect: &str) -> Outcome<()> {
    let engine = Engine::connect(connect)?;
    let mut producer = engine.producer()?;
    publish(&mut producer, 0..ROWS)?;
    let table = producer.prepare("t")?;
    let column = producer.prepare_column(table, "n", ColumnType::Long)?;
    let mut receipt = producer.publish()?;
    // A task waits on it: its receipt has something to forget when it goes.
    let _ = Pin::new(&mut receipt).poll(&mut Context::from_waker(Waker::noop()));
    // A row that is buffered at the fork is the parent's.
    producer.table("t")?.column_i64("n", ROWS)?;
    producer.at(TimestampNanos(ROWS + 1))?;
    // Nobody but this producer has its ring any more.
    let closed = Engine::connect("ws::addr=127.0.0.1:1;initial_connect_retry=async;pin=off;")?;
    let widow = closed.producer()?;
    closed.close()?;
    let mut own = (Some(engine), Some(producer), Some(receipt), Some(widow));
    let said = in_a_child(|| {
        let (engine, producer, receipt, widow) = &mut own;
        let gone = || -> Box<dyn Error> { "moved".into() };
        let (engine_, producer_) = (engine.as_ref(), producer.as_mut());
        every_call(
            engine_.ok_or_else(gone)?,
            producer_.ok_or_else(gone)?,
            receipt.as_mut().ok_or_else(gone)?,
            (table, column),
        )?;
        // What the rings had of the address space may be the child's own memory now.
        let memory: Vec<Vec<u8>> = (0..64).map(|n| vec![n; 1 << 20]).collect();
        drop((receipt.take(), producer.take(), widow.take()));
        misused("close", engine.take().ok_or_else(gone)?.close())?;
        let whole = (0..)
            .zip(&memory)
            .all(|(n, piece)| piece.iter().all(|byte| *byte == n));
        expect("the child's memory", whole)
    })?;
    println!("child: {said}");
    let (engine, producer, receipt, _widow) = own;
    let (Some(engine), Some(mut producer), Some(receipt)) = (engine, producer, receipt) else {
        return Err("the parent lost its handles".into());
    };
    receipt.wait(Stage::Acked, Duration::from_secs(20))?;
    producer.flush()?;
    publish(&mut producer, ROWS + 1..2 * ROWS)?;
    drop(producer);
    engine.close()?;
    println!("parent: ok");
    Ok(())
}

fn own(connect: &str, childs: &str) -> Outcome<()> {
    let engine = Engine::connect(connect)?;
    let mut producer = engine.producer()?;
    publish(&mut producer, 0..ROWS)?;
    let said = in_a_child(|| {
        let own = Engine::connect(childs)?;
        let mut rows = own.producer()?;
        publish(&mut rows, 0..ROWS)?;
        misused("the parent's flush", producer.flush())?;
        // The child's child: its parent's handles are no more its own.
        let said = in_a_child(|| misused("the child's flush", rows.flush()))?;
        expect(&said, said.starts_with("ok"))?;
        publish(&mut rows, ROWS..2 * ROWS)?;
        own.close()?;
        Ok(())
    })?;
    println!("child: {said}");
    publish(&mut producer, ROWS..2 * ROWS)?;
    engine.close()?;
    println!("parent: ok");
    Ok(())
}

fn outlive(connects: [&str; 2], mode: &str) -> Outcome<()> {
    let first = Engine::connect(connects[0])?;
    let second = Engine::connect(connects[1])?;
    let mut producer = second.producer()?;
    publish(&mut producer, 0..ROWS)?;
    if mode != "alone" && fork()?.is_none() {
        println!("child {}", std::process::id());
        if mode == "exec" {
            return Err(Command::new("cat").exec().into());
        }
        drop(first);
        std::io::stdin().read_to_end(&mut Vec::new())?;
        std::process::exit(0);
    }
    println!("parent: busy");
    publish(&mut producer, ROWS..i64::MAX)
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["handles", connect] => handles(connect),
        ["own", connect, childs] => own(connect, childs),
        [mode @ ("leave" | "exec" | "alone"), first, second] => outlive([first, second], mode),
        _ => Err("handles, own, leave, exec or alone, and connect strings".into()),
    }
}
