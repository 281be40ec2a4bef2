//! Several producers at once, to acked: threads of one engine, or a sender of its own each.

use std::error::Error;
use std::ops::Range;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay::{Engine, Stage};
use forebay_loadgen::cpu;
use forebay_loadgen::feed::{Feed, Way};
use forebay_loadgen::quotes::Quotes;
use forebay_loadgen::usage::process_cpu;

use super::contender::Contender;
use super::figures::Figures;
use super::job::FIRST_NS;
use super::official::Rows;
use crate::limits::figures::float;

const LIMIT: Duration = Duration::from_mins(1);

/// How many, and how much in all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    pub(super) producers: u64,
    pub(super) batch: u64,
    pub(super) rows: u64,
    /// In all, before the clock starts.
    pub(super) warm_rows: u64,
}

/// What the threads of a measurement share.
struct Start {
    /// All are warm; then all go.
    warm: Barrier,
    go: Barrier,
    /// CPU time of those that have ended, nanoseconds.
    spent: Mutex<u64>,
}

impl Crowd {
    fn start(self) -> Result<Start, Box<dyn Error>> {
        let all = usize::try_from(self.producers + 1)?;
        Ok(Start {
            warm: Barrier::new(all),
            go: Barrier::new(all),
            spent: Mutex::new(0),
        })
    }

    fn batches(self) -> u64 {
        self.rows / self.producers / self.batch
    }

    /// Batches of a producer before the clock starts.
    fn warm_batches(self) -> u64 {
        (self.warm_rows / self.producers / self.batch).max(1)
    }

    /// Threads of one engine.
    pub(super) fn ours(self, conf: &str, way: Way) -> Result<Figures, Box<dyn Error>> {
        let engine = Engine::connect(conf)?;
        let quotes = Quotes::new(FIRST_NS);
        let produce = |start: &Start| -> Result<(), forebay::Error> {
            let mut producer = engine.producer()?;
            let mut feed = Feed::new(&quotes, way, 1, &mut producer)?;
            let mut send = |batches: Range<u64>| {
                for number in batches {
                    feed.fill(&mut producer, 0, number * self.batch, self.batch)?;
                    producer.publish()?;
                }
                // An empty publish answers for everything before.
                producer.publish()
            };
            let warm = self.warm_batches();
            send(0..warm)?.wait(Stage::Acked, LIMIT)?;
            start.warm.wait();
            start.go.wait();
            let before = cpu::thread_cpu_ns();
            let receipt = send(warm..warm + self.batches())?;
            start.spend(cpu::thread_cpu_ns() - before);
            receipt.wait(Stage::Acked, LIMIT)
        };
        self.measure(|start, _| Ok(produce(start)?))
    }

    /// A sender each, with a slot and a connection of its own: a `Sender` serves one thread.
    pub(super) fn official(self, conf: &str) -> Result<Figures, Box<dyn Error>> {
        let quotes = Quotes::new(FIRST_NS);
        self.measure(|start, index| {
            let own = conf.replace("sender_id=versus;", &format!("sender_id=versus-{index};"));
            let mut rows = Rows::connect(&own, &quotes)?;
            let send = |rows: &mut Rows<'_>, batches: Range<u64>| {
                for number in batches {
                    let batch = number * self.batch..(number + 1) * self.batch;
                    rows.fill(batch.clone())?;
                    rows.hand_over(batch)?;
                }
                Ok::<_, Box<dyn Error>>(())
            };
            let warm = self.warm_batches();
            send(&mut rows, 0..warm)?;
            rows.wait_acked(LIMIT)?;
            start.warm.wait();
            start.go.wait();
            let before = cpu::thread_cpu_ns();
            send(&mut rows, warm..warm + self.batches())?;
            start.spend(cpu::thread_cpu_ns() - before);
            rows.wait_acked(LIMIT)
        })
    }

    fn measure(
        self,
        produce: impl Fn(&Start, u64) -> Result<(), Box<dyn Error>> + Sync,
    ) -> Result<Figures, Box<dyn Error>> {
        let start = self.start()?;
        let (start, produce) = (&start, &produce);
        let (seconds, used) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.producers)
                .map(|index| {
                    scope.spawn(move || {
                        // Whoever waits for this thread at a barrier would wait for ever.
                        produce(start, index).unwrap_or_else(|error| {
                            eprintln!("producer {index}: {error}");
                            std::process::exit(1);
                        });
                    })
                })
                .collect();
            start.warm.wait();
            let (begun, before) = (Instant::now(), process_cpu());
            start.go.wait();
            for thread in threads {
                thread.join().map_err(|_| "a producer panicked")?;
            }
            let used = process_cpu().saturating_sub(before);
            Ok::<_, Box<dyn Error>>((begun.elapsed().as_secs_f64(), used))
        })?;
        let rows = float(self.batches() * self.batch * self.producers);
        let spent = *start.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = float(u64::try_from(used.as_nanos())?);
        let mut figures = Figures::default();
        figures.set("rows_s", rows / seconds);
        figures.set("seconds", seconds);
        figures.set("producer_ns_row", float(spent) / rows);
        figures.set("whole_ns_row", whole / rows);
        Ok(figures)
    }
}

impl Start {
    fn spend(&self, cpu_ns: u64) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent += cpu_ns;
    }
}
