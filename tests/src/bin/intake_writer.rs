//! Producers at full speed, to be killed: every batch is one numbered row, flushed at once.
//!
//! ```text
//! intake_writer CONNECT_STRING LIFE PRODUCERS PROGRESS_FILE TABLES
//! ```
//! Batch n goes to table `rows<n modulo TABLES>`. It says `open` when it holds the slot. The file has eight bytes for each producer: how many of
//! its batches were flushed, noted after each `flush()`. What is written to a file survives SIGKILL.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::thread;

use forebay::{Engine, Producer, TimestampNanos};

/// Texts of several lengths, so that entries end everywhere in a ring.
const TEXT: &str = "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz";

fn produce(
    mut rows: Producer,
    (life, id): (i64, u64),
    tables: u64,
    progress: &File,
) -> Result<(), forebay::Error> {
    for n in 0_u64.. {
        let number = i64::try_from(n).unwrap_or(i64::MAX);
        let text = usize::try_from(n * 7 % 72).unwrap_or(0);
        rows.table(&format!("rows{}", n % tables))?
            .symbol("sym", &format!("S{life}-{}", n % 11))?;
        rows.column_i64("life", life)?;
        rows.column_i64("p", i64::try_from(id).unwrap_or(0))?;
        rows.column_i64("n", number)?;
        rows.column_str("v", &TEXT[..text])?;
        rows.at(TimestampNanos(number + 1))?;
        loop {
            match rows.flush() {
                Ok(()) => break,
                Err(forebay::Error::Backpressure { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let flushed = (n + 1).to_le_bytes();
        if progress.write_all_at(&flushed, id * 8).is_err() {
            return Err(forebay::Error::Misuse("the progress cannot be noted"));
        }
    }
    Ok(())
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [conf, life, producers, progress, tables] = arguments.as_slice() else {
        return Err("intake_writer CONNECT_STRING LIFE PRODUCERS PROGRESS_FILE TABLES".into());
    };
    let tables: u64 = tables.parse()?;
    let (life, producers): (i64, u64) = (life.parse()?, producers.parse()?);
    let progress = File::options().write(true).open(progress)?;
    let engine = Engine::connect(conf)?;
    let mut out = std::io::stdout();
    writeln!(out, "open")?;
    out.flush()?;
    let handles: Result<Vec<Producer>, _> = (0..producers).map(|_| engine.producer()).collect();
    thread::scope(|scope| {
        let work = handles?.into_iter().zip(0..).map(|(rows, id)| {
            let progress = &progress;
            scope.spawn(move || produce(rows, (life, id), tables, progress))
        });
        let work: Vec<_> = work.collect();
        for producer in work {
            match producer.join() {
                Ok(outcome) => outcome?,
                Err(_) => return Err("a producer panicked".into()),
            }
        }
        Ok(())
    })
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("intake_writer: {error}");
            ExitCode::FAILURE
        }
    }
}
