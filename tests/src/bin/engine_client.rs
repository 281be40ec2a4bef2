//! An engine that does what its standard input says, so that tests can run it under an environment
//! and limits of its own and look at it from outside.
//!
//! | line read | line written |
//! |---|---|
//! | `open CONNECT_STRING` | `open`, or `error: ...` |
//! | `publish BATCHES BYTES` | `publishing`: on a thread of its own, one row of that size each |
//! | `push BATCHES BYTES` | the same, but none of them is waited for to be written |
//! | `status` | `ready=0 published=12 slowest_micros=900 frames_acked=11 ... reasons=...`: whether it is ready, batches published, the slowest `flush` of this `publish`, every counter |
//! | `published` | `published`, when that thread has ended; or `error: ...` |
//! | `close` | `closed`, or `error: ...` |
//! | `small_pages` | `small_pages`: the kernel gives this process no huge pages any more |

use std::error::Error;
use std::fmt::Write as _;
use std::io::{BufRead, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use forebay::{Engine, TimestampNanos};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Default)]
struct Client {
    engine: Option<Engine>,
    publisher: Option<JoinHandle<Outcome<()>>>,
    published: Arc<AtomicU64>,
    slowest_micros: Arc<AtomicU64>,
}

impl Client {
    fn engine(&self) -> Outcome<&Engine> {
        self.engine.as_ref().ok_or_else(|| "nothing is open".into())
    }

    fn obey(&mut self, line: &str) -> Outcome<String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "open" => {
                self.engine = Some(Engine::connect(rest)?);
                Ok("open".to_owned())
            }
            "publish" => self.publish(rest, true),
            "push" => self.publish(rest, false),
            "published" => {
                let publisher = self.publisher.take().ok_or("nobody publishes")?;
                publisher.join().map_err(|_| "the publisher panicked")??;
                Ok("published".to_owned())
            }
            "status" => self.status(),
            "close" => {
                let engine = self.engine.take().ok_or("nothing is open")?;
                engine.close()?;
                Ok("closed".to_owned())
            }
            "small_pages" => small_pages(),
            _ => Err(format!("no such command: {line}").into()),
        }
    }

    fn publish(&mut self, rest: &str, written: bool) -> Outcome<String> {
        let (batches, bytes) = rest.split_once(' ').ok_or("publish BATCHES BYTES")?;
        let (batches, bytes): (i64, usize) = (batches.parse()?, bytes.parse()?);
        let mut producer = self.engine()?.producer()?;
        let (published, slowest) = (self.published.clone(), self.slowest_micros.clone());
        slowest.store(0, Ordering::Relaxed);
        let text = "x".repeat(bytes);
        self.publisher = Some(std::thread::spawn(move || {
            for n in 0..batches {
                producer
                    .table("t")?
                    .column_i64("n", n)?
                    .column_str("v", &text)?;
                producer.at(TimestampNanos(n + 1))?;
                let start = Instant::now();
                if written {
                    producer.flush()?;
                } else {
                    producer.publish()?;
                }
                let micros = u64::try_from(start.elapsed().as_micros())?;
                slowest.fetch_max(micros, Ordering::Relaxed);
                published.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }));
        Ok("publishing".to_owned())
    }

    fn status(&self) -> Outcome<String> {
        let status = self.engine()?.status();
        let published = self.published.load(Ordering::Relaxed);
        let slowest = self.slowest_micros.load(Ordering::Relaxed);
        let ready = u8::from(status.ready);
        let mut line = format!("ready={ready} published={published} slowest_micros={slowest}");
        for (name, value) in status.stats.iter() {
            write!(line, " {name}={value}")?;
        }
        write!(line, " reasons={}", status.reasons.join("; "))?;
        Ok(line)
    }
}

fn small_pages() -> Outcome<String> {
    // SAFETY: a switch of the process; no pointers.
    let refused = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    if refused != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok("small_pages".to_owned())
}

fn main() -> std::io::Result<()> {
    let mut client = Client::default();
    for line in std::io::stdin().lock().lines() {
        let answer = client
            .obey(&line?)
            .unwrap_or_else(|error| format!("error: {error}").replace('\n', " "));
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
