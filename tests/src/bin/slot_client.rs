//! One writer of a slot as a process of its own, so that it can be killed: this engine or the
//! official Rust client, behind the same commands.
//!
//! ```text
//! slot_client ours|official CONNECT_STRING
//! ```
//! It says `open` when it holds the slot and then obeys lines on stdin:
//!
//! - `rows FIRST COUNT TEXT_BYTES SYMBOLS`: publishes COUNT frames of one row each, and says
//!   `accepted N` whenever everything up to row N is in the slot,
//! - `acked`: waits until the server confirmed everything, and says so,
//! - end of input: leaves the slot without waiting, says `left`.
//!
//! Any error ends it with status 1 and the error on stderr.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use forebay::{Engine, Producer};
use questdb::ingress::{AckLevel, Buffer, Sender, TimestampNanos};

type Outcome<T> = Result<T, Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_mins(3);
/// How long the lock of a killed process may stay; the official client asks for it only once.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// This engine publishes so many frames before it waits for them, so that a kill meets some on
/// their way.
const OURS_FLUSH_EVERY: u64 = 3;

/// A numbered row: one frame.
struct Row {
    number: u64,
    text: String,
    symbol: Option<String>,
}

trait Writer {
    /// Publishes; true when this row and all before it are in the slot.
    fn publish(&mut self, row: &Row, last: bool) -> Outcome<bool>;
    fn wait_acked(&mut self) -> Outcome<()>;
    fn leave(self: Box<Self>) -> Outcome<()>;
}

struct Ours {
    engine: Engine,
    producer: Producer,
}

impl Writer for Ours {
    fn publish(&mut self, row: &Row, last: bool) -> Outcome<bool> {
        let producer = self.producer.table("t")?;
        if let Some(symbol) = &row.symbol {
            producer.symbol("sym", symbol)?;
        }
        producer.column_i64("n", i64::try_from(row.number)?)?;
        producer.column_str("v", &row.text)?;
        producer.at(forebay::TimestampNanos(i64::try_from(row.number)? + 1))?;
        let flush = last || row.number.is_multiple_of(OURS_FLUSH_EVERY);
        if flush {
            self.producer.flush()?;
        } else {
            self.producer.publish()?;
        }
        Ok(flush)
    }

    fn wait_acked(&mut self) -> Outcome<()> {
        Ok(self.engine.wait_acked(PATIENCE)?)
    }

    fn leave(self: Box<Self>) -> Outcome<()> {
        let Self { engine, producer } = *self;
        drop(producer);
        match engine.close() {
            Err(forebay::Error::NotDrained { .. }) => Ok(()),
            other => Ok(other?),
        }
    }
}

struct Official {
    sender: Sender,
    buffer: Buffer,
}

impl Writer for Official {
    fn publish(&mut self, row: &Row, _last: bool) -> Outcome<bool> {
        self.buffer.table("t")?;
        if let Some(symbol) = &row.symbol {
            self.buffer.symbol("sym", symbol.as_str())?;
        }
        self.buffer.column_i64("n", i64::try_from(row.number)?)?;
        self.buffer.column_str("v", row.text.as_str())?;
        let at = TimestampNanos::new(i64::try_from(row.number)? + 1);
        self.buffer.at(at)?;
        self.sender.flush(&mut self.buffer)?;
        Ok(true)
    }

    fn wait_acked(&mut self) -> Outcome<()> {
        Ok(self.sender.wait(AckLevel::Ok, PATIENCE)?)
    }

    fn leave(self: Box<Self>) -> Outcome<()> {
        // Dropping does not wait for the server.
        Ok(())
    }
}

fn open(side: &str, conf: &str) -> Outcome<Box<dyn Writer>> {
    if side == "ours" {
        let engine = Engine::connect(conf)?;
        let producer = engine.producer()?;
        return Ok(Box::new(Ours { engine, producer }));
    }
    let until = Instant::now() + LOCK_PATIENCE;
    let sender = loop {
        match Sender::from_conf(conf) {
            Err(error) if error.msg().contains("already in use") && Instant::now() < until => {
                thread::sleep(Duration::from_millis(2));
            }
            other => break other?,
        }
    };
    let buffer = sender.new_buffer();
    Ok(Box::new(Official { sender, buffer }))
}

fn say(line: impl Display) -> Outcome<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn rows(writer: &mut dyn Writer, numbers: &[u64]) -> Outcome<()> {
    let [first, count, text_bytes, symbols] = numbers else {
        return Err("rows FIRST COUNT TEXT_BYTES SYMBOLS".into());
    };
    for number in *first..first + count {
        let row = Row {
            number,
            text: "x".repeat(usize::try_from(*text_bytes)?),
            symbol: number.checked_rem(*symbols).map(|id| format!("S{id}")),
        };
        if writer.publish(&row, number + 1 == first + count)? {
            say(format_args!("accepted {number}"))?;
        }
    }
    Ok(())
}

fn run() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [side, conf] = arguments.as_slice() else {
        return Err("slot_client ours|official CONNECT_STRING".into());
    };
    let mut writer = open(side, conf)?;
    say("open")?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split(' ');
        match words.next() {
            Some("rows") => {
                let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>()?;
                rows(writer.as_mut(), &numbers)?;
            }
            Some("acked") => {
                writer.wait_acked()?;
                say("acked")?;
            }
            _ => return Err(format!("unknown command {line:?}").into()),
        }
    }
    writer.leave()?;
    say("left")
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("slot_client: {error}");
            ExitCode::FAILURE
        }
    }
}
