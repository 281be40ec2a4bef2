//! A long run with random faults, and an account of every row at its end.
//!
//! The driver hosts a server ([`crate::sink`]) that enters every row it stores into a ledger. A
//! writer process publishes numbered rows and tells what its flushes confirmed; the driver kills
//! it, restarts it, cuts connections, stops listening and lets the server misbehave. At the end
//! everything is drained, and for each table: what was confirmed was stored or kept as refused,
//! in order, nothing was invented, and rows stored twice are explained by frames sent again.
//!
//! | file | concept |
//! |---|---|
//! | `writer` | the process that is killed |
//! | `words` | what it tells |
//! | `faults` | what can happen |
//! | `ledger` | the books |
//! | `seen` | numbers that came |
//! | `account` | the result |

mod account;
mod faults;
mod ledger;
mod seen;
mod words;
mod writer;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use self::account::Tally;
use self::faults::Fault;
use self::ledger::Ledger;
use self::words::Word;
use crate::error::Error;
use crate::random::Random;
use crate::signals::StopFlag;
use crate::sink::{Script, Sink, SinkConfig, Watch};

pub use self::account::Account;
pub use self::writer::{WriterOptions, write};

/// How long the writer may take to close, which includes draining.
const CLOSE_LIMIT: Duration = Duration::from_mins(1);
/// Attempts to drain the slot at the end.
const DRAINS_MAX: u32 = 5;

/// What a soak is told.
#[derive(Debug, Clone)]
pub struct SoakOptions {
    /// How long faults go on.
    pub time: Duration,
    /// They follow from it, but for what the scheduler adds.
    pub seed: u64,
    /// Where the temporary directory goes.
    pub parent: Option<PathBuf>,
}

type Books = Arc<Mutex<Ledger>>;

fn open(books: &Books) -> MutexGuard<'_, Ledger> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs to the account.
///
/// # Errors
/// What keeps the soak itself from running; faults of the engine are in the account.
pub fn soak(options: &SoakOptions, stop: &StopFlag) -> Result<Account, Error> {
    let parent = options.parent.clone().unwrap_or_else(std::env::temp_dir);
    let dir = tempfile::Builder::new()
        .prefix("forebay-soak-")
        .tempdir_in(&parent)
        .map_err(|source| Error::io("make a directory in", &parent, source))?;
    let books = Books::default();
    let watched = Arc::clone(&books);
    let sink = Sink::start(SinkConfig {
        script: Some(Script::default()),
        watch: Some(Watch::new(move |block| open(&watched).stored(block))),
        ..SinkConfig::default()
    });
    let sink = sink.map_err(|error| Error::Sink(error.to_string()))?;
    let mut driver = Driver {
        conf: conf(&sink, dir.path()),
        books: Arc::clone(&books),
        random: Random::new(options.seed),
        writer: None,
        tally: Tally::default(),
    };
    driver.start()?;
    let start = Instant::now();
    while start.elapsed() < options.time && !stop.is_set() {
        let pause = Duration::from_millis(200 + driver.random.below(2500));
        thread::sleep(pause.min(options.time.saturating_sub(start.elapsed())));
        let fault = faults::choose(&mut driver.random);
        eprintln!("{:>8.1} s  {fault:?}", start.elapsed().as_secs_f64());
        driver.happen(&sink, &fault)?;
    }
    sink.set_script(Script::default());
    driver.drain()?;
    let mut ledger = open(&books);
    ledger.end_life();
    let rejected = dir.path().join("rejected");
    ledger
        .read_rejected(&rejected)
        .map_err(|source| Error::io("read", &rejected, source))?;
    Ok(Account::new(options.seed, &ledger, driver.tally))
}

fn conf(sink: &Sink, dir: &Path) -> String {
    format!(
        "ws::addr={};sf_dir={};sender_id=soak;sf_max_segment_bytes=256k;sf_max_total_bytes=8m;\
         initial_connect_retry=async;pin=off;sf_append_deadline_millis=500;\
         reconnect_initial_backoff_millis=5;reconnect_max_backoff_millis=100;\
         ping_interval_millis=300;ack_progress_timeout_millis=2000;max_frame_rejections=50;\
         on_schema_error=dead_letter;rejected_dir={};close_flush_timeout_millis=20000;",
        sink.addr(),
        dir.join("sf").display(),
        dir.join("rejected").display()
    )
}

struct Writer {
    process: Child,
    reader: JoinHandle<()>,
}

struct Driver {
    conf: String,
    books: Books,
    random: Random,
    writer: Option<Writer>,
    tally: Tally,
}

impl Driver {
    fn start(&mut self) -> Result<(), Error> {
        let from = open(&self.books).begin_life();
        let from: Vec<String> = from.iter().map(u64::to_string).collect();
        let program = std::env::current_exe()
            .map_err(|source| Error::io("find", Path::new("this program"), source))?;
        let mut process = Command::new(&program)
            .args(["soak-writer", "--conf", &self.conf])
            .args(["--from", &from.join(",")])
            .args(["--seed", &self.random.below(u64::MAX).to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| Error::io("start", &program, source))?;
        let out = process.stdout.take();
        let books = Arc::clone(&self.books);
        let reader = thread::spawn(move || {
            let Some(out) = out else { return };
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Some(word) = Word::parse(&line) {
                    open(&books).hear(word);
                }
            }
        });
        self.writer = Some(Writer { process, reader });
        Ok(())
    }

    fn happen(&mut self, sink: &Sink, fault: &Fault) -> Result<(), Error> {
        self.tally.faults += u64::from(*fault != Fault::Peace);
        match fault {
            Fault::Kill => {
                self.tally.kills += 1;
                if let Some(mut writer) = self.writer.take() {
                    // It may have ended by itself: then there is nothing to kill.
                    let _ = writer.process.kill();
                    let _ = writer.process.wait();
                    let _ = writer.reader.join();
                }
                self.start()
            }
            Fault::Restart => {
                self.tally.restarts += 1;
                self.close()?;
                self.start()
            }
            Fault::Cut => {
                sink.cut_connections();
                Ok(())
            }
            Fault::Down(time) => {
                sink.stop_listening(*time);
                sink.cut_connections();
                Ok(())
            }
            Fault::Script(text) => {
                let script = text.parse::<Script>();
                sink.set_script(script.map_err(|error| Error::Internal(error.to_string()))?);
                Ok(())
            }
            Fault::Peace => {
                sink.set_script(Script::default());
                Ok(())
            }
        }
    }

    /// Lets the writer close; true if it says that everything is acked.
    fn close(&mut self) -> Result<bool, Error> {
        let Some(mut writer) = self.writer.take() else {
            return Ok(false);
        };
        drop(writer.process.stdin.take());
        let start = Instant::now();
        let status = loop {
            let ended = writer.process.try_wait();
            let ended =
                ended.map_err(|e| Error::Internal(format!("waiting for the writer: {e}")))?;
            match ended {
                Some(status) => break status.code(),
                None if start.elapsed() > CLOSE_LIMIT => {
                    let _ = writer.process.kill();
                    let _ = writer.process.wait();
                    break None;
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        let _ = writer.reader.join();
        Ok(status == Some(0))
    }

    fn drain(&mut self) -> Result<(), Error> {
        for _ in 0..DRAINS_MAX {
            if self.close()? {
                self.tally.drained = true;
                return Ok(());
            }
            self.start()?;
        }
        self.close().map(drop)
    }
}
