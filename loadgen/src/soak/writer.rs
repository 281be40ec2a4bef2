//! The process that is killed: producers that number their rows and tell what was confirmed.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use forebay::{Engine, Error, Producer, TimestampNanos};

use super::words::{PRODUCERS, TABLES, Word, table};
use crate::random::Random;
use crate::signals::StopFlag;

/// A batch each, unless the engine is full.
const BATCH_EVERY: Duration = Duration::from_millis(4);
/// Most rows of a table in a batch.
pub(crate) const ROWS_MAX: u64 = 40;

/// What the driver gives.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Connect string.
    pub conf: String,
    /// First numbers, by producer and table.
    pub from: Vec<u64>,
    /// Seed of the batches' shapes.
    pub seed: u64,
}

fn say(word: Word) {
    let mut out = std::io::stdout().lock();
    // Who does not listen any more has killed this process, or is about to.
    let _ = writeln!(out, "{word}").and_then(|()| out.flush());
}

/// Writes until stdin ends or the process is told to stop. Exit status 0: all is acked; 3: rows
/// are left in the slot; 4: the engine took no more rows.
pub fn write(options: &WriterOptions, stop: &StopFlag) -> ExitCode {
    let told = stop.clone();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.set();
    });
    let engine = match Engine::connect(&options.conf) {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!("soak writer: {error}");
            return ExitCode::from(4);
        }
    };
    let refused = thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|number| {
                let engine = &engine;
                scope.spawn(move || produce(engine, number, options, stop))
            })
            .collect();
        let observer = scope.spawn(|| observe(&engine, stop));
        let ends: Vec<_> = producers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        stop.set();
        let _ = observer.join();
        ends.into_iter().any(|end| !matches!(end, Ok(Ok(()))))
    });
    tell(&engine);
    match engine.close() {
        Ok(()) if !refused => ExitCode::SUCCESS,
        Ok(()) | Err(Error::NotDrained { .. }) if !refused => ExitCode::from(3),
        other => {
            eprintln!("soak writer: {other:?}");
            ExitCode::from(4)
        }
    }
}

fn tell(engine: &Engine) {
    let stats = engine.stats();
    say(Word::Stats([
        stats.frames_replayed,
        stats.frames_recovered,
        stats.publishes_timed_out,
    ]));
}

fn observe(engine: &Engine, stop: &StopFlag) {
    let mut last = (u64::MAX, u64::MAX);
    while !stop.is_set() {
        let stats = engine.stats();
        let now = (stats.frames_replayed, stats.publishes_timed_out);
        if now != last {
            tell(engine);
            last = now;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn produce(
    engine: &Engine,
    number: usize,
    options: &WriterOptions,
    stop: &StopFlag,
) -> Result<(), Error> {
    let mut producer = engine.producer()?;
    let mut random = Random::new(options.seed ^ (number as u64) << 32);
    let mut next = [0; TABLES];
    for (index, place) in next.iter_mut().enumerate() {
        *place = options
            .from
            .get(number * TABLES + index)
            .copied()
            .unwrap_or(0);
    }
    let mut due = Instant::now();
    while !stop.is_set() {
        for (index, place) in next.iter_mut().enumerate() {
            for _ in 0..random.below(ROWS_MAX + 1) {
                row(&mut producer, index, number, *place)?;
                *place += 1;
            }
        }
        say(Word::Tries(number, next));
        loop {
            match producer.flush() {
                Ok(()) => {
                    say(Word::Confirmed(number, next));
                    break;
                }
                // What was not accepted is tried again; after a stop it is given up.
                Err(Error::Backpressure { .. }) if !stop.is_set() => {}
                Err(Error::Backpressure { .. }) => {
                    producer.clear();
                    return Ok(());
                }
                // Accepted and not written yet: a later flush confirms it.
                Err(Error::Timeout { .. }) => break,
                Err(error) => {
                    eprintln!("soak writer: {error}");
                    return Err(error);
                }
            }
        }
        due = (due + BATCH_EVERY).max(Instant::now());
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

fn row(producer: &mut Producer, index: usize, number: usize, row: u64) -> Result<(), Error> {
    let signed = i64::try_from(row).unwrap_or(i64::MAX);
    producer
        .table(&table(index))?
        .symbol("sym", &format!("S{}", row % 97))?
        .column_i64("p", i64::try_from(number).unwrap_or(0))?
        .column_i64("n", signed)?
        .column_f64(
            "price",
            100.0 + f64::from(u32::try_from(row % 1000).unwrap_or(0)),
        )?
        .at(TimestampNanos(1_700_000_000_000_000_000 + signed))
}
