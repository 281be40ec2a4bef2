//! An engine as a process of its own that says how far its rows have come.
//!
//! ```text
//! stage_writer CONNECT_STRING ROWS FORCE_EVERY
//! ```
//! It publishes ROWS numbered rows, one a frame, a few at a time, and says `stable N` whenever it
//! learns that all rows below N are stable; every `FORCE_EVERY` rows (0 for never) it waits for it.
//! At the end it says `published`, closes without waiting for the server, and says `left`.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use forebay::{Engine, Receipt, Stage};
use forebay_tests::numbered;

const PATIENCE: Duration = Duration::from_mins(3);
/// Rows that are published before one is waited for.
const BURSTS: [u64; 4] = [1, 1, 3, 7];

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Rows whose receipts are not stable yet, and those before them.
#[derive(Default)]
struct Account {
    waiting: VecDeque<Receipt>,
    stable: u64,
}

impl Account {
    fn look(&mut self) -> Result<(), Box<dyn Error>> {
        let before = self.stable;
        while let Some(receipt) = self.waiting.front() {
            if !receipt.reached(Stage::Stable)? {
                break;
            }
            self.waiting.pop_front();
            self.stable += 1;
        }
        if self.stable > before {
            say(&format!("stable {}", self.stable))?;
        }
        Ok(())
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [conf, rows, force_every] = arguments.as_slice() else {
        return Err("stage_writer CONNECT_STRING ROWS FORCE_EVERY".into());
    };
    let (rows, force_every): (u64, u64) = (rows.parse()?, force_every.parse()?);
    let engine = Engine::connect(conf)?;
    let mut producer = engine.producer()?;
    let mut account = Account::default();
    let mut bursts = BURSTS.into_iter().cycle();
    let mut left = 0;
    for number in 0..rows {
        numbered::fill(&mut producer, number)?;
        let receipt = producer.publish()?;
        account.waiting.push_back(receipt.clone());
        if left == 0 {
            producer.flush()?;
            left = bursts.next().unwrap_or(1);
        }
        left -= 1;
        if (number + 1).checked_rem(force_every) == Some(0) {
            receipt.wait(Stage::Stable, PATIENCE)?;
        }
        account.look()?;
    }
    producer.flush()?;
    account.look()?;
    say("published")?;
    drop(producer);
    match engine.close() {
        Ok(()) | Err(forebay::Error::NotDrained { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    account.look().ok();
    Ok(say("left")?)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stage_writer: {error}");
            ExitCode::FAILURE
        }
    }
}
